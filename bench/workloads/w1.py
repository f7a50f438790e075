"""W1: enqueue one by one, every message durable before the next; and many callers at once, who share commits."""

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

from bench import payload
from bench.cases import BOTH, ONLY_HOLDFAST, Case, Goal, Outcome, rate_case
from bench.loading import count_left
from bench.places import Place
from bench.processes import Failed, Gate, alone
from bench.queues import Target, open_queue
from bench.sizes import Sizes

ONE = "1 producer"
AGAINST = (ONE, "one")
WAITING, ROOM = 10_000, 100

Producer = Callable[[Gate, Target, float, int], tuple[int, float]]
"""How many messages it enqueued, and in how many seconds."""


def cases(sizes: Sizes) -> Iterator[Case]:
    seconds, callers = sizes.enqueue_seconds, sizes.concurrent
    shared = (Goal("against", 15),)
    yield rate_case("w1", ONE, partial(measure, one_by_one, seconds, 1), contenders=BOTH)
    yield rate_case(
        "w1",
        f"1 producer, {WAITING:,} of {WAITING + ROOM:,} wait",
        partial(measure_limited, seconds),
        against=AGAINST,
        goals=(Goal("against", 0.5),),
        contenders=ONLY_HOLDFAST,
    )
    yield rate_case(
        "w1", "1 producer, asyncio", partial(measure, gathered, seconds, 1), against=AGAINST, contenders=ONLY_HOLDFAST
    )
    yield rate_case(
        "w1",
        f"{callers} at once, asyncio",
        partial(measure, gathered, seconds, callers),
        against=AGAINST,
        goals=shared,
        contenders=ONLY_HOLDFAST,
    )
    yield rate_case(
        "w1",
        f"{callers} at once, threads",
        partial(measure, threaded, seconds, callers),
        against=AGAINST,
        goals=shared,
        contenders=ONLY_HOLDFAST,
    )


def measure(producer: Producer, seconds: float, callers: int, place: Place, target: Target) -> Outcome:
    count, took = alone(producer, target, seconds, callers)
    left = count_left(target)
    if left != count:
        raise Failed(f"{count} were enqueued, {left} are in the queue")
    return {"rate": count / took, "count": count}


def measure_limited(seconds: float, place: Place, target: Target) -> Outcome:
    count, took = alone(nearly_full, target, seconds)
    left = count_left(target)
    if left != WAITING:
        raise Failed(f"{WAITING} should be in the queue, {left} are")
    return {"rate": count / took, "count": count}


def one_by_one(gate: Gate, target: Target, seconds: float, callers: int) -> tuple[int, float]:
    queue = open_queue(target)
    gate()
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        queue.enqueue(payload.body(count))
        count += 1
    took = time.perf_counter() - started
    queue.close()
    return count, took


def nearly_full(gate: Gate, target: Target, seconds: float) -> tuple[int, float]:
    """With `max_depth`, and little room left: a consumer takes what has come. Only the enqueues are timed."""
    from bench.queues.holdfast import QUEUE, SETTINGS
    from holdfast import Holdfast

    with Holdfast(target.url) as hf:
        hf.queue(QUEUE, **SETTINGS, max_depth=WAITING + ROOM)
        hf.enqueue_many(QUEUE, payload.bodies(0, WAITING))
        time.sleep(2.1)  # Until then a new limit counts at every arrival.
        count, took = 0, 0.0
        while took < seconds:
            started = time.perf_counter()
            for _ in range(ROOM // 2):
                hf.enqueue(QUEUE, payload.body(count))
                count += 1
            took += time.perf_counter() - started
            hf.ack(hf.claim(QUEUE, n=ROOM // 2))
        return count, took


def gathered(gate: Gate, target: Target, seconds: float, callers: int) -> tuple[int, float]:
    return asyncio.run(_gathered(target.url, seconds, callers))


async def _gathered(url: str, seconds: float, callers: int) -> tuple[int, float]:
    from bench.queues.holdfast import QUEUE, SETTINGS
    from holdfast import AsyncHoldfast

    async with AsyncHoldfast(url) as hf:
        await hf.queue(QUEUE, **SETTINGS)
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            await asyncio.gather(*[hf.enqueue(QUEUE, payload.body(count + index)) for index in range(callers)])
            count += callers
        return count, time.perf_counter() - started


def threaded(gate: Gate, target: Target, seconds: float, callers: int) -> tuple[int, float]:
    queue, numbers, sent = open_queue(target), itertools.count(), itertools.count()
    ready = threading.Barrier(callers + 1)

    def produce() -> None:
        ready.wait()
        while time.perf_counter() - started < seconds:
            queue.enqueue(payload.body(next(numbers)))
            next(sent)

    threads = [threading.Thread(target=produce) for _ in range(callers)]
    for thread in threads:
        thread.start()
    started = time.perf_counter()
    ready.wait()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - started
    queue.close()
    return next(sent), took
