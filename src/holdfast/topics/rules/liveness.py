"""When a group counts as dead: it was silent for its timeout, and still is when someone has looked often enough."""

from __future__ import annotations

import msgspec

LOOKS_PER_TIMEOUT = 5
"""Misses are counted a fifth of the timeout apart: who looks just after an outage of everything sees only one."""

NOTES_PER_TIMEOUT = 3
"""Who asks for work is noted a third of the timeout apart at most: however short that is, who asks is heard in time."""


class Heard(msgspec.Struct, frozen=True):
    """What came of a beat: how many messages it has lost that nobody has decided about, and whether it was dead."""

    missing: int
    revived: bool


class GroupPulse(msgspec.Struct, frozen=True):
    """What is known of a group's life. Times are microseconds since 1970."""

    heard_at: int
    misses: int
    missed_at: int | None


def looked_at(pulse: GroupPulse, timeout: float, now: int) -> GroupPulse:
    """The same after one look: one more miss, none any more, or unchanged because the last look was a moment ago."""
    silence = round(timeout * 1_000_000)
    if now - pulse.heard_at < silence:
        return GroupPulse(pulse.heard_at, 0, None)
    if pulse.missed_at is not None and now - pulse.missed_at < silence // LOOKS_PER_TIMEOUT:
        return pulse
    return GroupPulse(pulse.heard_at, pulse.misses + 1, now)
