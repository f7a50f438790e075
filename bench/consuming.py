"""Processes that consume as programs do: a decorated handler and `hf.run()`. Handlers note the numbers they get."""

import threading
import time
from collections.abc import Callable
from typing import Any

import holdfast.worker.executors.asyncio
import holdfast.worker.runner  # noqa: F401  imported by run() otherwise, and the clock runs by then
from bench.processes import Gate
from bench.queues import Target
from bench.queues.holdfast import QUEUE, HoldfastQueue
from holdfast import Message, Retry

Handler = Callable[..., Any]
Make = Callable[[list[int]], Handler]
Drained = tuple[list[int], float, float]

FAILS_EVERY = 100


def plain(numbers: list[int]) -> Handler:
    def handle(message: Message) -> None:
        numbers.append(message.body["n"])

    return handle


def awaited(numbers: list[int]) -> Handler:
    async def handle(message: Message) -> None:
        numbers.append(message.body["n"])

    return handle


def returning(numbers: list[int]) -> Handler:
    def handle(message: Message) -> dict[str, int]:
        number = message.body["n"]
        numbers.append(number)
        return {"handled": number}

    return handle


def failing(numbers: list[int]) -> Handler:
    """Of a hundred messages one fails at its first attempt."""

    def handle(message: Message, context: Any) -> None:
        number = message.body["n"]
        if number % FAILS_EVERY == 0 and context.attempt == 1:
            raise Retry(0, reason="benchmark")
        numbers.append(number)

    return handle


def drain(gate: Gate, target: Target, make: Make, concurrency: int, settings: dict[str, Any]) -> Drained:
    """The numbers that came out, and when `run` was called and had returned."""
    queue, numbers = HoldfastQueue(target.url), list[int]()
    if settings:
        queue.hf.queue(QUEUE, **settings)
    queue.hf.consumer(QUEUE, empty="terminate", concurrency=concurrency)(make(numbers))
    gate()
    started = time.monotonic()
    queue.hf.run()
    ended = time.monotonic()
    queue.close()
    return numbers, started, ended


def receive(gate: Gate, target: Target, count: int, patience: float) -> list[tuple[int, float]]:
    """What came to a consumer that sleeps in between, and how long after it was sent the handler began."""
    queue = HoldfastQueue(target.url)
    waits: list[tuple[int, float]] = []

    @queue.hf.consumer(QUEUE, empty="hibernate")
    def handle(message: Message) -> None:
        moment = time.monotonic()
        waits.append((message.body["n"], moment - message.body["sent"]))
        if len(waits) == count:
            queue.hf.stop()

    late = threading.Timer(patience, queue.hf.stop)
    late.start()
    gate()
    queue.hf.run()
    late.cancel()
    queue.close()
    return waits
