"""Claims of a limited queue on SQLite: which rows their keys have room for, and what is noted of a claim.

PostgreSQL does this in functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from holdfast.core import priority
from holdfast.core.lifecycle import must_be_alone
from holdfast.store.api import Channel, Grant
from holdfast.store.engine import rows
from holdfast.store.engine.limits import FRONT, PAST, QUEUE, Limit, past_room, started
from holdfast.store.engine.rows import Content, NewRow
from holdfast.store.transaction import Row

if TYPE_CHECKING:
    from holdfast.store.sqlite.connection import SqliteTransaction


def note(tx: SqliteTransaction, group: int, limit: Limit, grants: Sequence[Grant]) -> None:
    """What was just claimed counts for the rates."""
    if limit.rate_count is not None and grants:
        tx.run("limits.note", group=group, key=QUEUE, per=limit.rate_per, count=len(grants))
    if limit.key_rate_count is not None:
        keys = Counter(grant.message.key for grant in grants if grant.message.key is not None)
        for key, count in keys.items():
            tx.run("limits.note", group=group, key="=" + key, per=limit.key_rate_per, count=count)


class Past:
    """What was there before a group has a rate of its own: so many of it a claim may take, and no lane further."""

    def __init__(self, tx: SqliteTransaction, group: int, limit: Limit) -> None:
        self._tx = tx
        self._group = group
        self._limit = limit

    def room(self, wanted: int) -> int:
        room, _ = past_room(self._tx, self._group, self._limit)
        return wanted if room is None else min(wanted, room)

    def note(self, count: int) -> None:
        if count:
            self._tx.run("limits.note", group=self._group, key=PAST, per=self._limit.catch_up_per, count=count)


def due(tx: SqliteTransaction, channel: Channel, limit: Limit, lane: int, room: int, alone: bool) -> list[Row]:
    """The rows that a claim may take of a lane; one that must be held alone comes alone.

    Oldest first, unless the oldest are all of full keys: then once round the keys, so that a full key hides no other.
    """
    front = tx.all("limits.front", group=channel.group, lane=lane, alone=alone, limit=room + FRONT)
    chosen = [seq for seq, _, is_free in front if is_free]
    if not chosen and len(front) == room + FRONT:
        chosen = _round(tx, channel, limit, lane, room, alone)
    found = _rows(tx, chosen)
    if found and found[0][4]:
        return found[:1]
    return [row for row in found if not row[4]][:room]


def alone(tx: SqliteTransaction, channel: Channel, limit: Limit) -> list[Row]:
    """The oldest row that must be held alone and whose key has room."""
    held = _held_by_key(tx, channel.group)
    for seq, key in tx.all("limits.front_alone", group=channel.group):
        if _has_room(tx, channel.group, limit, key, held):
            return _rows(tx, [seq])
    return []


def leave_lane(tx: SqliteTransaction, channel: Channel, lane: int, position: int, wanted: int) -> bool:
    """Messages with a key that a lane still has become rows when a claim meets them; whether there were any.

    They came before their key had a limit, or from a client that had not heard of it.
    """
    end, most, moved = priority.lane_start(lane + 1), max(wanted, FRONT), False
    last_try = must_be_alone(channel.spec, 0)
    while True:
        front = tx.all("lanes.read", after=position, end=end, limit=most)
        leaving = [Content(row[1], lane, *row[2:]) for row in front if row[4] is not None]
        rows.add(tx, [NewRow(channel.group, content, alone=last_try) for content in leaving])
        tx.each("lanes.remove", [{"id": content.id} for content in leaving])
        moved = moved or bool(leaving)
        if len(leaving) < most:
            return moved


def _round(tx: SqliteTransaction, channel: Channel, limit: Limit, lane: int, room: int, alone: bool) -> list[int]:
    """The first row of each key that has room, going on where the last such round ended, until there are enough."""
    held = _held_by_key(tx, channel.group)
    found: list[int] = []
    for key in _keys(tx, channel.group, lane, limit.turn):
        if not _has_room(tx, channel.group, limit, key, held):
            continue
        first = tx.one("limits.first_of_key", group=channel.group, lane=lane, key=key, alone=alone)
        if first is not None:
            found.append(first[0])
            tx.run("limits.next_turn", group=channel.group, key=key)
        if len(found) == room:
            break
    return found


def _keys(tx: SqliteTransaction, group: int, lane: int, turn: str | None) -> Iterator[str | None]:
    """The keys that have rows, from the one behind `turn` to the last, then none, then from the first key to `turn`."""
    key = _key_behind(tx, group, lane, turn)
    while key is not None:
        yield key
        key = _key_behind(tx, group, lane, key)
    yield None
    key = None if turn is None else _key_behind(tx, group, lane, None)
    while key is not None and turn is not None and key <= turn:
        yield key
        key = _key_behind(tx, group, lane, key)


def _key_behind(tx: SqliteTransaction, group: int, lane: int, key: str | None) -> str | None:
    if key is None:
        found = tx.one("limits.first_key", group=group, lane=lane)
    else:
        found = tx.one("limits.next_key", group=group, lane=lane, key=key)
    assert found is not None, "a minimum is always one row"
    return found[0]  # type: ignore[no-any-return]


def _held_by_key(tx: SqliteTransaction, group: int) -> dict[str, int]:
    return dict(tx.all("limits.held_by_key", group=group))


def _has_room(tx: SqliteTransaction, group: int, limit: Limit, key: str | None, held: dict[str, int]) -> bool:
    if key is None:
        return True
    if limit.key_concurrency is not None and held.get(key, 0) >= limit.key_concurrency:
        return False
    return limit.key_rate_count is None or started(tx, group, "=" + key, limit.key_rate_per)[0] < limit.key_rate_count


def _rows(tx: SqliteTransaction, chosen: list[int]) -> list[Row]:
    return [row for row in tx.each("limits.row", [{"seq": seq} for seq in chosen]) if row is not None]
