"""A message whose time is over has expired for everyone who looks, before a claim or a sweep has ended it."""

from typing import Any

import pytest

from holdfast import Holdfast, QueueFull, State
from holdfast.client.client import internals
from tests.clock import FakeClock
from tests.steps import bodies, claim_one, counts, kill, state
from tests.stores import TOPICS

pytestmark = pytest.mark.of_queues

Options = dict[str, Any]

WAYS: dict[str, tuple[Options, Options]] = {
    "too old, in a lane": ({"max_age": 5}, {}),
    "too old, as a row": ({"max_age": 5}, {"delay": 1}),
    "too old, not due yet": ({"max_age": 5}, {"delay": 60}),
    "past its ttl": ({}, {"ttl": 5}),
    "past its ttl, with a delay": ({}, {"ttl": 5, "delay": 1}),
    "past both": ({"max_age": 5}, {"ttl": 4}),
    "in order": ({"max_age": 5, "ordering": "fifo"}, {}),
}
every_way = pytest.mark.parametrize(("settings", "options"), WAYS.values(), ids=WAYS)


@every_way
def test_it_is_expired_for_status_and_search(
    hf: Holdfast, clock: FakeClock, settings: Options, options: Options
) -> None:
    hf.queue("q", **settings)
    receipt = hf.enqueue("q", "work", correlation_id="order-1", **options)
    clock.advance(3.999999)
    assert state(hf, receipt.id) is State.PENDING
    clock.advance(1.000001)
    found = hf.status(receipt.id)
    assert found is not None
    assert (found.state, found.due_at) == (State.EXPIRED, None)
    assert found.finished_at is not None
    assert [one.state for one in hf.messages.search("q", correlation_id="order-1")] == [State.EXPIRED]
    assert hf.queues.sweep("q") == 1, "a look writes nothing"
    assert state(hf, receipt.id) is State.EXPIRED


@every_way
def test_peek_and_stats_leave_it_out(hf: Holdfast, clock: FakeClock, settings: Options, options: Options) -> None:
    hf.queue("q", **settings)
    hf.enqueue_many("q", ["old"] * 3, **options)
    clock.advance(4)
    hf.enqueue("q", "new")
    clock.advance(1)
    assert sum(counts(hf)) == 1
    assert hf.stats("q").age_of_oldest_item == 1
    assert [message.body for message in hf.queues.peek("q")] == ["new"], "also behind the head of a key"
    assert internals(hf).store.reads.load([internals(hf).catalog.channel("q")]).depth == 1
    assert hf.queues.sweep("q") == 3, "a look writes nothing"
    assert sum(counts(hf)) == 1


@every_way
def test_with_nothing_else_there_a_queue_is_empty(
    hf: Holdfast, clock: FakeClock, settings: Options, options: Options
) -> None:
    hf.queue("q", **settings)
    hf.enqueue_many("q", ["old"] * 3, **options)
    clock.advance(5)
    assert sum(counts(hf)) == 0
    assert hf.stats("q").age_of_oldest_item is None
    assert hf.queues.peek("q") == []
    load = internals(hf).store.reads.load([internals(hf).catalog.channel("q")])
    assert (load.depth, load.held) == (0, 0)


@every_way
def test_it_takes_no_room_in_a_full_queue(hf: Holdfast, clock: FakeClock, settings: Options, options: Options) -> None:
    hf.queue("q", max_depth=3, **settings)
    hf.enqueue_many("q", ["old"] * 2, **options)
    clock.advance(4)
    hf.enqueue("q", "new")
    clock.advance(1)
    hf.enqueue_many("q", ["newer", "newest"])
    assert sum(counts(hf)) == 3
    with pytest.raises(QueueFull, match="3 messages waiting and may have 3"):
        hf.enqueue("q", "too much")


@every_way
def test_it_takes_no_room_for_a_key_either(hf: Holdfast, clock: FakeClock, settings: Options, options: Options) -> None:
    hf.queue("q", max_depth=1, **settings)
    hf.enqueue("q", "old", **options)
    clock.advance(5)
    assert not hf.enqueue("q", "new", idempotency_key="k").duplicate
    with pytest.raises(QueueFull):
        hf.enqueue("q", "too much", idempotency_key="other")


@every_way
def test_it_cannot_be_cancelled(hf: Holdfast, clock: FakeClock, settings: Options, options: Options) -> None:
    hf.queue("q", **settings)
    receipt = hf.enqueue("q", "work", **options)
    clock.advance(5)
    assert not hf.cancel(receipt.id)
    assert state(hf, receipt.id) is State.EXPIRED
    hf.queues.sweep("q")
    assert state(hf, receipt.id) is State.EXPIRED


