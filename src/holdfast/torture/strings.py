"""The strings that a process of a run hangs on: lines on its standard input, whose end is the end of its work."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import msgspec

SHIFT, FILL, HOLD = "shift", "fill", "hold"


class Order(msgspec.Struct, frozen=True):
    """What is pulled, and how far."""

    do: str
    value: float = 0.0


class Strings:
    """Heard by a thread of its own."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._deeds: dict[str, Callable[[float], object]] = {SHIFT: Clock().shift}
        self.at_the_end: Callable[[], object] = lambda: None

    def teach(self, do: str, deed: Callable[[float], object]) -> None:
        """What to do at an order."""
        self._deeds[do] = deed

    def listen(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def wait(self, seconds: float) -> bool:
        """Until then, or until it is over."""
        return self._over.wait(seconds)

    def _listen(self) -> None:
        for line in sys.stdin.buffer:
            order = msgspec.json.decode(line, type=Order)
            deed = self._deeds.get(order.do)
            if deed is not None:
                threading.Thread(target=deed, args=(order.value,), daemon=True).start()
        self._over.set()
        while True:  # A program may not even have begun what it has to end.
            self.at_the_end()
            time.sleep(0.05)


class Clock:
    """This process's wall clock, which is wrong when someone says so. Databases have their own."""

    def __init__(self) -> None:
        self._off = 0.0
        true, true_ns = time.time, time.time_ns
        time.time = lambda: true() + self._off
        time.time_ns = lambda: true_ns() + int(self._off * 1_000_000_000)

    def shift(self, seconds: float) -> None:
        self._off = seconds
