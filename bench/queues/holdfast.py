"""Holdfast with everything at its defaults, but without history: finished messages are deleted, as in `ref`."""

from collections.abc import Sequence
from typing import Any

from holdfast import Claim, Holdfast

QUEUE = "bench"
SETTINGS: dict[str, Any] = {"history": 0, "lease": 300}


class HoldfastQueue:
    def __init__(self, url: str) -> None:
        self.hf = Holdfast(url)
        self.hf.queue(QUEUE, **SETTINGS)

    def enqueue(self, body: Any) -> None:
        self.hf.enqueue(QUEUE, body)

    def enqueue_many(self, bodies: Sequence[Any]) -> None:
        self.hf.enqueue_many(QUEUE, bodies)

    def claim(self, n: int, ack: Sequence[Claim] = (), wait: float = 0) -> list[Claim]:
        return self.hf.claim(QUEUE, n=n, ack=ack, wait=wait)

    def ack(self, claims: Sequence[Claim]) -> None:
        self.hf.ack(claims)

    def nack(self, claims: Claim | Sequence[Claim]) -> None:
        self.hf.nack(claims, "benchmark", delay=0)

    def bodies(self, claims: Sequence[Claim]) -> list[Any]:
        return [claim.message.body for claim in claims]

    def left(self) -> int:
        stats = self.hf.stats(QUEUE)
        return stats.pending + stats.waiting + stats.processing + stats.dead

    def close(self) -> None:
        self.hf.close()
