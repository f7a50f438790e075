"""W5: does a drain slow down when the queue is long? Claim 100 and ack, in chunks, with a short and a long queue. And
how long does it take to say how long it is?

Each chunk that was drained is filled up again outside the clock, so the only difference is the standing backlog.
"""

import time
from collections.abc import Iterator
from functools import partial

from bench import payload
from bench.cases import ONLY_HOLDFAST, Case, Goal, Outcome, Row, rate_case
from bench.loading import count_left, load
from bench.places import Place
from bench.processes import Failed, Gate, alone
from bench.queues import Queue, Target, open_queue
from bench.sizes import Sizes

N = 100


def cases(sizes: Sizes) -> Iterator[Case]:
    short, long = sizes.backlogs
    seconds = sizes.backlog_seconds
    yield rate_case("w5", _name(short), partial(measure, short, short, seconds))
    yield rate_case(
        "w5",
        _name(long),
        partial(measure, long, short, seconds),
        against=(_name(short), f"at {short:,}"),
        goals=(Goal("against", 0.9),),
    )
    yield Case(
        "w5",
        f"stats, backlog {long:,}",
        partial(measure_stats, long),
        [Row(f"stats, backlog {long:,}", "slowest", "ms", goals=(Goal("value", 20, below=True),))],
        ONLY_HOLDFAST,
    )


def measure(backlog: int, chunk: int, seconds: float, place: Place, target: Target) -> Outcome:
    load(place, target, backlog)
    numbers, took, sent = alone(drain_in_chunks, target, backlog, chunk, seconds, limit=600)
    left = count_left(target)
    # One consumer gets the oldest first: what came out is 0, 1, 2 … without a hole.
    if problem := payload.fault(numbers, len(numbers)):
        raise Failed(problem)
    if len(numbers) + left != sent:
        raise Failed(f"{sent} went in, {len(numbers)} came out, {left} are left")
    return {"rate": len(numbers) / took, "drained": len(numbers)}


def measure_stats(backlog: int, place: Place, target: Target) -> Outcome:
    load(place, target, backlog)
    return {"slowest": 1000 * max(alone(look, target, backlog))}


def look(gate: Gate, target: Target, backlog: int) -> list[float]:
    """The second hundred looks of a client, so that the first one's connection is not counted."""
    from bench.queues.holdfast import QUEUE
    from holdfast import Holdfast

    took = []
    with Holdfast(target.url) as hf:
        for _ in range(200):
            started = time.perf_counter()
            depth = hf.stats(QUEUE).queue_depth
            took.append(time.perf_counter() - started)
            if depth != backlog:
                raise Failed(f"{backlog} are in the queue, stats() says {depth}")
    return took[100:]


def drain_in_chunks(
    gate: Gate, target: Target, backlog: int, chunk: int, seconds: float
) -> tuple[list[int], float, int]:
    queue, numbers = open_queue(target), list[int]()
    took, sent = 0.0, backlog
    while True:
        started = time.perf_counter()
        numbers += drain_chunk(queue, chunk)
        took += time.perf_counter() - started
        if took >= seconds:
            break
        queue.enqueue_many(payload.bodies(sent, chunk))
        sent += chunk
    queue.close()
    return numbers, took, sent


def drain_chunk(queue: Queue, count: int) -> list[int]:
    numbers: list[int] = []
    claims = queue.claim(N)
    while claims:
        numbers += [body["n"] for body in queue.bodies(claims)]
        if len(numbers) >= count:
            queue.ack(claims)
            break
        claims = queue.claim(N, ack=claims)
    return numbers


def _name(backlog: int) -> str:
    return f"claim {N}, backlog {backlog:,}"
