"""The numbers of a demo: how many messages, which of them are in for trouble, how long the work takes."""

from __future__ import annotations

import msgspec

LEASE = 2.0
ATTEMPTS = 3
BACKOFF = "100ms..1s"
PRODUCERS = 2

ALWAYS = 1_000
"""A message that fails this often never gets through."""

_HOPELESS = 5
_LARGEST_BATCH = 50


class DemoPlan(msgspec.Struct, frozen=True):
    """What was asked for, and what follows from it."""

    url: str
    queue: str
    messages: int
    seconds: float
    consumers: int
    tenant: str = "holdfast-demo"

    @property
    def batch(self) -> int:
        """How many messages a claim takes: small enough that every consumer claims many times."""
        return max(1, min(_LARGEST_BATCH, self.messages // (25 * self.consumers)))

    @property
    def work(self) -> float:
        """Seconds of pretended work per message, so that all consumers together need half of the time."""
        return 0.5 * self.seconds * self.consumers / self.messages

    @property
    def producing(self) -> float:
        """Seconds over which the producers spread their messages."""
        return 0.45 * self.seconds

    @property
    def patience(self) -> float:
        """Seconds after which a demo that has not ended is a failure."""
        return 60.0 + 10.0 * self.seconds

    def body(self, number: int) -> dict[str, int]:
        """The message with this number, and how many times its handler will fail."""
        every = max(self.messages // _HOPELESS, 1)
        if number % every == every // 2:
            return {"order": number, "fails": ALWAYS}
        return {"order": number, "fails": 2 if number % 400 == 8 else 1 if number % 40 == 7 else 0}

    def share(self, producer: int) -> range:
        """The numbers that one producer enqueues."""
        return range(producer, self.messages, PRODUCERS)


class DemoJob(msgspec.Struct, frozen=True):
    """What a child process is told on its standard input: the plan, and its place in it."""

    plan: DemoPlan
    role: str
    number: int
