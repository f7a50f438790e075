"""Short words for what the tests of delivery do."""

import threading
from typing import Any

from holdfast import Claim, Holdfast, Message
from holdfast.client.client import internals
from holdfast.errors import DeliveryFailed
from tests.sqs.fake_sqs import FakeSQS

POINTER = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.[1-9][0-9]*"


def pointers(sqs: FakeSQS, queue: str = "q") -> list[str]:
    """What SQS holds for a queue, in flight or not."""
    return sqs.bodies(f"holdfast-{queue}")


def seen(hf: Holdfast, queue: str = "q") -> dict[str, int]:
    """What this client has counted, without the zeros."""
    return {name: count for name, count in internals(hf).transport.through_sqs().counts.of(queue).items() if count}


def claim_all(hf: Holdfast, queue: str = "q", n: int = 10) -> list[Claim]:
    """Claims, without ending anything, until there is nothing more."""
    found: list[Claim] = []
    while claims := hf.claim(queue, n=n):
        found += claims
    return found


def work_off(hf: Holdfast, queue: str = "q", n: int = 10) -> list[Any]:
    """Claims and acks until nothing more comes; what came, in order."""
    found: list[Any] = []
    while claims := hf.claim(queue, n=n):
        found += [claim.message.body for claim in claims]
        hf.ack(claims)
    return found


def try_to_claim(hf: Holdfast, queue: str = "q", n: int = 10) -> list[Claim]:
    """A claim, or nothing where SQS refuses."""
    try:
        return hf.claim(queue, n=n)
    except DeliveryFailed:
        return []


def forget_trouble(hf: Holdfast, queue: str = "q") -> None:
    """As if the time had passed for which SQS is left alone after a failure."""
    channel = internals(hf).catalog.channel(queue)
    internals(hf).transport.through_sqs().trouble(channel).over()
    internals(hf).transport.through_sqs().aftercare.events(channel.spec.dead_events or "").over()


def hand_over(hf: Holdfast, queue: str = "q") -> None:
    """What is due goes to SQS, and nobody receives it."""
    channel = internals(hf).catalog.channel(queue)
    internals(hf).transport.through_sqs().sender.hand_over(
        channel, internals(hf).transport.through_sqs().queue(channel), 100
    )


class Seen:
    """What a handler was called with."""

    def __init__(self, patience: float = 60.0) -> None:
        self.bodies: list[Any] = []
        self._patience = patience
        self._changed = threading.Condition()

    def note(self, message: Message) -> None:
        with self._changed:
            self.bodies.append(message.body)
            self._changed.notify_all()

    def wait(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.bodies) >= count, self._patience), self.bodies
