"""WF: does the rate come back by itself after a fault? Consumers at work on a long queue, each message 1 ms of it.

The rate before, the fault, the rate at once and a while later: by how much the queue became shorter, as its statistics
say. What a killed worker had in its hands comes back when its lease of 3 s is over, and is then claimed message by
message, because any of them may be what killed it: the second look comes when that should be over.

Nobody helps: consumers find the restarted server themselves; whoever was killed is started again, as any process
manager does. A SQLite file has no server: there all consumers are killed at once instead, and nothing is cut off.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from bench.cases import ONLY_HOLDFAST, Case, Goal, Outcome, Row
from bench.loading import load
from bench.places import Place
from bench.processes import Failed
from bench.queues import Target
from bench.queues.holdfast import QUEUE
from bench.sizes import Sizes
from holdfast import Holdfast

WORKERS = 2
KILLS = 10
CUTS = 10
LEASE = 3
PATIENCE = 60.0

WORK = """
import sys, time
from holdfast import Holdfast

hf = Holdfast(sys.argv[1])
hf.consumer(sys.argv[2], name="worker", concurrency=4)(lambda message: time.sleep(0.001))
hf.run(grace=0)
"""


class Workers:
    """Processes that consume until they are killed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._running = [self._start() for _ in range(WORKERS)]

    def kill(self, number: int) -> None:
        """One is killed, and another one started."""
        self._running[number].kill()
        self._running[number].wait()
        self._running[number] = self._start()

    def kill_all(self) -> None:
        for one in self._running:
            one.kill()
        for one in self._running:
            one.wait()
        self._running = [self._start() for _ in range(WORKERS)]

    def close(self) -> None:
        for one in self._running:
            one.kill()
            one.wait()

    def have_ended(self) -> bool:
        return any(one.poll() is not None for one in self._running)

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", WORK, self._url, QUEUE])


Harm = Callable[[Place, Workers], None]


def cases(sizes: Sizes) -> Iterator[Case]:
    kills = f"{KILLS} kills of a worker"
    yield _case("a restart of the database", restart, sizes, sizes.find_back_seconds)
    yield _case(kills, kill_repeatedly, sizes, sizes.worked_off_seconds)
    cuts = f"{CUTS} cuts of all connections"
    yield replace(_case(cuts, cut_repeatedly, sizes, sizes.find_back_seconds), stores=("postgres",))


def _case(name: str, harm: Harm, sizes: Sizes, find_back: float) -> Case:
    rows = [
        Row(f"before {name}", "before"),
        Row(f"{name}: at once", "at_once"),
        Row(f"{name}: after {find_back:g} s", "after"),
        Row(f"{name}: rate after ÷ before", "kept", "%", goals=(Goal("value", 95),)),
        Row(f"{name}: silence", "silence", "s"),
    ]
    measure_one = partial(measure, harm, sizes.faulted, sizes.faulted_seconds, find_back)
    return Case("wf", name, measure_one, rows, ONLY_HOLDFAST)


def restart(place: Place, workers: Workers) -> None:
    if place.store == "postgres":
        place.restart()
    else:
        workers.kill_all()


def kill_repeatedly(place: Place, workers: Workers) -> None:
    for number in range(KILLS):
        workers.kill(number % WORKERS)
        time.sleep(0.5)


def cut_repeatedly(place: Place, workers: Workers) -> None:
    for _ in range(CUTS):
        place.cut()
        time.sleep(0.5)


def measure(harm: Harm, count: int, seconds: float, find_back: float, place: Place, target: Target) -> Outcome:
    load(place, target, count)
    with Holdfast(target.url) as hf:
        hf.queue(QUEUE, lease=LEASE, max_attempts=50, history=0)
        workers = Workers(target.url)
        try:
            wait_for_progress(hf, left(hf))
            time.sleep(seconds / 2)
            before = rate(hf, seconds)
            harm(place, workers)
            silence = wait_for_progress(hf, left(hf))
            at_once = rate(hf, seconds)
            time.sleep(max(0.0, find_back - seconds))
            after = rate(hf, seconds)
            if workers.have_ended():
                raise Failed("a consumer ended by itself")
        finally:
            workers.close()
        if not left(hf):
            raise Failed("the queue ran empty: it was too short for the time")
    return {"before": before, "at_once": at_once, "after": after, "kept": 100 * after / before, "silence": silence}


def left(hf: Holdfast) -> int:
    stats = hf.stats(QUEUE)
    return stats.pending + stats.waiting + stats.processing


def rate(hf: Holdfast, seconds: float) -> float:
    began, before = time.monotonic(), left(hf)
    time.sleep(seconds)
    after, ended = left(hf), time.monotonic()
    return (before - after) / (ended - began)


def wait_for_progress(hf: Holdfast, before: int) -> float:
    """Seconds until something was done."""
    began = time.monotonic()
    while left(hf) >= before:
        if time.monotonic() - began > PATIENCE:
            raise Failed(f"nothing was done for {PATIENCE:.0f} s")
        time.sleep(0.02)
    return time.monotonic() - began
