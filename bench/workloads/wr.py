"""WR: consumers at work: the drain, the wake-up and the idling of w3, w4 and w7 through `hf.run()` and a handler.

The handler decodes the body and notes its number. A drain counts from the call of `run`, which starts all its threads,
to its return. `ref` has no consumers: beside them it drains with the size of a claim that is best for it.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.cases import ONLY_HOLDFAST, Case, Goal, Outcome, Row, rate_case
from bench.consuming import Make, awaited, drain, failing, plain, receive, returning
from bench.loading import check_drained, load
from bench.places import Place
from bench.processes import Failed, Gate, alone, together
from bench.queues import Target
from bench.queues.holdfast import QUEUE, HoldfastQueue
from bench.sizes import Sizes
from bench.workloads import w3, w4, w7

REF_CLAIM = 1_000
KEPT = {"history": 3_600}
MANY = 8
POOL = 4
PATIENCE = 60.0
LOOK_EVERY = 0.01
SETTLE_SECONDS = 0.5
"""A consumer has this long to start and to fall asleep before the first message is sent."""

BASE = "def"

IDLE = """
import sys
from bench.idling import Watcher
from bench.queues.holdfast import QUEUE, HoldfastQueue

url, empty, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
queue, handled = HoldfastQueue(url), []
queue.hf.consumer(QUEUE, empty=empty)(handled.append)
watcher = Watcher(seconds, then=queue.hf.stop)
watcher.start()
queue.hf.run()
watcher.join()
print(watcher.cpu, watcher.memory, len(handled))
queue.close()
"""


def cases(sizes: Sizes) -> Iterator[Case]:
    count = sizes.bulk
    for processes in sizes.workers:
        yield rate_case(
            "wr",
            _name(processes),
            partial(measure_drain, count, processes),
            against=(BASE, "one process") if processes > 1 else None,
            goals=w3.TWO_PROCESSES if processes == 2 else w3.GOALS,
        )
    for name, make, concurrency in (("async def", awaited, 1), (f"def, {MANY} threads", plain, MANY)):
        measure = partial(measure_drain, count, 1, make=make, concurrency=concurrency)
        yield rate_case("wr", name, measure, against=(BASE, "def"), goals=w3.GOALS)
    yield from _for_information(count)
    yield from _wake(sizes)
    for empty in ("hibernate", "poll"):
        yield _idle(empty, sizes.idle_seconds)


def _for_information(count: int) -> Iterator[Case]:
    for name, measure in (
        ("def, results kept", partial(measure_drain, count, 1, make=returning, settings=KEPT)),
        ("def, 1 % fail once", partial(measure_drain, count, 1, make=failing)),
        (f"pool of {POOL} processes", partial(measure_pool, count, POOL)),
    ):
        yield rate_case("wr", name, measure, against=(BASE, "def"), contenders=ONLY_HOLDFAST)


def _wake(sizes: Sizes) -> Iterator[Case]:
    name = f"enqueue to handler at {sizes.latency_rate:.0f}/s"
    measure = partial(measure_wake, sizes.latency_messages, sizes.latency_rate)
    yield Case("wr", name, measure, w4.rows_of(name))


def _idle(empty: str, seconds: float) -> Case:
    rows = [
        Row(f"idle memory, {empty}", "rss", "MB", goals=(Goal("value", 60, below=True),)),
        Row(f"idle processor, {empty}", "cpu", "%", goals=(Goal("value", 1, below=True),)),
    ]
    return Case("wr", f"idle, {empty}", partial(measure_idle, empty, seconds), rows, ONLY_HOLDFAST)


def measure_drain(
    count: int,
    processes: int,
    place: Place,
    target: Target,
    make: Make = plain,
    concurrency: int = 1,
    settings: dict[str, Any] | None = None,
) -> Outcome:
    if target.contender == "ref":
        return w3.measure(REF_CLAIM, count, "fused", processes, place, target)
    load(place, target, count)
    results = together([(drain, (target, make, concurrency, settings or {}))] * processes)
    check_drained(target, [number for numbers, _, _ in results for number in numbers], count)
    took = max(ended for _, _, ended in results) - min(started for _, started, _ in results)
    return {"rate": count / took, "smallest_share": min(len(numbers) for numbers, _, _ in results) / count}


def measure_pool(count: int, processes: int, place: Place, target: Target) -> Outcome:
    """From the end of a pause, by when all members sleep, to the last ack."""
    load(place, target, count)
    numbers, took = alone(_oversee, target, processes)
    check_drained(target, numbers, count)
    return {"rate": count / took}


def measure_wake(count: int, rate: float, place: Place, target: Target) -> Outcome:
    if target.contender == "ref":
        return w4.measure(count, rate, place, target)
    patience = 2 * count / rate + w4.PATIENCE
    _, waits = together([(_produce, (target, count, rate)), (receive, (target, count, patience))])
    check_drained(target, [number for number, _ in waits], count)
    return w4.beside_the_disk(w4.percentiles([wait for _, wait in waits]), count, rate)


def measure_idle(empty: str, seconds: float, place: Place, target: Target) -> Outcome:
    cpu, memory, handled = w7.python(IDLE, target.url, empty, str(seconds))
    if handled:
        raise Failed("something was handled from an empty queue")
    return {"rss": memory / 1e6, "cpu": 100 * cpu / seconds}


def _produce(gate: Gate, target: Target, count: int, rate: float) -> None:
    def wait_until_it_sleeps() -> None:
        gate()
        time.sleep(SETTLE_SECONDS)

    w4.produce(wait_until_it_sleeps, target, count, rate)


def _oversee(gate: Gate, target: Target, processes: int) -> tuple[list[int], float]:
    queue = HoldfastQueue(target.url)
    queue.hf.queues.pause(QUEUE)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.pool_program", target.url, folder, str(processes)]
        with subprocess.Popen(command) as supervisor:
            try:
                _wait_until(lambda: len(queue.hf.consumers.list()) == processes)
                queue.hf.queues.resume(QUEUE)
                started = time.monotonic()
                _wait_until(lambda: queue.left() == 0)
                took = time.monotonic() - started
            finally:
                supervisor.terminate()
        numbers = [number for file in Path(folder).iterdir() for number in json.loads(file.read_text())]
    queue.close()
    return numbers, took


def _wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > deadline:
            raise Failed(f"the pool was not where it should be within {PATIENCE:.0f} s")
        time.sleep(LOOK_EVERY)


def _name(processes: int) -> str:
    return BASE if processes == 1 else f"{BASE}, {processes} processes"
