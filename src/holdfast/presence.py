"""Being seen as a consumer: noted when a client first asks a queue for work, and again now and then."""

from __future__ import annotations

import time

EVERY = 15.0
"""Seconds. Who was not seen for three times as long is no consumer any more."""


class Presence:
    """When each queue was last told."""

    def __init__(self) -> None:
        self._next: dict[int, float] = {}

    def is_due(self, channel: int) -> bool:
        """Whether it is time to tell again."""
        return time.monotonic() >= self._next.get(channel, 0.0)

    def note(self, channel: int, worker: str) -> str | None:
        """The worker to tell of, if it is time; None otherwise."""
        if not self.is_due(channel):
            return None
        self._next[channel] = time.monotonic() + EVERY
        return worker
