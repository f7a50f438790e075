"""W4: from the call of `enqueue` in one process to the claim in the hand of another that was asleep.

Both processes read the host's monotonic clock. `ref` does the least that there is to do: it inserts a row, sends one
datagram or notification, and updates a row. What that takes depends on the machine, above all on how long a commit
waits for the disk, so that is what Holdfast is held against.
"""

import random
import statistics
import time
from collections.abc import Iterable, Iterator
from functools import partial

from bench import payload
from bench.cases import Case, Goal, Outcome, Row
from bench.loading import check_drained
from bench.places import Place
from bench.processes import Failed, Gate, together
from bench.queues import Target, open_queue
from bench.sizes import Sizes

PATIENCE = 30.0

MEDIAN = (Goal("ref", 1.35, ("sqlite",), below=True), Goal("value", 2.4, ("postgres",), below=True))
"""On SQLite 1.2 ms, where the least took 0.89: a commit waits 0.2 ms for the disk there, which differs by machine and
hour. On PostgreSQL the bound is what graphile-worker took there; beside it, in one run, it is what it takes here."""


def cases(sizes: Sizes) -> Iterator[Case]:
    name = f"wake-up at {sizes.latency_rate:.0f}/s"
    rows = [Row(f"{name}, p50", "p50", "ms", goals=MEDIAN), Row(f"{name}, p99", "p99", "ms")]
    yield Case("w4", name, partial(measure, sizes.latency_messages, sizes.latency_rate), rows)


def measure(count: int, rate: float, place: Place, target: Target) -> Outcome:
    _, waits = together([(produce, (target, count, rate)), (consume, (target, count))])
    check_drained(target, [number for number, _ in waits], count)
    return percentiles([wait for _, wait in waits])


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
