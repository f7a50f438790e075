"""W2: bulk enqueue, the bodies built as dicts in the loop."""

import time
from collections.abc import Iterator
from functools import partial

from bench import payload
from bench.cases import Case, Goal, Outcome, rate_case
from bench.loading import count_left
from bench.places import Place
from bench.processes import Failed, Gate, alone
from bench.queues import Target, open_queue
from bench.sizes import Sizes


def cases(sizes: Sizes) -> Iterator[Case]:
    for call in sizes.bulk_calls:
        yield rate_case(
            "w2",
            f"{sizes.bulk:,} in calls of {call:,}",
            partial(measure, sizes.bulk, call),
            goals=(Goal("ref", 0.7),),
        )


def measure(count: int, call: int, place: Place, target: Target) -> Outcome:
    took = alone(enqueue, target, count, call)
    left = count_left(target)
    if left != count:
        raise Failed(f"{count} were enqueued, {left} are in the queue")
    return {"rate": count / took}


def enqueue(gate: Gate, target: Target, count: int, call: int) -> float:
    queue = open_queue(target)
    started = time.perf_counter()
    for start in range(0, count, call):
        queue.enqueue_many(payload.bodies(start, call))
    took = time.perf_counter() - started
    queue.close()
    return took