def test_messages_past_their_time_do_not_pile_up_where_nobody_sweeps(hf: Holdfast, clock: FakeClock) -> None:
    """The arrivals that take their places end them, some at a time."""
    hf.queue("q", max_depth=50, max_age=5, history=0)
    left = 0
    for _ in range(20):
        hf.enqueue_many("q", range(50))
        clock.advance(5)
    while swept := hf.queues.sweep("q"):
        left += swept
    assert left <= 150


def test_messages_that_failed_count_until_their_time_is_over(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_age=5, max_depth=2)
    hf.enqueue_many("q", [1, 2])
    for claim in hf.claim("q", n=2):
        claim.nack("not now", delay=3)
    assert counts(hf) == (0, 2, 0, 0)
    clock.advance(5)
    assert counts(hf) == (0, 0, 0, 0)
    hf.enqueue_many("q", [3, 4])


def test_what_is_being_worked_on_is_not_over(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_age=5, lease=60)
    ids = [hf.enqueue("q", "lane").id, hf.enqueue("q", "row", ttl=5).id]
    claims = [*hf.claim("q"), *hf.claim("q")]
    clock.advance(10)
    assert [state(hf, one) for one in ids] == [State.PROCESSING] * 2
    assert counts(hf) == (0, 0, 2, 0)
    hf.ack(claims)
    assert counts(hf) == (0, 0, 0, 0)


def test_a_claimed_one_past_its_time_can_still_be_cancelled(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_age=5, lease=60)
    receipt = hf.enqueue("q", "work")
    claim_one(hf)
    clock.advance(10)
    assert hf.cancel(receipt.id)
    assert state(hf, receipt.id) is State.CANCELED


def test_a_higher_age_limit_brings_them_back_and_they_count(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_age=5, max_depth=200)
    old = hf.enqueue_many("q", ["old"] * 199)
    clock.advance(10)
    hf.queue("q", max_age=60, max_depth=200)
    assert (state(hf, old[0].id), hf.stats("q").pending) == (State.PENDING, 199)
    hf.enqueue("q", "new")
    with pytest.raises(QueueFull):
        hf.enqueue("q", "too much")


def test_more_of_them_than_one_look_at_a_lane_covers(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_age=5)
    for priority in (0, 2):
        hf.enqueue_many("q", range(1_500), priority=priority)
    clock.advance(4)
    hf.enqueue_many("q", range(700))
    clock.advance(1)
    assert hf.stats("q").pending == 700
    assert [message.body for message in hf.queues.peek("q", 3)] == [0, 1, 2]
    assert hf.stats("q").age_of_oldest_item == 1


def test_other_queues_are_not_concerned(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_age=5)
    hf.queue("p")
    hf.enqueue("q", 1)
    kept = hf.enqueue("p", 1)
    clock.advance(5)
    assert (hf.stats("q").pending, hf.stats("p").pending) == (0, 1)
    assert state(hf, kept.id) is State.PENDING


def test_a_replay_that_nobody_wanted_in_time_is_expired(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_age=5)
    fresh = hf.dead_letters.replay(kill(hf, "work"))
    clock.advance(5)
    assert state(hf, fresh.id) is State.EXPIRED
    assert sum(counts(hf)) == 1, "the dead letter"


@pytest.mark.not_through_sqs(TOPICS)
def test_a_published_message_past_its_ttl_is_owed_to_nobody(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("orders")
    hf.subscribe("orders", group="all")
    hf.subscribe("orders", group="some", patterns=["orders.eu"])
    hf.subscribe("orders", group="done")
    receipt = hf.publish("orders.eu", "old", ttl=5)
    hf.ack(hf.claim("orders", group="done"))
    clock.advance(4)
    hf.publish("orders.eu", "new")
    clock.advance(1)
    for group in ("orders/all", "orders/some"):
        assert (hf.stats(group).pending, hf.stats(group).age_of_oldest_item) == (1, 1)
        assert [message.body for message in hf.queues.peek(group)] == ["new"]
    assert {one.group: one.lag for one in hf.groups.list("orders")} == {"all": 1, "some": 1, "done": 1}
    found = hf.status(receipt.id)
    assert found is not None
    assert found.groups == {"all": State.EXPIRED, "some": State.EXPIRED, "done": State.SUCCEEDED}
    assert bodies(hf.claim("orders", group="all", n=10)) == ["new"]
