"""Whatever happens, in whatever order: retention takes from a live group only what is too old, and counts it."""

import random
import re
from collections import defaultdict
from collections.abc import Callable

import pytest

from holdfast import Claim, CursorOutOfRange, Holdfast
from tests.clock import FakeClock
from tests.stores import TOPICS
from tests.topics.publishing import kept, retain, watch

pytestmark = pytest.mark.not_through_sqs(TOPICS)

GROUPS = ("a", "b", "c")
RETENTION = 1_000
MIN_RETENTION = 30
TIMEOUT = 100
STEPS = 80


class Story:
    """A topic with three groups, and what is known of them from outside."""

    def __init__(self, hf: Holdfast, clock: FakeClock, chance: random.Random) -> None:
        self.hf, self.clock, self.chance = hf, clock, chance
        self.published: dict[str, int] = {}
        self.held: dict[str, list[Claim]] = defaultdict(list)
        self.done: dict[str, set[str]] = defaultdict(set)
        self.lost: dict[str, set[str]] = defaultdict(set)
        hf.topic("t", retention=RETENTION, min_retention=MIN_RETENTION)
        for group in GROUPS:
            hf.subscribe("t", group, timeout=TIMEOUT, misses=2, lease=50, max_attempts=1_000, backoff=None)

    def publish(self) -> None:
        bodies, level = range(self.chance.randint(1, 12)), self.chance.choice([1, 2])
        for receipt in self.hf.publish_many("t", bodies, priority=level):
            self.published[receipt.id] = self.clock()

    def claim(self) -> None:
        group = self.chance.choice(GROUPS)
        try:
            self.held[group] += self.hf.claim("t", group=group, n=self.chance.randint(1, 9))
        except CursorOutOfRange:
            assert self.hf.groups.accept_loss("t", group) > 0

    def settle(self) -> None:
        group = self.chance.choice(GROUPS)
        self.chance.shuffle(self.held[group])
        while self.held[group] and self.chance.random() < 0.8:
            claim = self.held[group].pop()
            if claim.lease.until_us > self.clock():
                if self.chance.random() < 0.7:
                    claim.ack()
                    self.done[group].add(claim.message.id)
                else:
                    claim.nack()

    def pass_time(self) -> None:
        self.clock.advance(self.chance.choice([1, 10, 40, 120, 400]))

    def look(self) -> None:
        watch(self.hf)

    def retain(self) -> None:
        before = self.waiting()
        dead = self.dead()
        retain(self.hf)
        after = self.waiting()
        for group in GROUPS:
            gone = before[group] - after[group]
            young = {one for one in gone if self.published[one] > self.clock() - RETENTION * 1_000_000}
            assert not young or group in dead, "a live group never loses what is not too old"
            self.lost[group] |= gone

    def waiting(self) -> dict[str, set[str]]:
        """What each group has not claimed yet."""
        return {group: {one.id for one in self.hf.queues.peek(f"t/{group}", 1_000)} for group in GROUPS}

    def dead(self) -> set[str]:
        """Groups that no message is kept for."""
        return {one.group for one in self.hf.groups.list("t") if one.state == "dead"}

    def finish(self) -> None:
        """Everyone gets all that is left for it."""
        for group in GROUPS:
            self.clock.advance(60)
            self.hf.groups.accept_loss("t", group)
            while claims := self.hf.claim("t", group=group, n=50):
                self.done[group] |= {claim.message.id for claim in claims}
                self.hf.ack(claims)


@pytest.mark.parametrize("seed", range(6))
def test_a_live_group_loses_only_what_is_too_old(hf: Holdfast, clock: FakeClock, seed: int) -> None:
    story = Story(hf, clock, random.Random(seed))
    acts: list[Callable[[], None]] = [
        story.publish,
        story.claim,
        story.claim,
        story.settle,
        story.pass_time,
        story.look,
        story.look,
        story.retain,
    ]
    for _ in range(STEPS):
        story.chance.choice(acts)()
    story.finish()
    reported = {
        notice.about: int(re.findall(r"\d+", notice.error)[0])
        for notice in hf.notices.list()
        if notice.kind == "out_of_range"
    }
    for group in GROUPS:
        assert story.done[group] | story.lost[group] == story.published.keys(), "nothing else is lost"
        assert not story.done[group] & story.lost[group], "nothing is lost that was claimed"
        assert reported.get(f"t/{group}", 0) == len(story.lost[group])
    clock.advance(MIN_RETENTION)
    retain(hf)
    assert kept(hf) == [], "and nothing stays that nobody needs"
