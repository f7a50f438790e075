"""How tests wait: the only places that sleep.

A test waits for an event, a lock, a line of output, or with `eventually` for a state. Where time itself has to pass,
one of the other functions says why; none of them can make a test fail because the machine is slow.
"""

import time
from collections.abc import Callable
from typing import Any

LONGEST = 120.0
"""Nothing that tests wait for takes this many seconds; it only keeps a fault from hanging the run."""


def eventually(true: Callable[[], Any], what: str = "it", within: float = LONGEST) -> Any:
    """Ask until the answer is true, and return it. For states that nothing announces; everything else has an event."""
    deadline, pause = time.monotonic() + within, 0.001
    while not (found := true()):
        assert time.monotonic() < deadline, f"did not happen within {within:g} s: {what}"
        time.sleep(pause)
        pause = min(1.5 * pause, 0.02)
    return found


def until_interrupted() -> None:
    """Be a handler that never returns. Interrupts arrive between two statements, so it does not wait for an event."""
    while True:
        time.sleep(0.001)


def spend(seconds: float) -> None:
    """Be work that takes this long, or longer: what the test asserts holds for every longer time too."""
    time.sleep(seconds)


def leave_time(seconds: float) -> None:
    """Give a mistake time to show: something that must not happen. On a slow machine it shows less often."""
    time.sleep(seconds)
