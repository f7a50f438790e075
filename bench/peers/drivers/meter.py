"""Counts what a consumer handles, and says when it has handled enough."""

import asyncio
import resource
import threading
import time
from typing import Any


class Meter:
    """Done after `expected` messages, after so many `seconds`, or when nothing came for `quiet` seconds; if nothing
    came at all, after `patience`. `loaded`: the queue is full already, for a peer that should then be set up otherwise.

    Every message passes through `handle`; the clock runs from `start`, just before the first is fetched.

    A peer whose acks can be seen calls `settled` after each; otherwise the clock stops at the last message, so that
    what cannot be seen counts for the peer.
    """

    pause = 0.01

    def __init__(
        self, expected: int = 0, seconds: float = 0, patience: float = 0, quiet: float = 0, loaded: bool = False
    ) -> None:
        self.numbers: list[int] = []
        self.waits: list[float] = []
        self.started = 0.0
        self.ended = 0.0
        self.loaded = loaded
        self._expected = expected
        self._seconds = seconds
        self._quiet = quiet
        self._patient_until = time.monotonic() + patience

    def start(self) -> None:
        self.started = time.monotonic()

    def handle(self, body: dict[str, Any]) -> None:
        self.ended = moment = time.monotonic()
        self.numbers.append(body["n"])
        if "sent" in body:
            self.waits.append(moment - body["sent"])

    def settled(self) -> None:
        self.ended = time.monotonic()

    def is_done(self) -> bool:
        if not self.numbers:
            return time.monotonic() > self._patient_until
        moment = time.monotonic()
        return (
            len(self.numbers) >= self._expected
            or moment - self.started > self._seconds
            or moment - self.ended > self._quiet
        )

    async def done(self) -> None:
        while not self.is_done():
            await asyncio.sleep(self.pause)

    def answer(self) -> dict[str, Any]:
        return {"numbers": self.numbers, "waits": self.waits, "started": self.started, "ended": self.ended}


class Watch(Meter):
    """Waits beside a worker that has nothing to do, without costing anything itself; then says what that took."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.pause = min(1.0, seconds) + seconds + 0.05
        self._cost: dict[str, float] = {}
        self._thread = threading.Thread(target=self._look, args=(min(1.0, seconds), seconds))
        self._thread.start()

    def is_done(self) -> bool:
        return bool(self._cost)

    def answer(self) -> dict[str, Any]:
        return {**self._cost, "claimed": len(self.numbers)}

    def _look(self, settling: float, seconds: float) -> None:
        time.sleep(settling)
        before = time.process_time()
        time.sleep(seconds)
        self._cost = {"cpu": time.process_time() - before, "rss": _memory()}


def _memory() -> int:
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
