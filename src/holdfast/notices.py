"""Escalation for users: owners, their notices, and who is told. (`awaiting` has it for asyncio.)"""

from __future__ import annotations

import getpass
import logging
import socket
import time
from collections.abc import Callable

from holdfast.channels import ChannelBook
from holdfast.core.duration import Duration
from holdfast.core.message import id_bytes, id_text, plain_text
from holdfast.core.notice import Notice, OwnerSpec, default_inbox, owner_spec, reported, reported_kind
from holdfast.core.queue import channel_name
from holdfast.core.topic import reader_name
from holdfast.errors import InvalidInput
from holdfast.limits import checked_count
from holdfast.settings import Settings
from holdfast.store.api import Store

Callback = Callable[[list[Notice]], object]

ESCALATE_LIMIT = 100
LOOK_EVERY = 5
"""A client that claims looks after notices and sagas once in so many sweeps."""

log = logging.getLogger("holdfast")


class Escalating:
    """The part of a client that sees to it that someone answers for a dead letter, or for other trouble."""

    settings: Settings
    store: Store
    _book: ChannelBook

    def __init__(self) -> None:
        self._callbacks: dict[str | None, Callback] = {}
        self._looks_at = 0.0

    @property
    def actor(self) -> str:
        """Who operates: the name given, or user and host. It stands in the audit."""
        return self.settings.actor or f"{getpass.getuser()}@{socket.gethostname()}"

    def owner(
        self,
        name: str,
        *,
        inbox: str | None = None,
        owner: str | None = None,
        escalate_after: Duration | None = "15m",
        notify: str = "each",
        digest_every: Duration = "1h",
    ) -> None:
        """Declares who answers for the dead letters of queues with `owner=name`, or changes how.

        Notices come as messages to the queue `inbox` ("name.inbox" by default): one by one, or with `notify="digest"`
        together, once per `digest_every`. What is not acknowledged after `escalate_after` climbs to this owner's own
        `owner`, and so on.
        """
        spec = owner_spec(name, inbox, owner, escalate_after, notify, digest_every)
        self._book.open()
        _refuse_circle(name, spec, self.store.owners.all(self.settings.tenant))
        self.store.owners.declare(self.settings.tenant, name, spec)

    def owners(self) -> dict[str, OwnerSpec]:
        """Everyone who was declared, by name."""
        self._book.open()
        return self.store.owners.all(self.settings.tenant)

    def report(
        self,
        kind: str,
        about: str,
        error: str | BaseException,
        *,
        owner: str | None = None,
        queue: str | None = None,
    ) -> str:
        """Puts something else than a dead letter before an owner: a notice like any other; its id.

        `kind` is a word such as "crash_loop", `about` the name of what is in trouble. `owner` is the queue's, unless
        given. The same kind and name again, while nobody has acknowledged it, is the same notice: its `repeats` count
        up, its `error` is the newest, and nobody is told a second time.
        """
        kind, about, trouble = reported_kind(kind), channel_name(about, "about"), reported(error)
        owner = None if owner is None else channel_name(owner, "owner")
        if queue is not None:
            reader_name(queue, "queue")
            self._book.channel(queue)
        self._book.open()
        return id_text(self.store.notices.post(self.settings.tenant, kind, about, trouble, owner, queue))

    def notices(
        self,
        owner: str | None = None,
        *,
        queue: str | None = None,
        acknowledged: bool = False,
        n: int = 100,
        after: str | None = None,
    ) -> list[Notice]:
        """Notices that wait for an answer (with `acknowledged`, all), oldest first; the next page is `after` the last.

        `owner=""` chooses those that nobody owns.
        """
        self._book.open()
        return self.store.notices.find(
            self.settings.tenant,
            plain_text(owner, "owner"),
            None if queue is None else reader_name(queue, "queue"),
            not acknowledged,
            checked_count(n),
            None if after is None else id_bytes(after),
        )

    def acknowledge(self, *notice_ids: str, remark: str | None = None) -> int:
        """Someone looks after these: they climb no further. How many were still open; who did it stands in the audit.

        Replaying a dead letter acknowledges its notice, deleting it removes it.
        """
        self._book.open()
        ids = [id_bytes(one) for one in notice_ids]
        if not ids:
            raise InvalidInput("acknowledge() needs the id of a notice, as hf.notices() lists them")
        return self.store.notices.acknowledge(self.settings.tenant, self.actor, ids, plain_text(remark, "remark"))

    def on_notice(self, callback: Callback, owner: str | None = None) -> None:
        """Has `callback` told of notices, of one `owner` or of all, whenever this client looks after them.

        It gets a list: one notice, or all of a digest. Of several processes with a callback, one is told, once per
        level: also of a level that the notice has left before anyone looked. If it raises, it is told again after a
        minute.
        """
        if not callable(callback):
            raise InvalidInput("on_notice() needs a function that takes a list of notices")
        self._callbacks[None if owner is None else channel_name(owner, "owner")] = callback

    def escalate(self) -> int:
        """Passes on notices that nobody answered in time, sends digests, tells callbacks; how many notices it moved.

        Every client that claims does this by itself, now and then; calling it is never needed and always safe.
        """
        self._book.open()
        tenant, notices = self.settings.tenant, self.store.notices
        moved = notices.escalate(tenant, ESCALATE_LIMIT) if notices.is_due(tenant) else 0
        return moved + sum(self._tell(owner, callback) for owner, callback in list(self._callbacks.items()))

    def _is_time_to_look(self) -> bool:
        """Whether a client that claims should see now what nobody else may be there for."""
        moment = time.monotonic()
        if moment < self._looks_at:
            return False
        self._looks_at = moment + LOOK_EVERY * self.settings.sweep_every
        return True

    def _tell(self, owner: str | None, callback: Callback) -> int:
        untold = self.store.notices.take_untold(self.settings.tenant, owner, ESCALATE_LIMIT)
        specs = self.store.owners.all(self.settings.tenant) if untold else {}
        told = 0
        for group in _grouped(untold, specs):
            try:
                callback(group)
            except Exception:
                log.exception("a callback for notices failed; it is told again in a minute")
                continue
            self.store.notices.note_told([(id_bytes(notice.id), notice.level) for notice in group])
            told += len(group)
        return told


def mention_inbox(store: Store, tenant: str, of: str, owner: object) -> None:
    """Logs where the notices of an owner go that was never declared: its name may be a mistake."""
    if isinstance(owner, str) and owner not in store.owners.all(tenant):
        inbox = default_inbox(owner)
        log.warning(
            "%s: the owner %r is not declared. Its notices go to the queue %r and climb to nobody; declare it with "
            "hf.owner(%r)",
            of,
            owner,
            inbox,
            owner,
        )


def _grouped(notices: list[Notice], specs: dict[str, OwnerSpec]) -> list[list[Notice]]:
    """One by one, or together for an owner who wants digests."""
    groups: list[list[Notice]] = []
    digests: dict[str, list[Notice]] = {}
    for notice in notices:
        spec = specs.get(notice.owner or "")
        if spec is None or spec.notify == "each":
            groups.append([notice])
        elif notice.owner in digests:
            digests[notice.owner].append(notice)
        else:
            digests[notice.owner or ""] = [notice]
            groups.append(digests[notice.owner or ""])
    return groups


def _refuse_circle(name: str, spec: OwnerSpec, known: dict[str, OwnerSpec]) -> None:
    path, above = [name], spec.owner
    while above is not None:
        path.append(above)
        if above == name:
            raise InvalidInput(f"owners would own each other in a circle: {' → '.join(path)}")
        above = known[above].owner if above in known and len(path) < 100 else None
