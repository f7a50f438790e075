"""W3, split: what it costs when a run is not acked as a whole: some messages nacked, or acked in many small parts."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from bench.cases import ONLY_HOLDFAST, Case, Outcome, rate_case
from bench.loading import check_drained, load
from bench.places import Place
from bench.processes import Failed, Gate, alone
from bench.queues import Queue, Target, open_queue
from bench.sizes import Sizes

N = 100
PARTS = 10
CLEAN = f"claim {N}, all acked"

Settle = Callable[[Any, Sequence[Any], list[int]], list[int]]
"""Ends all claims of a round, given their numbers; the numbers that it acked."""


def cases(sizes: Sizes) -> Iterator[Case]:
    yield rate_case("w3s", CLEAN, partial(measure, sizes.split, 0, ack_at_once))
    for percent in (1, 10):
        for calls, nack in (("one call each", nack_one_by_one), ("one call a round", nack_together)):
            yield rate_case(
                "w3s",
                f"{percent} % nacked, {calls}",
                partial(measure, sizes.split, percent, partial(nack_some, percent, nack)),
                against=(CLEAN, "all acked"),
                contenders=ONLY_HOLDFAST,
            )
    yield rate_case(
        "w3s", f"acked in {PARTS} parts", partial(measure, sizes.split, 0, ack_in_parts), against=(CLEAN, "all acked")
    )


def measure(count: int, percent: int, settle: Settle, place: Place, target: Target) -> Outcome:
    load(place, target, count)
    numbers, claimed, took = alone(drain, target, settle)
    check_drained(target, numbers, count)
    if claimed - count != count * percent // 100:
        raise Failed(f"{claimed} claims for {count} messages of which {percent} % were nacked once")
    return {"rate": count / took, "claims": claimed}


def drain(gate: Gate, target: Target, settle: Settle) -> tuple[list[int], int, float]:
    """The numbers that were acked, how many claims it took, and the seconds until the last ack."""
    queue = open_queue(target)
    numbers: list[int] = []
    claimed = 0
    started = time.perf_counter()
    while claims := queue.claim(N):
        claimed += len(claims)
        numbers += settle(queue, claims, [body["n"] for body in queue.bodies(claims)])
    took = time.perf_counter() - started
    queue.close()
    return numbers, claimed, took


def ack_at_once(queue: Queue, claims: Sequence[Any], numbers: list[int]) -> list[int]:
    queue.ack(claims)
    return numbers


def ack_in_parts(queue: Queue, claims: Sequence[Any], numbers: list[int]) -> list[int]:
    size = -(-len(claims) // PARTS)
    for start in range(0, len(claims), size):
        queue.ack(claims[start : start + size])
    return numbers


def nack_some(
    percent: int, nack: Callable[[Any, list[Any]], None], queue: Queue, claims: Sequence[Any], numbers: list[int]
) -> list[int]:
    """The first attempt of so many in a hundred fails."""
    pairs = list(zip(claims, numbers, strict=True))
    bad = [claim for claim, number in pairs if number % 100 < percent and claim.attempt == 1]
    good = [(claim, number) for claim, number in pairs if number % 100 >= percent or claim.attempt > 1]
    nack(queue, bad)
    queue.ack([claim for claim, _ in good])
    return [number for _, number in good]


def nack_one_by_one(queue: Any, claims: list[Any]) -> None:
    for claim in claims:
        queue.nack(claim)


def nack_together(queue: Any, claims: list[Any]) -> None:
    if claims:
        queue.nack(claims)
