"""Messages that nobody wanted in time: past their own time to live, or older than their queue allows.

A claim never hands out such a message; here they end even if nobody claims. Shared by both stores.
"""

from __future__ import annotations

from holdfast.core import priority
from holdfast.core.lifecycle import State
from holdfast.store import rows
from holdfast.store.api import Channel
from holdfast.store.rows import Content, NewRow
from holdfast.store.transaction import Transaction


def expire(tx: Transaction, channel: Channel, limit: int) -> int:
    """Ends pending messages whose time is over, up to `limit` of each kind; how many."""
    ended = _expire_rows(tx, channel, limit)
    for level in priority.ALL:
        ended += _expire_lane(tx, channel, channel.lane(level), limit)
    return ended


def _expire_rows(tx: Transaction, channel: Channel, limit: int) -> int:
    over = tx.all("rows.outlived", group=channel.group, limit=limit)
    if channel.spec.max_age is not None:
        over += tx.all("rows.aged", group=channel.group, max_age=_micros(channel.spec.max_age), limit=limit)
    return sum(rows.end(tx, channel.group, message_id, State.EXPIRED, replay_of) for message_id, replay_of in over)


def _expire_lane(tx: Transaction, channel: Channel, lane: int, limit: int) -> int:
    """The oldest are in front. (A message with a time to live of its own is a row: in a lane nobody would find it.)"""
    if not _is_aged(tx, channel, lane):
        return 0
    tx.one("lanes.hold", group=channel.group, lane=lane)
    pending = _aged(tx, channel, lane, limit)
    if channel.spec.history:
        rows.add(tx, [NewRow(channel.group, content, state=State.EXPIRED) for content in pending])
    tx.each("lanes.remove", [{"id": content.id} for content in pending])
    return len(pending)


def _is_aged(tx: Transaction, channel: Channel, lane: int) -> bool:
    return channel.spec.max_age is not None and bool(_aged(tx, channel, lane, 1))


def _aged(tx: Transaction, channel: Channel, lane: int, limit: int) -> list[Content]:
    if channel.spec.max_age is None:
        return []
    born = tx.clock() - _micros(channel.spec.max_age)
    found = [Content.of(row) for row in tx.all("lanes.peek", group=channel.group, lane=lane, limit=limit)]
    return [one for one in found if (one.enqueued_at or 0) <= born]


def _micros(age: float) -> int:
    return round(age * 1_000_000)
