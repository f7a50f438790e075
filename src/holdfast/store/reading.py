"""Looking without touching: status, peek, counts. Shared by both stores."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core import priority, run
from holdfast.core.deadletter import BlockedKey
from holdfast.core.lifecycle import State
from holdfast.core.message import Message, MessageId, MessageStatus, id_text
from holdfast.core.queue import user_key
from holdfast.core.stats import WINDOW, Stats
from holdfast.store import tally
from holdfast.store.api import Channel
from holdfast.store.rows import Content
from holdfast.store.transaction import Row, Transaction


def status(tx: Transaction, tenant: str, message_id: MessageId) -> MessageStatus | None:
    """Where a message is, and its result if it succeeded with one."""
    found = _place(tx, tenant, message_id)
    if found is not None and found.state is State.SUCCEEDED:
        kept = tx.one("results.find", id=message_id)
        return msgspec.structs.replace(found, result=msgspec.json.decode(kept[0])) if kept else found
    return found


def _place(tx: Transaction, tenant: str, message_id: MessageId) -> MessageStatus | None:
    """Among the rows, in its lane, or dead. A row speaks for the lane it came from."""
    row = tx.one("rows.find", id=message_id, tenant=tenant)
    if row is not None:
        _, _, state, attempts, due_at, enqueued_at, queue, _, _ = row
        due = due_at if state == State.PENDING else None
        return MessageStatus(id_text(message_id), queue, State(state), attempts, enqueued_at, due)
    dead = tx.one("dead.find", id=message_id, tenant=tenant)
    if dead is not None:
        queue, attempts, enqueued_at = dead
        return MessageStatus(id_text(message_id), queue, State.DEAD, attempts, enqueued_at)
    found = tx.one("lanes.find", id=message_id, tenant=tenant)
    if found is None:
        return None
    group, _, enqueued_at, queue = found
    if tx.one("lanes.is_pending", group=group, id=message_id):
        return MessageStatus(id_text(message_id), queue, State.PENDING, 0, enqueued_at, enqueued_at)
    held = tx.one("runs.holding", group=group, id=message_id)
    working = held is not None and not run.is_settled(held[2], run.places_left(held[3], held[1])[held[4]])
    state = State.PROCESSING if working else State.SUCCEEDED
    return MessageStatus(id_text(message_id), queue, state, 1, enqueued_at)


def peek(tx: Transaction, channel: Channel, limit: int) -> list[Message]:
    """What the next claims would get, in their order."""
    found: list[Row] = []
    for level in priority.ALL:
        lane = priority.lane(channel.id, level)
        for query in ("rows.peek", "lanes.peek"):
            if len(found) < limit:
                found += tx.all(query, group=channel.group, lane=lane, limit=limit - len(found))
    return [Content.of(row).message() for row in found]


def stats(tx: Transaction, channel: Channel) -> Stats:
    """The queue in numbers; what takes long is not counted but known."""
    depth, processing, dead = tally.depth(tx, channel.group)
    waiting = _number(tx.one("rows.waiting", group=channel.group))
    recent = tx.one("tally.recent", group=channel.group, window=WINDOW)
    assert recent is not None, "a sum is always one row"
    claimed, completed, failed, lapsed, busy = recent
    return Stats(
        pending=depth - waiting,
        waiting=waiting,
        processing=processing,
        dead=dead,
        consumer_count=_number(tx.one("consumers.count", group=channel.group)),
        claim_rate=claimed / WINDOW,
        completion_rate=completed / WINDOW,
        failure_rate=failed / WINDOW,
        timeout_rate=lapsed / WINDOW,
        avg_processing_time=busy / completed / 1_000_000 if completed else None,
        age_of_oldest_item=_oldest(tx, channel),
    )


def _oldest(tx: Transaction, channel: Channel) -> float | None:
    """Seconds since the oldest pending message came: the first of a lane, or among the rows."""
    born = [row[0] for row in tx.all("rows.oldest", group=channel.group)]
    for level in priority.ALL:
        front = tx.all("lanes.peek", group=channel.group, lane=priority.lane(channel.id, level), limit=1)
        born += [Content.of(row).enqueued_at or 0 for row in front]
    return max(0, tx.clock() - min(born)) / 1_000_000 if born else None


def _number(row: Row | None) -> int:
    assert row is not None, "a count is always one row"
    return row[0]  # type: ignore[no-any-return]


def blocked(tx: Transaction, channel: Channel, limit: int) -> list[BlockedKey]:
    """The keys that wait for someone's decision, longest first."""
    found = tx.all("blocked.list", group=channel.group, limit=limit)
    return [BlockedKey(user_key(order_key), id_text(dead_id), at, count) for order_key, dead_id, at, count in found]


def next_due(tx: Transaction, channels: Sequence[Channel]) -> float | None:
    """Seconds until something more can be claimed without anyone's doing: a delay or a lease runs out."""
    found = [
        tx.one("channels.next_due", group=channel.group, lane=priority.lane(channel.id, 0)) for channel in channels
    ]
    moments = [moment[0] for moment in found if moment and moment[0] is not None]
    return min(moments) / 1_000_000 if moments else None
