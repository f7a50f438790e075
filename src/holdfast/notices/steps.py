"""Notices: made with a dead letter or a report, brought to the owner, passed on while nobody answers. Shared."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import msgspec

from holdfast.core.dead_letter import ErrorText, shortened
from holdfast.core.message import Failure, MessageId, encode_json, id_text
from holdfast.errors import UnknownQueue
from holdfast.notices.rules import ERROR_SHOWN, MOST_LEVELS, Notice, OwnerSpec, default_inbox, digest_body, notice_body
from holdfast.store.engine import channels
from holdfast.store.engine.internal_messages import post
from holdfast.store.ids import new_id
from holdfast.store.transaction import Row, Transaction

_spec = msgspec.json.Decoder(OwnerSpec)

Found = tuple[MessageId, str, Notice]
"""A notice's id, the name of its owner ("" for nobody), and the rest."""


def declare(tx: Transaction, tenant: str, name: str, spec: OwnerSpec) -> None:
    """Creates an owner, or gives one new settings."""
    tx.run("owners.declare", tenant=tenant, name=name, spec=encode_json(spec))


def owners(tx: Transaction, tenant: str) -> dict[str, OwnerSpec]:
    """Everyone who was declared."""
    return {name: _spec.decode(raw) for name, raw in tx.all("owners.list", tenant=tenant)}


def raise_notice(
    tx: Transaction,
    tenant: str,
    channel: int,
    owner: str | None,
    dead: Notice,
    dead_id: MessageId,
    message_id: MessageId,
) -> None:
    """In the transaction of the death. `dead` is the notice as it will be, but for its owner."""
    name, spec = _who(tx, tenant, owner, dead.queue)
    notice = msgspec.structs.replace(dead, owner=name or None)
    tx.run(
        "notices.add",
        id=_raw(notice.id),
        tenant=tenant,
        channel=channel,
        dead_id=dead_id,
        message_id=message_id,
        owner=name,
        error=notice.error,
        traceback=notice.traceback,
        attempts=notice.attempts,
        created_at=notice.created_at_us,
    )
    _bring(tx, tenant, _raw(notice.id), notice, spec, None)


def report(
    tx: Transaction,
    tenant: str,
    kind: str,
    about: str,
    trouble: ErrorText,
    owner: str | None = None,
    queue: str | None = None,
) -> MessageId:
    """Something else than a dead letter; the notice of it, which may be one that nobody has answered yet."""
    channel = None if queue is None else channels.find(tx, tenant, queue)
    if queue is not None and channel is None:
        raise UnknownQueue(f"the queue {queue!r} was never declared; leave queue= out, or declare it first")
    name, spec = _who(tx, tenant, owner or (channel.spec.owner if channel else None), queue)
    # Another id for every try: one whose answer got lost is met as the open notice, and not told of again.
    fresh = new_id()
    error, now = trouble.error, tx.clock()
    notice = Notice(id_text(fresh), queue, name or None, 0, None, None, error, 0, now, kind=kind, about=about)
    notice = msgspec.structs.replace(notice, traceback=trouble.traceback)
    found = tx.one(
        "notices.report",
        id=fresh,
        tenant=tenant,
        kind=kind,
        about=about,
        channel=channel and channel.id,
        owner=name,
        error=error,
        traceback=trouble.traceback,
        created_at=notice.created_at_us,
    )
    assert found is not None, "it is new, or there is an open one"
    notice_id, repeats = found
    if not repeats:
        tx.run("notices.forget_answered", tenant=tenant, kind=kind, about=about)
        _bring(tx, tenant, fresh, notice, spec, None)
    return MessageId(notice_id)


def is_due(tx: Transaction, tenant: str) -> bool:
    """Whether a notice is to be passed on now, or a digest to be sent."""
    return tx.one("notices.is_due", tenant=tenant) is not None


def escalate(tx: Transaction, tenant: str, limit: int) -> int:
    """Passes on what nobody has answered in time, and sends digests that are due, until it has moved `limit` notices.

    How many: the last digest is not cut short for it.
    """
    late = [_read(row) for row in tx.all("notices.late", tenant=tenant, limit=limit)]
    for notice_id, owner, notice in late:
        _climb(tx, tenant, notice_id, owner, notice)
    moved = len(late)
    while moved < limit and (due := tx.one("notices.next_digest", tenant=tenant)):
        moved += _send_digest(tx, tenant, due[0], limit)
    return moved


def find(
    tx: Transaction, tenant: str, owner: str | None, queue: str | None, open_only: bool, limit: int, after: bytes | None
) -> list[Notice]:
    """Notices, oldest first."""
    found = tx.all(
        "notices.list", tenant=tenant, owner=owner, queue=queue, open_only=open_only, limit=limit, after=after
    )
    return [_read(row)[2] for row in found]


