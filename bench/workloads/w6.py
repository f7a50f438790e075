"""W6: one topic, several groups. Publishing in bulk, then every group gets everything, one group after the other in one
process; the same in one process per group, also while it is published; and the removal of what all are done with.

A message is stored once whatever the number of groups, so publishing must not cost more with 64 of them than with one.
"""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median

from bench import payload
from bench.cases import ONLY_HOLDFAST, Case, Goal, Outcome, Row
from bench.places import Place
from bench.processes import Failed, Gate, alone, together
from bench.queues import Target
from bench.sizes import Sizes
from bench.workloads import w6_late, w6_pace
from holdfast import Holdfast
from holdfast.client.client import internals
from holdfast.client.validate import SWEEP_LIMIT
from holdfast.store.api import Topic

TOPIC = "bench"
CALL = 1_000
READERS = 4
"""So many of the groups read; the others only are there."""
PATIENCE = 30.0
TOGETHER = f"consume, {READERS} groups, a process each"
OVERALL = f"deliver in all, {READERS} groups, a process each"


def cases(sizes: Sizes) -> Iterator[Case]:
    count = sizes.fan_out
    for groups in sizes.groups:
        name = name_of(groups)
        against = (f"publish, {name_of(1)}", "one group") if groups > 1 else None
        rows = [Row(f"publish, {name}", "publish", against=against), Row(f"consume, {name}", "consume")]
        yield Case("w6", name, partial(measure, count, groups), rows, ONLY_HOLDFAST)
    few, many = (f"publish by turns, {name_of(groups)}" for groups in (1, max(sizes.groups)))
    turn_rows = [Row(few, "few"), Row(many, "many", against=(few, "one group"), goals=(Goal("against", 0.95),))]
    measured = partial(measure_turns, sizes.bulk, max(sizes.groups))
    yield Case("w6", "publish by turns", measured, turn_rows, ONLY_HOLDFAST)
    together_rows = [Row(TOGETHER, "consume"), Row(OVERALL, "overall")]
    yield Case("w6", "a process each", partial(measure_together, count), together_rows, ONLY_HOLDFAST)
    meanwhile = f"while {READERS} groups consume"
    meanwhile_rows = [
        Row(f"publish {meanwhile}", "publish"),
        Row(f"consume what is being published, {READERS} groups", "consume"),
    ]
    yield Case("w6", meanwhile, partial(measure_meanwhile, count), meanwhile_rows, ONLY_HOLDFAST)
    removal = Row(f"removed when {READERS} groups are done", goals=(Goal("value", 30_000),))
    yield Case("w6", "removal", partial(measure_removal, sizes.bulk), [removal], ONLY_HOLDFAST)
    yield from w6_pace.cases(sizes)
    yield from w6_late.cases(sizes)


def measure(count: int, groups: int, place: Place, target: Target) -> Outcome:
    """`consume` counts deliveries: as many per message as groups that read."""
    published = alone(publish, target, count, groups)
    numbers, took = alone(read_all, target, groups)
    _check(numbers, count)
    return outcome(count, published, numbers, took)


def outcome(count: int, published: float, numbers: Sequence[Sequence[int]], took: float) -> Outcome:
    """`published` and `took` are seconds, `numbers` what each group got."""
    deliveries = sum(map(len, numbers))
    return {
        "publish": count / published,
        "publish_messages": count,
        "consume": deliveries / took,
        "consume_messages": deliveries,
        "overall": deliveries / (published + took),
        "overall_messages": deliveries,
    }


def measure_turns(count: int, groups: int, place: Place, target: Target) -> Outcome:
    """Whether groups cost the publisher anything: what a busy machine does to one of the two, it does to the other."""
    few, many = alone(publish_turns, target, count, groups)
    return {"few": CALL / few, "many": CALL / many}


def measure_together(count: int, place: Place, target: Target) -> Outcome:
    """`overall` counts deliveries too, in the time that all of it took: publishing, then reading."""
    published = alone(publish, target, count, READERS)
    results = together([(read, (target, number)) for number in range(READERS)])
    numbers = [one for one, _, _ in results]
    _check(numbers, count)
    took = max(ended for _, _, ended in results) - min(started for _, started, _ in results)
    return outcome(count, published, numbers, took)


