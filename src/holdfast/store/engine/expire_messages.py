"""Messages that nobody wanted in time: past their own time to live, or older than their queue allows.

A claim never hands out such a message, and to whoever looks it has expired when its time is over; here it ends even if
nobody claims. Shared by both stores.
"""

from __future__ import annotations

import msgspec

from holdfast.core import priority
from holdfast.core.lifecycle import LifecycleEvent, State, next_state
from holdfast.store.api import Channel
from holdfast.store.engine import counters, rows
from holdfast.store.engine.rows import Content, NewRow
from holdfast.store.transaction import Transaction

_OVER = next_state(State.PENDING, LifecycleEvent.EXPIRED)


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
    ended = [one for one, replay_of in over if rows.end(tx, channel.group, one, _OVER, replay_of)]
    if not channel.spec.history:  # As in a lane: who ends them need not be one who prunes.
        tx.each("rows.remove", [{"group": channel.group, "id": one} for one in ended])
        counters.add(tx, channel.group, kept=-len(ended))
    return len(ended)


def _expire_lane(tx: Transaction, channel: Channel, lane: int, limit: int) -> int:
    """The oldest are in front. (A message with a time to live of its own is a row: in a lane nobody would find it.)"""
    if not _is_aged(tx, channel, lane):
        return 0
    tx.one("lanes.hold", group=channel.group, lane=lane)
    pending = _aged(tx, channel, lane, limit)
    if channel.spec.history:
        rows.add(tx, [NewRow(channel.group, content, state=_OVER) for content in pending])
    tx.each("lanes.remove", [{"id": content.id} for content in pending])
    return len(pending)


def _is_aged(tx: Transaction, channel: Channel, lane: int) -> bool:
    return channel.spec.max_age is not None and bool(_aged(tx, channel, lane, 1))


def _aged(tx: Transaction, channel: Channel, lane: int, limit: int) -> list[Content]:
    if channel.spec.max_age is None:
        return []
    born = counters.born(tx, channel.spec.max_age)
    found = [Content.of(row) for row in tx.all("lanes.front", group=channel.group, lane=lane, limit=limit)]
    return [one for one in found if (one.enqueued_at or 0) <= born]


def over_at(max_age: float | None, enqueued_at: int, expires_at: int | None) -> int | None:
    """When the time of an unclaimed message is over: its own, or that of its queue, whichever comes first."""
    aged = None if max_age is None else enqueued_at + _micros(max_age)
    return min((moment for moment in (aged, expires_at) if moment is not None), default=None)


def is_over(tx: Transaction, group: int, enqueued_at: int, expires_at: int | None) -> bool:
    """Whether the time of an unclaimed message of this group is over, though no sweep may have come by."""
    owner = tx.one("channels.owner", group=group)
    assert owner is not None, "a group always has a channel"
    moment = over_at(max_age_of(owner[3]), enqueued_at, expires_at)
    return moment is not None and moment <= tx.clock()


def max_age_of(raw_spec: bytes) -> float | None:
    """What a channel's stored settings say."""
    return _age.decode(raw_spec).max_age


class _Age(msgspec.Struct):
    max_age: float | None = None


_age = msgspec.json.Decoder(_Age)


def _micros(age: float) -> int:
    return round(age * 1_000_000)