def acknowledge(tx: Transaction, tenant: str, actor: str, ids: Sequence[MessageId], remark: str | None) -> int:
    """Someone has answered; how many were still open."""
    done = tx.each(
        "notices.acknowledge", [{"id": one, "tenant": tenant, "actor": actor, "remark": remark} for one in ids]
    )
    return sum(found is not None for found in done)


def answer_about(tx: Transaction, tenant: str, kind: str, about: str, actor: str | None) -> None:
    """What was reported is over: the notice of it climbs no further."""
    tx.run("notices.answer_about", tenant=tenant, kind=kind, about=about, actor=actor)


def take_untold(tx: Transaction, tenant: str, owner: str | None, limit: int) -> list[Notice]:
    """Notices for a callback, which has a minute to be told of them before someone else is.

    One that has climbed is told of once per level, each with its owner of that time.
    """
    if owner is None:
        chosen, left_untold, untold = {}, "notices.left_untold", "notices.untold"
    else:
        chosen, left_untold, untold = {"owner": owner}, "notices.left_untold_of", "notices.untold_of"
    left = tx.all(left_untold, tenant=tenant, limit=limit, **chosen)
    tx.each("notices.tell_left", [{"id": row[0], "level": row[3]} for row in left])
    room = limit - len(left)
    found = tx.all(untold, tenant=tenant, limit=room, **chosen) if room else []
    return [_read(row)[2] for row in sorted([*left, *found], key=itemgetter(0, 3))]


def note_told(tx: Transaction, told: Sequence[tuple[MessageId, int]]) -> None:
    """The callback knows of these notices at these levels."""
    these = [{"id": notice_id, "level": level} for notice_id, level in told]
    tx.each("notices.told", these)
    tx.each("notices.told_left", these)


def _climb(tx: Transaction, tenant: str, notice_id: MessageId, owner: str, notice: Notice) -> None:
    above = _spec_of(tx, tenant, owner).owner
    name, spec = _who(tx, tenant, above, notice.queue)
    if not name or notice.level >= MOST_LEVELS:
        tx.run("notices.rest", id=notice_id)
        return
    tx.run("notices.leave", id=notice_id)
    tx.run("notices.climb", id=notice_id, owner=name)
    higher = msgspec.structs.replace(notice, owner=name, level=notice.level + 1)
    _bring(tx, tenant, notice_id, higher, spec, owner)


def _bring(
    tx: Transaction,
    tenant: str,
    notice_id: MessageId,
    notice: Notice,
    spec: OwnerSpec | None,
    climbed_from: str | None,
) -> None:
    """To the inbox now, or with the next digest; and notes when it climbs."""
    if spec is None:
        return
    digest = spec.notify == "digest"
    wait = None if spec.escalate_after is None else round(spec.escalate_after * 1_000_000)
    tx.run("notices.plan", id=notice_id, wait=wait, digest=round(spec.digest_every * 1_000_000) if digest else None)
    if not digest:
        post(tx, tenant, spec.inbox, notice_body(notice, climbed_from))


def _send_digest(tx: Transaction, tenant: str, owner: str, limit: int) -> int:
    found = [_read(row) for row in tx.all("notices.undelivered", tenant=tenant, owner=owner, limit=limit)]
    inbox, body = _spec_of(tx, tenant, owner).inbox, digest_body(owner, [notice for _, _, notice in found])
    post(tx, tenant, inbox, body)
    tx.each("notices.delivered", [{"id": notice_id} for notice_id, _, _ in found])
    return len(found)


def _who(tx: Transaction, tenant: str, name: str | None, queue: str | None) -> tuple[str, OwnerSpec | None]:
    """The owner, or the first one above whose inbox is not the queue in trouble: its notices would only add to it."""
    for _ in range(MOST_LEVELS):
        if name is None:
            break
        spec = _spec_of(tx, tenant, name)
        if spec.inbox != queue:
            return name, spec
        name = spec.owner
    return "", None


def _spec_of(tx: Transaction, tenant: str, name: str) -> OwnerSpec:
    """An owner that was never declared has the defaults."""
    found = tx.one("owners.find", tenant=tenant, name=name)
    return _spec.decode(found[0]) if found else OwnerSpec(default_inbox(name))


def _read(row: Row) -> Found:
    notice_id, queue, owner, level, dead_id, message_id, *rest = row
    dead, message = dead_id and id_text(dead_id), message_id and id_text(message_id)
    notice = Notice(id_text(notice_id), queue, owner or None, level, dead, message, *rest)
    return notice_id, owner, notice


def new_notice(
    queue: str, dead_id: MessageId, message_id: MessageId, failure: Failure, attempts: int, at: int
) -> Notice:
    """A notice to be."""
    error, about = shortened(failure.error, ERROR_SHOWN), (id_text(dead_id), id_text(message_id))
    return Notice(id_text(new_id()), queue, None, 0, *about, error, attempts, at, traceback=failure.traceback)


def _raw(text: str) -> MessageId:
    return MessageId.fromhex(text.replace("-", ""))
