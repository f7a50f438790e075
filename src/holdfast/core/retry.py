"""How long to wait after a failed attempt. The random source is passed in, so the rule stays pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.core.duration import Duration, seconds
from holdfast.errors import InvalidInput, shown

JITTER = 0.1


class Backoff(msgspec.Struct, frozen=True):
    """A wait per attempt: `initial` doubling up to `longest`, or the listed `steps`, the last one repeating."""

    initial: float = 1.0
    longest: float = 60.0
    steps: tuple[float, ...] = ()
    jitter: float = JITTER

    def __post_init__(self) -> None:
        numbers: tuple[Any, ...] = (self.initial, self.longest, *self.steps, self.jitter)
        for number in numbers:
            if isinstance(number, str):
                raise InvalidInput(f"a Backoff has seconds as numbers, not {shown(number)}")
            seconds(number, "backoff")
        if self.initial > self.longest or self.jitter > 1:
            raise InvalidInput("a backoff starts at or below its longest wait, and its jitter is from 0 to 1")

    def base(self, attempt: int) -> float:
        """The wait after `attempt` (1 is the first), before jitter."""
        if self.steps:
            return self.steps[min(max(attempt, 1), len(self.steps)) - 1]
        # 2**64 outgrows every longest wait; the exponent is capped so that no attempt number can overflow.
        return min(self.initial * 2.0 ** min(max(attempt, 1) - 1, 64), self.longest)

    def wait(self, attempt: int, chance: float) -> float:
        """The wait with jitter; `chance` is a random number from 0 to 1. Never longer than `longest` allows."""
        base = self.base(attempt)
        jittered = base * (1.0 - self.jitter + 2.0 * self.jitter * chance)
        ceiling = max(self.steps) if self.steps else self.longest
        return min(jittered, ceiling)


def backoff(value: str | Duration | Sequence[Duration] | None) -> Backoff:
    """Reads `"1s..60s"` (doubling), `30` or `"30s"` (fixed), `[60, 300, 1800]` (a list), `None` (no wait)."""
    if value is None:
        return Backoff(initial=0.0, longest=0.0, jitter=0.0)
    if isinstance(value, (list, tuple)):
        if not value:
            raise InvalidInput("backoff list is empty; write None for no wait, or at least one duration")
        return Backoff(steps=tuple(seconds(step, "backoff") for step in value), jitter=0.0)
    if isinstance(value, str) and ".." in value:
        first, last = (seconds(part, "backoff") for part in value.split("..", 1))
        if first > last:
            raise InvalidInput(f"backoff {value!r} starts above its end")
        return Backoff(initial=first, longest=last)
    fixed = seconds(value, "backoff")  # type: ignore[arg-type]
    return Backoff(initial=fixed, longest=fixed, jitter=0.0)
