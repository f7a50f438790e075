"""The strings that a process of a run hangs on: lines on its standard input, whose end is the end of its work."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from uuid import UUID

import msgspec

from holdfast.errors import StoreError
from holdfast.store import ids

SHIFT, FILL, HOLD = "shift", "fill", "hold"

BELOW_THE_TIME = 80
"""Bits of a UUIDv7 that stand behind its milliseconds."""


class Order(msgspec.Struct, frozen=True):
    """What is pulled, and how far."""

    do: str
    value: float = 0.0


class Deed:
    """Orders of one kind, one after the other in a thread of their own: each is tried until it works, or until there is
    a newer one."""

    def __init__(self, do: Callable[[float], object]) -> None:
        self._do = do
        self._orders: SimpleQueue[float] = SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def order(self, value: float) -> None:
        self._orders.put(value)

    def _work(self) -> None:
        while True:
            value = self._orders.get()
            while not self._works(value) and self._orders.empty():
                time.sleep(0.05)

    def _works(self, value: float) -> bool:
        try:
            self._do(value)
        except StoreError:
            return False
        return True


class Strings:
    """Heard by a thread of its own."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._deeds: dict[str, Deed] = {}
        self.teach(SHIFT, Clock().shift)
        self.at_the_end: Callable[[], object] = lambda: None

    def teach(self, do: str, deed: Callable[[float], object]) -> None:
        """What to do at an order."""
        self._deeds[do] = Deed(deed)

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
                deed.order(order.value)
        self._over.set()
        while True:  # A program may not even have begun what it has to end.
            self.at_the_end()
            time.sleep(0.05)


class Clock:
    """This process's wall clock, which is wrong when someone says so, and the ids that are made by it. Databases have a
    clock of their own."""

    def __init__(self) -> None:
        self._off = 0.0
        true, true_ns, true_id = time.time, time.time_ns, vars(ids)["uuid7"]
        time.time = lambda: true() + self._off
        time.time_ns = lambda: true_ns() + int(self._off * 1_000_000_000)
        vars(ids)["uuid7"] = lambda: UUID(int=true_id().int + (int(self._off * 1000) << BELOW_THE_TIME))

    def shift(self, seconds: float) -> None:
        self._off = seconds
