"""Filling a queue before something else is measured, and looking whether it is empty afterwards."""

from bench import payload
from bench.places import Place
from bench.processes import Failed, Gate, alone
from bench.queues import Target, open_queue

CALL = 10_000


def load(place: Place, target: Target, count: int, call: int = CALL) -> None:
    """Messages 0 … count-1, by a process that is gone when this returns."""
    alone(_fill, target, count, call)
    place.settle(target.url)


def check_drained(target: Target, numbers: list[int], expected: int) -> None:
    """Every message came out exactly once, and the queue is empty."""
    problem = payload.fault(numbers, expected, count_left(target))
    if problem:
        raise Failed(problem)


def count_left(target: Target) -> int:
    """How many messages a process that was not there before finds in the queue."""
    left: int = alone(_left, target)
    return left


def _fill(gate: Gate, target: Target, count: int, call: int) -> None:
    queue = open_queue(target)
    for start in range(0, count, call):
        queue.enqueue_many(payload.bodies(start, min(call, count - start)))
    queue.close()


def _left(gate: Gate, target: Target) -> int:
    queue = open_queue(target)
    left = queue.left()
    queue.close()
    return left
