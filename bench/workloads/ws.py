"""WS: sagas of three steps, from the first start to the last end, in one process.

Twenty callers start them at the same time; then what their steps need is claimed and acked by hundreds, or done by a
consumer with `hf.run()`. A step decodes its body and gives back a small object, which the saga keeps. `ref` has none.
"""

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import holdfast.worker.runner  # noqa: F401  imported by run() otherwise, and the clock runs by then
from bench import payload
from bench.cases import ONLY_HOLDFAST, Case, Outcome, Row
from bench.payload import STEPS
from bench.places import Place
from bench.processes import Failed, Gate, alone
from bench.queues import Target
from bench.sizes import Sizes
from holdfast import Context, Holdfast, Message, Step

NAME = f"sagas of {len(STEPS)} steps"
BY_RUN = f"{NAME}, run()"
CALLERS = 20
CLAIM = 100
SETTINGS: dict[str, Any] = {"history": 0, "lease": 300}


def cases(sizes: Sizes) -> Iterator[Case]:
    yield Case("ws", NAME, partial(measure, sizes.sagas), [Row(NAME)], ONLY_HOLDFAST)
    yield Case("ws", BY_RUN, partial(measure_run, sizes.sagas), [Row(BY_RUN)], ONLY_HOLDFAST)


def measure(count: int, place: Place, target: Target) -> Outcome:
    return {"rate": count / alone(_by_hand, target, count), "messages": count}


def measure_run(count: int, place: Place, target: Target) -> Outcome:
    return {"rate": count / alone(_by_consumer, target, count), "messages": count}


def _by_hand(gate: Gate, target: Target, count: int) -> float:
    hf = _opened(target)
    started = time.monotonic()
    _start(hf, count)
    for queue in STEPS:
        while claims := hf.claim(queue, n=CLAIM):
            assert all("to" in claim.message.body for claim in claims)
            hf.ack(claims, _output(queue))
    return _ended(hf, count, started)


def _by_consumer(gate: Gate, target: Target, count: int) -> float:
    hf, ended = _opened(target), itertools.count(1)

    @hf.consumer(*STEPS)
    def handle(message: Message, context: Context) -> dict[str, str]:
        assert "to" in message.body
        if context.queue == STEPS[-1] and next(ended) == count:
            hf.stop()
        return _output(context.queue)

    started = time.monotonic()
    _start(hf, count)
    hf.run()
    return _ended(hf, count, started)


def _opened(target: Target) -> Holdfast:
    hf = Holdfast(target.url)
    for step in STEPS:
        hf.queue(step, **SETTINGS)
    hf.saga("trip", steps=[Step(step, step, undo=f"{step}.undo") for step in STEPS])
    return hf


def _start(hf: Holdfast, count: int) -> None:
    with ThreadPoolExecutor(CALLERS) as callers:
        list(callers.map(lambda number: hf.start_saga("trip", payload.body(number)), range(count)))


def _output(step: str) -> dict[str, str]:
    return {"step": step}


def _ended(hf: Holdfast, count: int, started: float) -> float:
    """How long it took, if all of them are completed."""
    took, completed, last = time.monotonic() - started, 0, None
    while page := hf.sagas.list("completed", n=1_000, after=last):
        completed, last = completed + len(page), page[-1].id
    hf.close()
    if completed != count:
        raise Failed(f"of {count} sagas {completed} were completed")
    return took
