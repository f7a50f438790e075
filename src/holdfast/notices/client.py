"""Escalation for users: owners, their notices, and what becomes of those that nobody answers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from holdfast.client.namespace import Namespace
from holdfast.client.validate import checked_count
from holdfast.core.message import id_bytes, id_text, plain_text
from holdfast.core.queue import channel_name
from holdfast.errors import InvalidInput
from holdfast.notices.rules import Notice, OwnerSpec, default_inbox, reported, reported_kind
from holdfast.store.api import Store
from holdfast.topics.rules.declaration import reader_name

if TYPE_CHECKING:
    from holdfast.client.parts import ClientParts

ESCALATE_LIMIT = 100

log = logging.getLogger("holdfast")


def declare_owner(parts: ClientParts, name: str, spec: OwnerSpec) -> None:
    """See `Holdfast.owner`."""
    parts.catalog.open()
    _refuse_circle(name, spec, parts.store.owners.all(parts.settings.tenant))
    parts.store.owners.declare(parts.settings.tenant, name, spec)


class Notices(Namespace):
    """`hf.notices`: what owners have to answer for."""

    def list(
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
        self._catalog.open()
        return self._store.notices.find(
            self._tenant,
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
        self._catalog.open()
        ids = [id_bytes(one) for one in notice_ids]
        if not ids:
            raise InvalidInput("acknowledge() needs the id of a notice, as hf.notices.list() lists them")
        return self._store.notices.acknowledge(self._tenant, self._parts.actor, ids, plain_text(remark, "remark"))

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
            self._catalog.channel(queue)
        self._catalog.open()
        return id_text(self._store.notices.post(self._tenant, kind, about, trouble, owner, queue))

    def owners(self) -> dict[str, OwnerSpec]:
        """Everyone who was declared, by name."""
        self._catalog.open()
        return self._store.owners.all(self._tenant)

    def escalate(self) -> int:
        """Passes on notices that nobody answered in time, sends digests, tells callbacks; how many notices it moved.

        Every client that claims does this by itself, now and then; calling it is never needed and always safe.
        """
        self._catalog.open()
        notices = self._store.notices
        moved = notices.escalate(self._tenant, ESCALATE_LIMIT) if notices.is_due(self._tenant) else 0
        return moved + self._parts.notice_callbacks.tell()


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


def _refuse_circle(name: str, spec: OwnerSpec, known: dict[str, OwnerSpec]) -> None:
    path, above = [name], spec.owner
    while above is not None:
        path.append(above)
        if above == name:
            raise InvalidInput(f"owners would own each other in a circle: {' → '.join(path)}")
        above = known[above].owner if above in known and len(path) < 100 else None
