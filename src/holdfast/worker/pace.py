"""How many messages to claim ahead: what a handler gets through in a moment, and never more than a lease covers."""

from __future__ import annotations

MOMENT = 0.1
"""Seconds of work that may lie ready. Longer handlers get what they can begin at once."""

MOST_AHEAD = 1000

PART_OF_LEASE = 0.25
"""What is claimed has to be through in this part of a lease, even if nobody renewed it."""

SLOWDOWN = 0.3
"""How fast a shorter time is believed; a longer one is believed at once."""


class HandlingPace:
    """How long one message takes, as measured so far."""

    def __init__(self) -> None:
        self.mean: float | None = None
        self._ahead = 0

    def note(self, seconds: float, count: int) -> None:
        """So many messages took so long in all."""
        sample = seconds / count
        if self.mean is None or sample >= self.mean:
            self.mean = sample
        else:
            self.mean += SLOWDOWN * (sample - self.mean)

    def ahead(self, concurrency: int, lease: float) -> int:
        """How many to hold beyond those that are being worked on; grows by no more than doubling."""
        if self.mean is None:
            return 0
        moment = min(MOMENT, lease * PART_OF_LEASE)
        wanted = int(moment * concurrency / max(self.mean, 1e-6)) - concurrency
        self._ahead = max(0, min(wanted, MOST_AHEAD, 2 * self._ahead + 16))
        return self._ahead
