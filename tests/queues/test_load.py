"""What a supervisor looks at: how much could be claimed now, and for how long the first of it could have been."""

import pytest

from holdfast import Holdfast
from holdfast.client.client import internals
from holdfast.worker.pools.scaling import Load
from tests.clock import FakeClock
from tests.steps import claim_one
from tests.stores import INSIDE

pytestmark = pytest.mark.not_through_sqs(INSIDE)


def load(hf: Holdfast, *queues: str) -> Load:
    return internals(hf).store.reads.load(internals(hf).catalog.channels(queues or ("q",)))


def test_an_empty_queue_is_no_load(hf: Holdfast, clock: FakeClock) -> None:
    clock.advance(100)
    assert load(hf) == Load(0, 0.0)
    assert internals(hf).store.reads.load([]) == Load(0, 0.0)


def test_what_waits_counts_from_its_arrival(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue("q", 1)
    clock.advance(3)
    hf.enqueue_many("q", [2, 3], priority="low")
    clock.advance(4)
    assert load(hf) == Load(3, 7.0)


@pytest.mark.parametrize("priority", ["urgent", "high", "normal", "low"])
def test_it_may_wait_in_any_lane(hf: Holdfast, clock: FakeClock, priority: str) -> None:
    hf.enqueue("q", 1, priority=priority)
    hf.enqueue("q", 2, priority=priority, delay=1)
    clock.advance(4)
    assert load(hf) == Load(2, 4.0)


def test_a_delay_is_no_wait(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue("q", 1, delay=60)
    clock.advance(50)
    assert load(hf) == Load(0, 0.0)
    hf.enqueue("q", 2)
    clock.advance(2)
    assert load(hf) == Load(1, 2.0)
    clock.advance(11)
    assert load(hf) == Load(2, 13.0)


def test_a_retry_counts_from_when_it_is_due(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", backoff=60)
    hf.enqueue("q", 1)
    clock.advance(1000)
    claim_one(hf).nack("no")
    assert load(hf) == Load(0, 0.0)
    clock.advance(65)
    assert load(hf) == Load(1, 5.0)


def test_what_is_in_hand_does_not_wait(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("q", [1, 2, 3])
    first, _ = hf.claim("q", n=2, lease=100)
    clock.advance(5)
    assert load(hf) == Load(1, 5.0, held=2)
    hf.claim("q", lease=100)
    first.ack()
    assert load(hf) == Load(0, 0.0, held=2)
    hf.queues.pause("q")
    assert load(hf) == Load(0, 0.0, held=2), "also when nothing more is given out"


def test_what_is_paused_or_blocked_is_no_load(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("ordered", ordering="per_key", on_dead="block")
    hf.enqueue_many("ordered", [1, 2], key="k")
    claim_one(hf, "ordered").dead_letter("no")
    hf.enqueue("ordered", 3, key="other", delay=60)
    assert (hf.stats("ordered").pending, hf.stats("ordered").waiting) == (1, 1)
    hf.enqueue("q", 1)
    hf.queues.pause("q")
    clock.advance(5)
    assert load(hf, "ordered", "q") == Load(0, 0.0)
    hf.queues.resume("q")
    assert load(hf, "ordered", "q") == Load(1, 5.0)


def test_queues_add_up(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue("a", 1)
    clock.advance(2)
    hf.enqueue_many("b", [1, 2])
    assert load(hf, "a", "b") == Load(3, 2.0)
    assert load(hf, "b") == Load(2, 0.0)
