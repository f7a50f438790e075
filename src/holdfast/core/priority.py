"""Priorities 0 (urgent) to 3 (low), and the lanes they make: a lane is one priority of one channel."""

from __future__ import annotations

from holdfast.errors import InvalidInput, shown

NAMES = {"urgent": 0, "high": 1, "normal": 2, "low": 3}
NORMAL = NAMES["normal"]
ALL = tuple(NAMES.values())

# A SQLite lane owns a block of row numbers, so that a run is one range of the table itself.
_LANE_BITS = 40


def priority(value: int | str) -> int:
    """`priority("high")` is 1; lower goes first."""
    found = NAMES.get(value) if isinstance(value, str) else value
    if found not in ALL or type(found) is not int:
        raise InvalidInput(f"priority must be 0 to 3 or one of {', '.join(NAMES)}, not {shown(value)}")
    return found


def lane(channel: int, priority: int) -> int:
    """The number of a channel's lane for one priority."""
    return channel * len(ALL) + priority


def priority_of(lane: int) -> int:
    """The priority that a lane serves."""
    return lane % len(ALL)


def channel_of(lane: int) -> int:
    """The channel that a lane belongs to."""
    return lane // len(ALL)


def lane_start(lane: int) -> int:
    """The position before a lane's first message; the next lane's start is where it ends."""
    return lane << _LANE_BITS