def measure_meanwhile(count: int, place: Place, target: Target) -> Outcome:
    """Five processes: one publishes, each of the others reads for a group what is there, and waits if nothing is."""
    readers = [(read, (target, number, count)) for number in range(READERS)]
    published, *results = together([(publish, (target, count, READERS)), *readers])
    numbers = [one for one, _, _ in results]
    _check(numbers, count)
    took = max(ended for _, _, ended in results) - min(started for _, started, _ in results)
    return outcome(count, published, numbers, took)


def measure_removal(count: int, place: Place, target: Target) -> Outcome:
    alone(publish, target, count, READERS)
    numbers, _ = alone(read_all, target, READERS)
    _check(numbers, count)
    removed, took = alone(remove, target)
    if removed != count:
        raise Failed(f"of {count} messages {removed} were removed")
    return {"rate": count / took}


def publish(gate: Gate, target: Target, count: int, groups: int) -> float:
    with Holdfast(target.url) as hf:
        hf.topic(TOPIC, min_retention=0)
        for number in range(groups):
            hf.subscribe(TOPIC, f"group-{number}", lease=300)
        calls = [payload.bodies(start, CALL) for start in range(0, count, CALL)]
        hf.publish_many(f"{TOPIC}.warm.up", [])
        gate()
        started = time.monotonic()
        for bodies in calls:
            hf.publish_many(f"{TOPIC}.some.thing", bodies)
        return time.monotonic() - started


def publish_turns(gate: Gate, target: Target, count: int, groups: int) -> tuple[float, float]:
    """Calls by turns to a topic with all groups and to two with one: what a call to these took, and to the other.

    By the median, as some calls are hit by a checkpoint; and one of the two was there before and one came after the
    other, as a later topic's rows are a few percent quicker to write.
    """
    topics = {"before": 1, "many": groups, "after": 1}
    took: dict[str, list[float]] = {topic: [] for topic in topics}
    with Holdfast(target.url) as hf:
        for topic, number in topics.items():
            hf.topic(topic, min_retention=0)
            for group in range(number):
                hf.subscribe(topic, f"{topic}-{group}")
            hf.publish_many(topic, [])
        hf.enqueue("last", None)  # Whose rows are the last of a table is quicker still; none of the three is.
        calls = [payload.bodies(start, CALL) for start in range(0, count, CALL)]
        gate()
        for turn, bodies in enumerate(calls):
            first = turn % len(topics)
            for topic in [*topics][first:] + [*topics][:first]:
                started = time.monotonic()
                hf.publish_many(topic, bodies)
                took[topic].append(time.monotonic() - started)
    return (median(took["before"]) + median(took["after"])) / 2, median(took["many"])


def read_all(gate: Gate, target: Target, groups: int) -> tuple[list[list[int]], float]:
    with Holdfast(target.url) as hf:
        hf.topics.list()
        gate()
        started = time.monotonic()
        numbers = [drain(hf, number) for number in range(min(groups, READERS))]
        return numbers, time.monotonic() - started


def read(gate: Gate, target: Target, number: int, expected: int = 0) -> tuple[list[int], float, float]:
    with Holdfast(target.url) as hf:
        hf.topics.list()
        gate()
        started = time.monotonic()
        numbers = drain(hf, number, expected)
        return numbers, started, time.monotonic()


def drain(hf: Holdfast, number: int, expected: int = 0) -> list[int]:
    """Until nothing is there; as long as fewer came than are `expected`, it waits for more."""
    numbers: list[int] = []
    group = f"group-{number}"
    claims = hf.claim(TOPIC, group=group, n=CALL, wait=PATIENCE if expected else 0)
    while claims:
        numbers += [claim.message.body["n"] for claim in claims]
        wait = PATIENCE if len(numbers) < expected else 0
        claims = hf.claim(TOPIC, group=group, n=CALL, ack=claims, wait=wait)
    return numbers


def remove(gate: Gate, target: Target) -> tuple[int, float]:
    """The steps that a keeper takes in turns, one right after the other until nothing is left: how many went."""
    with Holdfast(target.url) as hf:
        topic = internals(hf).store.topics.find(hf.settings.tenant, [TOPIC])
        assert isinstance(topic, Topic)
        gate()
        removed, started = 0, time.monotonic()
        while gone := internals(hf).store.retention.retain(topic, SWEEP_LIMIT).gone:
            removed += gone
        return removed, time.monotonic() - started


def _check(numbers: Sequence[Sequence[int]], count: int) -> None:
    for one in numbers:
        if problem := payload.fault(one, count):
            raise Failed(problem)


def name_of(groups: int) -> str:
    """As rows say it."""
    return "1 group" if groups == 1 else f"{groups} groups"
