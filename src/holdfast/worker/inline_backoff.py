"""For how long claiming and handling are the work of different threads, once a handler was slow."""

from __future__ import annotations

import math
import time

SHORTEST, LONGEST = 0.25, 60.0
"""Seconds, the first time and at the most: it may have been a hitch of the machine, or what these handlers are like."""

THREADS_HELP = 0.0005
"""Seconds that a handler takes if it waits for something: then it is good to have several threads."""


class Apart:
    """A worker's. Each time is twice as long as the one before."""

    def __init__(self) -> None:
        self._until = math.inf
        self._pause = SHORTEST

    def begin(self) -> None:
        """A handler was slow."""
        self._until = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST)

    def is_over(self, takes: float) -> bool:
        """Whether one thread could do both again, now that handlers take so long."""
        return time.monotonic() > self._until and takes < THREADS_HELP
