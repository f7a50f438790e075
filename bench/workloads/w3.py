"""W3: drain a full queue: claim n, decode every body, ack every claim; by one process and by two.

`fused` acks with the next claim, in one transaction; `apart` acks first and then claims, two commits per round.
"""

import time
from collections.abc import Iterator
from functools import partial

from bench.cases import Case, Goal, Outcome, rate_case
from bench.loading import check_drained, load
from bench.places import Place
from bench.processes import Gate, together
from bench.queues import Queue, Target, open_queue
from bench.sizes import Sizes

GOALS = (Goal("ref", 0.7, ("sqlite",)), Goal("ref", 0.9, ("postgres",)))
TWO_PROCESSES = (*GOALS, Goal("against", 1.5, ("postgres",)))


def cases(sizes: Sizes) -> Iterator[Case]:
    for n, count in sizes.drains:
        for way in ("fused", "apart"):
            for processes in sizes.processes:
                yield rate_case(
                    "w3",
                    _name(n, way, processes),
                    partial(measure, n, count, way, processes),
                    against=(_name(n, way, 1), "one process") if processes > 1 else None,
                    goals=TWO_PROCESSES if processes > 1 else GOALS,
                )


def measure(n: int, count: int, way: str, processes: int, place: Place, target: Target) -> Outcome:
    load(place, target, count)
    results = together([(drain, (target, n, way))] * processes)
    check_drained(target, [number for numbers, _, _ in results for number in numbers], count)
    started, ended = min(result[1] for result in results), max(result[2] for result in results)
    shares = [len(numbers) / count for numbers, _, _ in results]
    return {"rate": count / (ended - started), "smallest_share": min(shares)}


def drain(gate: Gate, target: Target, n: int, way: str) -> tuple[list[int], float, float]:
    """The numbers that came out, and when the first claim began and the last ack ended."""
    queue = open_queue(target)
    gate()
    started = time.monotonic()
    numbers = drain_fused(queue, n) if way == "fused" else drain_apart(queue, n)
    ended = time.monotonic()
    queue.close()
    return numbers, started, ended


def drain_fused(queue: Queue, n: int) -> list[int]:
    numbers: list[int] = []
    claims = queue.claim(n)
    while claims:
        numbers += [body["n"] for body in queue.bodies(claims)]
        claims = queue.claim(n, ack=claims)
    return numbers


def drain_apart(queue: Queue, n: int) -> list[int]:
    numbers: list[int] = []
    while claims := queue.claim(n):
        numbers += [body["n"] for body in queue.bodies(claims)]
        queue.ack(claims)
    return numbers


def _name(n: int, way: str, processes: int) -> str:
    return f"claim {n:,}, {way}" + (f", {processes} processes" if processes > 1 else "")
