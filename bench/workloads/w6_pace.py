"""Of W6: whether cleaning up keeps pace. One process publishes, one reads for all groups, and one does nothing but
maintenance, as every process with consumers does it.

It is published at a fixed rate, or as fast as the machine can beside the others. Whether the keeper keeps pace does not
depend on that: what counts is how much is left of what every group was done with.
"""

import time
from bisect import bisect
from collections.abc import Iterator
from functools import partial
from operator import itemgetter

from bench import payload
from bench.cases import ONLY_HOLDFAST, Case, Goal, Outcome, Row
from bench.places import Place
from bench.processes import Failed, Gate, together
from bench.queues import Target
from bench.sizes import Sizes
from holdfast import Holdfast
from holdfast.client.client import internals
from holdfast.worker.maintenance.leader import Keeper

TOPIC = "bench"
CALL = 1_000
RATE = 30_000
GROUPS = 4
PATIENCE = 60.0
LEFT = 2 * RATE
"""Messages: a keeper that has nothing to do looks every second."""

Steps = list[tuple[float, int]]
"""How many messages something had happened to, and since when."""


def cases(sizes: Sizes) -> Iterator[Case]:
    done = f"done by {GROUPS} groups meanwhile"
    rows = [
        Row(f"publish {RATE:,}/s, or what is possible beside {GROUPS} groups and a keeper", "published"),
        Row(done, "done"),
        Row("removed by the keeper meanwhile", "removed", against=(done, "done"), goals=(Goal("against", 0.9),)),
        Row("done, not removed yet, half-way", "left_half_way", "messages"),
        Row("done, not removed yet, at the end", "left", "messages", goals=(Goal("value", LEFT, below=True),)),
    ]
    measured = partial(measure, round(RATE * sizes.pace_seconds))
    yield Case("w6", "removal while it is published", measured, rows, ONLY_HOLDFAST)


def measure(count: int, place: Place, target: Target) -> Outcome:
    """All of it between the first publish and the last."""
    published, done, removed = together(
        [(publish, (target, count)), (consume, (target, count)), (keep, (target, count))]
    )
    (start, _), (end, _) = published[0], published[-1]
    middle, took = (start + end) / 2, end - start
    return {
        "published": count / took,
        "done": reached(done, end) / took,
        "removed": reached(removed, end) / took,
        "left_half_way": reached(done, middle) - reached(removed, middle),
        "left": reached(done, end) - reached(removed, end),
    }


def reached(steps: Steps, moment: float) -> int:
    """How far it was by then."""
    return steps[max(0, bisect(steps, moment, key=itemgetter(0)) - 1)][1]


def publish(gate: Gate, target: Target, count: int) -> Steps:
    with Holdfast(target.url) as hf:
        hf.topic(TOPIC, min_retention=0)
        for number in range(GROUPS):
            hf.subscribe(TOPIC, f"group-{number}", lease=300)
        calls = [payload.bodies(start, min(CALL, count - start)) for start in range(0, count, CALL)]
        gate()
        steps = [(time.monotonic(), 0)]
        for bodies in calls:
            time.sleep(max(0.0, steps[0][0] + steps[-1][1] / RATE - time.monotonic()))
            hf.publish_many(TOPIC, bodies)
            steps.append((time.monotonic(), steps[-1][1] + len(bodies)))
        return steps


def consume(gate: Gate, target: Target, count: int) -> Steps:
    """Reads for one group after the other; how many messages all of them were done with."""
    with Holdfast(target.url) as hf:
        hf.topics.list()
        gate()
        numbers: list[list[int]] = [[] for _ in range(GROUPS)]
        held = [hf.claim(TOPIC, group=f"group-{number}", n=CALL, wait=PATIENCE) for number in range(GROUPS)]
        steps = [(time.monotonic(), 0)]
        while any(held):
            for number, claims in enumerate(held):
                numbers[number] += [claim.message.body["n"] for claim in claims]
                wait = PATIENCE if number == 0 and len(numbers[number]) < count else 0
                held[number] = hf.claim(TOPIC, group=f"group-{number}", n=CALL, ack=claims, wait=wait)
            steps.append((time.monotonic(), min(map(len, numbers))))
    for one in numbers:
        if problem := payload.fault(one, count):
            raise Failed(problem)
    return steps


def keep(gate: Gate, target: Target, count: int) -> Steps:
    """Maintenance until everything is removed; how much was when."""
    with Holdfast(target.url) as hf:
        steps = counted(hf)
        hf.topics.list()
        keeper = Keeper(hf, hf.worker, lambda: None)
        gate()
        steps.append((time.monotonic(), 0))
        keeper.start()
        deadline = time.monotonic() + PATIENCE
        while steps[-1][1] < count and time.monotonic() < deadline:
            time.sleep(0.05)
        keeper.stop()
        if steps[-1][1] != count:
            raise Failed(f"of {count} messages {steps[-1][1]} were removed: {keeper.trouble() or 'no trouble'}")
        return steps


def counted(hf: Holdfast) -> Steps:
    """Notes what the keeper of this client removes."""
    steps: Steps = []
    groups = internals(hf).groups
    retain = groups.retain

    def noted() -> int:
        gone = retain()
        steps.append((time.monotonic(), steps[-1][1] + gone))
        return gone

    groups.retain = noted  # type: ignore[method-assign]
    return steps
