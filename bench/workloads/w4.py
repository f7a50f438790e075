"""W4: from the call of `enqueue` in one process to the claim in the hand of another that was asleep.

Both processes read the host's monotonic clock. `ref` does the least that there is to do: it inserts a row, sends one
datagram or notification, and updates a row. What that takes depends on the machine, above all on how long a commit
waits for the disk; there are two of them on the way. So the same is measured in the same round: what one append to a
file takes with its fsync at this pace. Beside the peers the goal is to be below them, in one run (`--peers`).
"""

import random
import statistics
import time
from collections.abc import Iterable, Iterator
from functools import partial

from bench import payload
from bench.cases import Case, Goal, Outcome, Row
from bench.loading import check_drained
from bench.machine import fsync_at_pace
from bench.places import FOLDER, Place
from bench.processes import Failed, Gate, together
from bench.queues import Target, open_queue
from bench.sizes import Sizes

PATIENCE = 30.0

COMMITS = 2
BEYOND = (Goal("value", 0.8, ("sqlite",), below=True),)
"""1.2 ms where one fsync takes 0.2 ms, which differs by machine and hour: so 0.8 ms, whatever the disk takes."""


def cases(sizes: Sizes) -> Iterator[Case]:
    name = f"wake-up at {sizes.latency_rate:.0f}/s"
    yield Case("w4", name, partial(measure, sizes.latency_messages, sizes.latency_rate), rows_of(name))


def rows_of(name: str) -> list[Row]:
    return [
        Row(f"{name}, p50", "p50", "ms"),
        Row(f"{name}, p99", "p99", "ms"),
        Row("append and fsync at this pace, p50", "fsync", "ms"),
        Row(f"{name}, p50 beyond two of these", "beyond", "ms", goals=BEYOND),
    ]


def measure(count: int, rate: float, place: Place, target: Target) -> Outcome:
    _, waits = together([(produce, (target, count, rate)), (consume, (target, count))])
    check_drained(target, [number for number, _ in waits], count)
    return beside_the_disk(percentiles([wait for _, wait in waits]), count, rate)


def beside_the_disk(outcome: Outcome, count: int, rate: float) -> Outcome:
    fsync = fsync_at_pace(FOLDER, rate, max(count // 4, 5)) * 1000
    return {**outcome, "fsync": fsync, "beyond": outcome["p50"] - COMMITS * fsync}


def percentiles(waits: Iterable[float]) -> Outcome:
    milliseconds = sorted(wait * 1000 for wait in waits)
    p99 = statistics.quantiles(milliseconds, n=100, method="inclusive")[98]
    return {"p50": statistics.median(milliseconds), "p99": p99, "worst": milliseconds[-1]}


def produce(gate: Gate, target: Target, count: int, rate: float) -> None:
    queue = open_queue(target, rings=True)
    gate()
    for number in range(count):
        # A random moment of each slot, so that no poller can fall into step.
        time.sleep(random.uniform(0.5, 1.5) / rate)
        queue.enqueue({**payload.body(number), "sent": time.monotonic()})
    queue.close()


def consume(gate: Gate, target: Target, count: int) -> list[tuple[int, float]]:
    queue = open_queue(target)
    gate()
    waits: list[tuple[int, float]] = []
    claims = queue.claim(10, wait=PATIENCE)
    while claims:
        moment = time.monotonic()
        waits += [(body["n"], moment - body["sent"]) for body in queue.bodies(claims)]
        done = len(waits) >= count
        claims = queue.claim(10, ack=claims, wait=0 if done else PATIENCE)
    queue.close()
    if len(waits) < count:
        raise Failed(f"only {len(waits)} of {count} arrived within {PATIENCE:.0f} s")
    return waits
