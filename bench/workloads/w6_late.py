"""Of W6: what live groups notice of one that comes late and catches up at its rate, in a process of its own.

One process publishes and reads for two live groups, call by call, while the late group is paused and not paused in
turns: whatever else happens on the machine happens to both.
"""

import time
from collections.abc import Iterator
from functools import partial

from bench import payload
from bench.cases import ONLY_HOLDFAST, Case, Goal, Outcome, Row
from bench.places import Place
from bench.processes import Failed, Gate, alone, together
from bench.queues import Target
from bench.sizes import Sizes
from holdfast import Holdfast, UnknownGroup

TOPIC = "bench"
LIVE = ("live-0", "live-1")
LATE = f"{TOPIC}/late"
RATE = 2_000
"""Messages per second that the late group may have of its past."""
PAIRS = 6
"""So many turns without it, and as many with it."""
CALL = 100


def cases(sizes: Sizes) -> Iterator[Case]:
    without = f"deliver to {len(LIVE)} live groups"
    within = (Goal("against", 0.8),)
    rows = [
        Row(without, "alone"),
        Row(f"deliver while another catches up, {RATE:,}/s", "live", against=(without, "nobody"), goals=within),
        Row("caught up meanwhile", "caught_up"),
    ]
    past = max(sizes.bulk, round(4 * RATE * PAIRS * sizes.late_seconds))  # More than it can catch up meanwhile.
    measured = partial(measure, past, sizes.late_seconds)
    yield Case("w6", "while another catches up", measured, rows, ONLY_HOLDFAST)


def measure(past: int, seconds: float, place: Place, target: Target) -> Outcome:
    alone(prepare, target, past)
    outcome, caught_up = together([(deliver, (target, seconds)), (catch_up, (target,))])
    if not 0 < caught_up < past:
        raise Failed(f"of {past} messages of the past {caught_up} were read: none, or all, so nothing was measured")
    return {**outcome, "caught_up": caught_up / (PAIRS * seconds)}


def prepare(gate: Gate, target: Target, past: int) -> None:
    """A past, two groups that have nothing to do with it, and one that wants all of it."""
    with Holdfast(target.url) as hf:
        hf.topic(TOPIC)
        for start in range(0, past, 1_000):
            hf.publish_many(TOPIC, payload.bodies(start, min(1_000, past - start)))
        for group in LIVE:
            hf.subscribe(TOPIC, group, lease=300)
        hf.subscribe(TOPIC, "late", start="earliest", catch_up_rate=f"{RATE}/s", lease=300)
        hf.queues.pause(LATE)
        gate()


def deliver(gate: Gate, target: Target, seconds: float) -> Outcome:
    """Deliveries per second, while the late group is paused and while it is not."""
    numbers = {True: 0, False: 0}
    took = {True: 0.0, False: 0.0}
    with Holdfast(target.url) as hf:
        one_call(hf, 0)
        gate()
        start = CALL
        for turn in range(2 * PAIRS):
            is_alone = turn % 4 in (0, 3)  # Who comes first changes, so that what grows over time hits both.
            (hf.queues.pause if is_alone else hf.queues.resume)(LATE)
            began = time.monotonic()
            while time.monotonic() - began < seconds:
                numbers[is_alone] += one_call(hf, start)
                start += CALL
            took[is_alone] += time.monotonic() - began
        hf.groups.remove(TOPIC, "late")
    return {"alone": numbers[True] / took[True], "live": numbers[False] / took[False]}


def one_call(hf: Holdfast, start: int) -> int:
    """Publishes some messages, and reads them for each live group; how many deliveries that were."""
    hf.publish_many(TOPIC, payload.bodies(start, CALL))
    for group in LIVE:
        claims = hf.claim(TOPIC, group=group, n=CALL)
        if payload.fault([claim.message.body["n"] - start for claim in claims], CALL):
            raise Failed(f"{group} did not get what was published")
        hf.ack(claims)
    return len(LIVE) * CALL


def catch_up(gate: Gate, target: Target) -> int:
    """Reads for the late group as long as there is one; how many messages."""
    with Holdfast(target.url) as hf:
        hf.topics.list()
        gate()
        caught_up = 0
        while True:
            claims = hf.claim(LATE, n=CALL, wait=0.5)
            caught_up += len(claims)
            try:
                if claims:
                    hf.ack(claims)
                else:
                    hf.groups.heartbeat(TOPIC, "late")
            except Exception as problem:
                if is_over(hf, problem):
                    return caught_up
                raise


def is_over(hf: Holdfast, problem: Exception) -> bool:
    """Whether an error is the end of the group: a lost claim is, when there is no group any more."""
    return isinstance(problem, UnknownGroup) or not any(one.group == "late" for one in hf.groups.list(TOPIC))
