"""Groups that are fed: their part of a topic's log is copied into rows, because their keys matter.

A claim that is left hungry by the rows feeds: it copies the next messages of the lane, in the order of the lane, and
moves the group's cursor, in its own transaction. So each message becomes a row exactly once, whoever is killed. Shared
by both stores.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import priority
from holdfast.store.api import Channel
from holdfast.store.transaction import Row, Transaction

STEP = 200
"""So many messages are looked at in one go, at least. (PostgreSQL: holdfast_claim.)"""

MOST_FED = 500
"""So many become rows in one claim before it goes without: each takes a moment, and on PostgreSQL each key a lock."""

MOST_PASSED = 10_000
"""So many messages that a group does not want are passed by in one claim, at most."""

MOST_WAITING = 100_000
"""With so many rows of one priority that wait behind others of their key, or for room, no more are fed. Until then, a
key that is stuck hides no other."""


def open_lanes(tx: Transaction, channel: Channel) -> list[int]:
    """The lanes in the middle of which a claim may have stopped with nothing in its hands."""
    if tx.one("feeding.is_picky", group=channel.group) is None:
        return []
    return [
        lane
        for lane in map(channel.lane, priority.ALL)
        if tx.all("lanes.front", group=channel.group, lane=lane, limit=1) and not is_full(tx, channel.group, lane)
    ]


def reached(tx: Transaction, channel: Channel) -> list[Row]:
    """Where a group is that may read on at once; nothing if it cannot."""
    return tx.all("feeding.reached", group=channel.group) if open_lanes(tx, channel) else []


def reached_by(tx: Transaction, channels: Sequence[Channel]) -> list[object]:
    """The same for several groups, together."""
    return [row for channel in channels for row in reached(tx, channel)]


def is_full(tx: Transaction, group: int, lane: int) -> bool:
    """Whether so much waits already that nothing more is fed."""
    return tx.one("feeding.is_full", group=group, lane=lane, most=MOST_WAITING) is not None
