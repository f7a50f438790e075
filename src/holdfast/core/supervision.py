"""What to do about a consumer that crashed: start it again after a while, or give up on a pool that only crashes."""

from __future__ import annotations

from collections import deque

import msgspec


class Restarts(msgspec.Struct, frozen=True, kw_only=True):
    """The wait doubles from `first` to `longest` with every crash of the last `window` seconds; `most` are too many."""

    first: float = 0.5
    longest: float = 30.0
    window: float = 60.0
    most: int = 5


class CrashLog:
    """The crashes of one pool, as one supervisor saw them."""

    def __init__(self, rules: Restarts) -> None:
        self._rules = rules
        self._crashes: deque[float] = deque(maxlen=rules.most)
        self.not_before = 0.0
        self.last_words = ""

    def note(self, now: float, words: str) -> None:
        """One more."""
        self._crashes.append(now)
        self.last_words = words
        recent = sum(1 for crash in self._crashes if now - crash < self._rules.window)
        self.not_before = now + min(self._rules.longest, self._rules.first * 2 ** (recent - 1))

    def has_given_up(self, now: float) -> bool:
        """Whether there were too many in too short a time."""
        full = len(self._crashes) == self._rules.most
        return full and self._crashes[-1] - self._crashes[0] < self._rules.window
