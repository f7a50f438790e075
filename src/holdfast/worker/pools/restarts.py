"""What to do about a consumer that crashed: start it again after a while, or give up on a pool that only crashes."""

from __future__ import annotations

from collections import deque

import msgspec


class Restarts(msgspec.Struct, frozen=True, kw_only=True):
    """The wait doubles from `first` to `longest` with every crash of the last `window` seconds; `most` are too many.

    A pool that was given up is tried `again` after such a time, with one consumer.
    """

    first: float = 0.5
    longest: float = 30.0
    window: float = 60.0
    most: int = 5
    again: float = 300.0


class CrashLog:
    """The crashes of one pool, as one supervisor saw them. It was given up if they came without any progress."""

    def __init__(self, rules: Restarts) -> None:
        self._rules = rules
        self._crashes: deque[float] = deque(maxlen=rules.most)
        self.not_before = 0.0
        self.gave_up = False

    def note(self, now: float, is_excused: bool = False) -> bool:
        """One more; whether it is the one that was too many.

        It is excused if it says nothing of the pool: the consumer had done some of its work before, or died of a
        message that was tried before, which ends with that message's attempts.
        """
        if not is_excused:
            self._crashes.append(now)
        recent = sum(1 for crash in self._crashes if now - crash < self._rules.window)
        had, self.gave_up = self.gave_up, self.gave_up or recent == self._rules.most
        wait = min(self._rules.longest, self._rules.first * 2 ** max(0, recent - 1))
        self.not_before = now + (self._rules.again if self.gave_up else wait)
        return self.gave_up and not had

    def recovered(self) -> None:
        """A consumer has done some of its work: the pool is what it was."""
        self._crashes.clear()
        self.gave_up = False

    def may_start(self, now: float, missing: int, trials: int) -> int:
        """How many of those that are missing may be started now. `trials` were started since it was given up."""
        if now < self.not_before:
            return 0
        return min(missing, max(0, 1 - trials)) if self.gave_up else missing
