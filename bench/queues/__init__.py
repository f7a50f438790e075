"""The contenders behind one small face, so that every workload is written once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Contender = str
"""holdfast, ref, or what a comparison with peers calls one of its lines."""


class Queue(Protocol):
    """One queue. What `claim` returns is opaque: it goes to `bodies`, to `ack`, or to the next `claim`."""

    def enqueue(self, body: Any) -> None: ...
    def enqueue_many(self, bodies: Sequence[Any]) -> None: ...
    def claim(self, n: int, ack: Sequence[Any] = (), wait: float = 0) -> Sequence[Any]: ...
    def ack(self, claims: Sequence[Any]) -> None: ...
    def bodies(self, claims: Sequence[Any]) -> list[Any]: ...
    def left(self) -> int: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Target:
    """Which contender, on which database."""

    contender: Contender
    store: str
    url: str


def open_queue(target: Target, *, rings: bool = False) -> Queue:
    """Opened, its structure created, its connection warm. Drivers are imported only where they are measured.

    Holdfast's enqueue always wakes who sleeps; that of `ref` does if it `rings`.
    """
    if target.contender == "holdfast":
        from bench.queues.holdfast import HoldfastQueue

        return HoldfastQueue(target.url)
    if target.store == "sqlite":
        from bench.queues.ref_sqlite import RefSqlite

        return RefSqlite(target.url, rings)
    from bench.queues.ref_postgres import RefPostgres

    return RefPostgres(target.url, rings)
