"""Short words for what nearly every test of this suite does."""

from collections.abc import Callable, Iterable
from typing import Any

from holdfast import Claim, Holdfast

OpenClient = Callable[..., Holdfast]


def bodies(claims: Iterable[Claim]) -> list[Any]:
    return [claim.message.body for claim in claims]


def claim_one(hf: Holdfast, queue: str = "q", **options: Any) -> Claim:
    """The one message that can be claimed now."""
    [claim] = hf.claim(queue, n=10, **options)
    return claim


def drain(hf: Holdfast, queue: str = "q") -> list[Any]:
    """Claims and acks one by one until nothing is left; the bodies, in order."""
    found = []
    while claims := hf.claim(queue):
        found += bodies(claims)
        hf.ack(claims)
    return found


def kill(hf: Holdfast, body: Any = "doomed", queue: str = "q", **options: Any) -> str:
    """Enqueues a message and lets its first attempt be its last; the id of the dead letter."""
    hf.enqueue(queue, body, **options)
    [claim] = hf.claim(queue)
    claim.dead_letter("boom")
    return hf.dead_letters(queue)[-1].id
