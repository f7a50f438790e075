"""How many consumers a pool should have: more when work piles up or waits, fewer when it has been calm for a while."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class PoolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds and thresholds of a pool. Times in seconds.

    Between the two depths nothing changes, so that a depth that wavers around one number starts and stops nobody.
    """

    least: int = 1
    most: int = 4
    up_depth: int = 20
    down_depth: int = 5
    up_age: float = 30.0
    cooldown: float = 10.0


class Load(msgspec.Struct, frozen=True):
    """What a pool's queues have waiting, due now, for how long the oldest of it has waited, and how much is in hand.

    `ends` says that consumers end by themselves when nothing is left.
    """

    depth: int
    oldest: float
    held: int = 0
    ends: bool = False


class Scaler:
    """Remembers when something changed last, and since when it has been calm. Others decide too: what they change is
    seen by a count that neither was there nor is what was wanted."""

    def __init__(self, spec: PoolSpec) -> None:
        self.spec = spec
        self._changed: float | None = None
        self._calm: float | None = None
        self._expected = (0, spec.least)

    def wanted(self, load: Load, running: int, now: float) -> int:
        """How many there should be, given how many there are (everywhere) and what waits."""
        self._note_others(running, now)
        wanted = self._wanted(load, running, now)
        self._expected = (min(running, wanted), max(running, wanted))
        return wanted

    def _note_others(self, running: int, now: float) -> None:
        fewest, most = self._expected
        if running > most:
            self._changed = now
        elif running < fewest:
            self._calm = None  # Only that: it may have crashed, which is no reason not to grow.

    def _wanted(self, load: Load, running: int, now: float) -> int:
        least = self._least(load, running)
        is_much = load.depth >= self.spec.up_depth or (load.depth > 0 and load.oldest >= self.spec.up_age)
        is_little = load.depth <= self.spec.down_depth and not is_much
        self._calm = (self._calm if self._calm is not None else now) if is_little else None
        if running < least:
            return least
        if running > self.spec.most:
            return self.spec.most
        if is_much and self._has_cooled(self._changed, now):
            return self._change(min(self.spec.most, max(2 * running, 1)), running, now)
        if is_little and running > least and self._has_cooled(self._changed, now) and self._has_cooled(self._calm, now):
            return self._change(running - 1, running, now)
        return running

    def _least(self, load: Load, running: int) -> int:
        """What waits has someone to wait for, also in a pool that may be empty; nobody is started only to end again.

        The last one is not drained while it may be at work: it would keep its seat, and what comes would wait for it.
        """
        if load.depth:
            return max(self.spec.least, 1)
        least = 0 if load.ends else self.spec.least
        return max(least, min(running, 1)) if load.held else least

    def _change(self, wanted: int, running: int, now: float) -> int:
        if wanted != running:
            self._changed = now
        return wanted

    def _has_cooled(self, since: float | None, now: float) -> bool:
        return since is None or now - since >= self.spec.cooldown


def to_drain(seats: Sequence[int], wanted: int) -> set[int]:
    """Which seats are given up when there are too many: the highest. All supervisors come to the same answer."""
    return set(sorted(seats)[wanted:])
