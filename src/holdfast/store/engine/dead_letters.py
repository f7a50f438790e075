"""Dead letters in an operator's hands: chosen, replayed, deleted; every act leaves a line. Shared by both stores."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.dead_letter import AuditRecord, DeadLetterRecord, Selection, read_history, told
from holdfast.core.message import MessageId, encode_json, id_text
from holdfast.store.engine import bury, counters
from holdfast.store.engine.internal_messages import withdraw
from holdfast.store.engine.rows import Content
from holdfast.store.ids import new_id
from holdfast.store.transaction import Row, Transaction


def find(
    tx: Transaction, tenant: str, chosen: Selection, limit: int, after: MessageId | None
) -> list[DeadLetterRecord]:
    """Dead letters, oldest first."""
    return [_record(row) for row in _rows(tx, tenant, chosen, limit, after)]


def matching(tx: Transaction, tenant: str, chosen: Selection) -> tuple[int, MessageId | None]:
    """How many there are, and the last of them."""
    found = tx.one("dead.matching", tenant=tenant, after=None, **msgspec.structs.asdict(chosen))
    assert found is not None, "a count is always one row"
    return found[0], found[1]


def replay(tx: Transaction, tenant: str, actor: str, dead_id: MessageId, fresh: MessageId, body: bytes | None) -> None:
    """Another life for one of them, with another body if given."""
    if tx.again and tx.one("lanes.is_known", id=fresh):
        return  # An earlier try, whose answer got lost, has done it.
    queue = bury.replay(tx, tenant, dead_id, fresh, body)
    tx.one("notices.answer", dead_id=dead_id, actor=actor)
    about: dict[str, Any] = {"id": id_text(dead_id)} | ({"edited": True} if body is not None else {})
    note(tx, tenant, actor, "replay", queue, about, 1)


def delete(tx: Transaction, tenant: str, dead_id: MessageId) -> bool:
    """Removes one of them for good."""
    gone = tx.one("dead.delete", id=dead_id, tenant=tenant)
    if gone is None:
        return False
    group, copy_id = gone
    tx.one("notices.forget", dead_id=dead_id)
    counters.add(tx, group, dead=-1)
    if copy_id is not None:
        withdraw(tx, tenant, copy_id)
    return True


def delete_one(tx: Transaction, tenant: str, actor: str, dead_id: MessageId) -> bool:
    """The same for one that someone named."""
    if not delete(tx, tenant, dead_id):
        return False
    note(tx, tenant, actor, "delete", None, {"id": id_text(dead_id)}, 1)
    return True


def page(
    tx: Transaction, tenant: str, chosen: Selection, limit: int, after: MessageId | None, last: MessageId
) -> list[MessageId]:
    """The next ones of a bulk act, which ends at `last`: what dies meanwhile is not meant."""
    ids: list[MessageId] = [row[0] for row in _rows(tx, tenant, chosen, limit, after)]
    return [dead_id for dead_id in ids if dead_id <= last]


def replay_page(tx: Transaction, tenant: str, actor: str, ids: list[MessageId]) -> int:
    """Another life for each that has not had one."""
    begun = [one for one in ids if bury.begin_replay(tx, tenant, one, new_id(), None) is not None]
    tx.each("notices.answer", [{"dead_id": dead_id, "actor": actor} for dead_id in begun])
    return len(begun)


def delete_page(tx: Transaction, tenant: str, actor: str, ids: list[MessageId]) -> int:
    """Removes each that is still there."""
    return sum(delete(tx, tenant, dead_id) for dead_id in ids)


def begin(tx: Transaction, tenant: str, actor: str, act: str, chosen: Selection) -> int:
    """Notes what is going to be done to many dead letters; the number of the record, for `act_on`."""
    return note(tx, tenant, actor, act, chosen.queue, told(chosen), 0)


def act_on(tx: Transaction, tenant: str, actor: str, act: str, ids: list[MessageId], audit_id: int) -> int:
    """Replays or deletes some of them; how many."""
    done = (replay_page if act == "replay" else delete_page)(tx, tenant, actor, ids)
    tx.run("audit.grow", id=audit_id, count=done)
    return done


def note(
    tx: Transaction, tenant: str, actor: str, act: str, queue: str | None, about: dict[str, Any], count: int
) -> int:
    """Writes the line of an act, in the act's own transaction."""
    found = tx.one("audit.add", tenant=tenant, actor=actor, act=act, queue=queue, about=encode_json(about), count=count)
    assert found is not None, "an insert returns its row"
    return found[0]  # type: ignore[no-any-return]


def audit(tx: Transaction, tenant: str, limit: int, before: int | None) -> list[AuditRecord]:
    """What was done, newest first."""
    found = tx.all("audit.list", tenant=tenant, limit=limit, before=before)
    return [
        AuditRecord(line_id, at, actor, act, queue, msgspec.json.decode(about), count)
        for line_id, at, actor, act, queue, about, count in found
    ]


def _rows(tx: Transaction, tenant: str, chosen: Selection, limit: int, after: MessageId | None) -> list[Row]:
    return tx.all("dead.list", tenant=tenant, limit=limit, after=after, **msgspec.structs.asdict(chosen))


def _record(row: Row) -> DeadLetterRecord:
    dead_id, queue, *content = row[:12]
    error, attempts, failed_at, errors, replayed_as, replay_state, replays = row[12:]
    history = read_history(errors)
    return DeadLetterRecord(
        id=id_text(dead_id),
        queue=queue,
        message=Content(*content).message(),
        error=error,
        attempts=attempts,
        failed_at_us=failed_at,
        history=history,
        replayed_as=id_text(replayed_as) if replayed_as else None,
        replay_state=replay_state,
        replays=replays,
        traceback=history[-1].traceback if history else None,
    )
