"""What the database makes of pointers, without SQS: handed over, confirmed, claimed, lost, twice, too late."""

import threading
import uuid
from functools import partial
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast
from holdfast.client.claim import Claim
from holdfast.client.client import internals
from holdfast.events import DeadTaskEvent
from holdfast.sqs.rules.pointer import Pointer
from holdfast.sqs.steps.deliver import PointerFate
from holdfast.sqs.steps.values import Taken
from holdfast.store.api import Channel, ClaimRequest
from tests.clock import FakeClock
from tests.steps import OpenClient

pytestmark = pytest.mark.of_queues

SECOND = 1_000_000
HOLD, PATIENCE = 60 * SECOND, 60 * SECOND


def through_sqs(hf: Holdfast, name: str = "q", **settings: Any) -> Channel:
    hf.queue(name, **{"delivery": "sqs", "backoff": 0, **settings})
    return internals(hf).catalog.channel(name)


def hand_over(hf: Holdfast, queue: Channel, n: int = 100) -> list[Pointer]:
    """Everything was sent, and SQS has said so."""
    found = internals(hf).store.deliveries.hand_over(queue, n, HOLD).pointers
    internals(hf).store.deliveries.confirm(queue, found, [], PATIENCE)
    return found


def come_with(hf: Holdfast, queue: Channel, pointers: list[Pointer], n: int = 100, **wish: Any) -> Taken[Claim]:
    request = ClaimRequest([queue], n, "anna", **wish)
    return internals(hf).store.deliveries.claim(request, partial(Claim, hf), queue, pointers, n)


def bodies_of(taken: Taken[Claim]) -> list[Any]:
    return [grant.message.body for grant in taken.grants]


def state(hf: Holdfast, message_id: str) -> str:
    found = hf.status(message_id)
    assert found is not None
    return str(found.state)


def test_a_message_is_enqueued_when_sqs_has_confirmed_it(hf: Holdfast) -> None:
    queue, sent = through_sqs(hf), hf.enqueue("q", 1)
    (pointer,) = internals(hf).store.deliveries.hand_over(queue, 10, HOLD).pointers
    assert state(hf, sent.id) == "pending"
    assert pointer.generation == 1
    internals(hf).store.deliveries.confirm(queue, [pointer], [], PATIENCE)
    assert state(hf, sent.id) == "enqueued"
    assert hf.stats("q").enqueued == hf.stats("q").pending == 1


def test_what_was_not_confirmed_is_handed_over_again_under_another_generation(hf: Holdfast) -> None:
    queue = through_sqs(hf)
    hf.enqueue_many("q", [1, 2])
    first, second = internals(hf).store.deliveries.hand_over(queue, 10, HOLD).pointers
    internals(hf).store.deliveries.confirm(queue, [first], [second], PATIENCE)
    (again,) = hand_over(hf, queue)
    assert again == Pointer(second.id, 2)
    assert come_with(hf, queue, [second]).fates == [PointerFate.OVER]


def test_whoever_dies_while_sending_has_marked_for_nothing(hf: Holdfast, clock: FakeClock) -> None:
    queue = through_sqs(hf)
    hf.enqueue("q", 1)
    (lost,) = internals(hf).store.deliveries.hand_over(queue, 10, HOLD).pointers
    assert hand_over(hf, queue) == []
    clock.advance(60)
    hf.queues.sweep("q")
    assert hand_over(hf, queue) == [Pointer(lost.id, 2)]
    assert internals(hf).store.deliveries.confirm(queue, [lost], [], PATIENCE) == 1


def test_a_pointer_may_be_quicker_than_its_confirmation(hf: Holdfast) -> None:
    queue = through_sqs(hf)
    hf.enqueue("q", 1)
    found = internals(hf).store.deliveries.hand_over(queue, 10, HOLD).pointers
    taken = come_with(hf, queue, found)
    assert bodies_of(taken) == [1]
    internals(hf).store.deliveries.confirm(queue, found, [], PATIENCE)
    hf.ack(taken.grants)
    assert hf.stats("q").queue_depth == 0


def test_a_pointer_whose_row_somebody_holds_is_called_held(postgres_url: str) -> None:
    """On PostgreSQL: its confirmation is being written, say. The store does not wait for that, and says what it is."""
    with Holdfast(postgres_url) as hf, psycopg.connect(postgres_url) as somebody:
        queue = through_sqs(hf)
        hf.enqueue_many("q", [1, 2])
        found = hand_over(hf, queue)
        somebody.execute("SELECT 1 FROM holdfast_row WHERE id = %s FOR UPDATE", [uuid.UUID(bytes=found[0].id)])
        taken = come_with(hf, queue, found)
        assert (bodies_of(taken), taken.fates) == ([2], [PointerFate.HELD, PointerFate.TAKEN])
        somebody.rollback()
        assert come_with(hf, queue, found).fates == [PointerFate.TAKEN, PointerFate.LATER]


def test_a_pointer_claims_once_and_is_left_while_that_lasts(hf: Holdfast) -> None:
    queue = through_sqs(hf)
    hf.enqueue("q", 1)
    found = hand_over(hf, queue)
    taken = come_with(hf, queue, [*found, *found])
    assert taken.fates == [PointerFate.TAKEN, PointerFate.TAKEN]
    assert [grant.attempt for grant in taken.grants] == [1]
    assert come_with(hf, queue, found).fates == [PointerFate.LATER]
    hf.ack(taken.grants)
    assert come_with(hf, queue, found).fates == [PointerFate.OVER]


@pytest.mark.parametrize("end", ["nack", "release", "dead_letter", "cancel", "lapse", "purge"])
def test_a_pointer_is_worth_nothing_once_its_claim_has_ended(hf: Holdfast, clock: FakeClock, end: str) -> None:
    queue, sent = through_sqs(hf), hf.enqueue("q", 1)
    found = hand_over(hf, queue)
    if end == "purge":
        hf.queues.purge("q")
    elif end == "cancel":
        hf.cancel(sent.id)
    else:
        (claim,) = come_with(hf, queue, found).grants
        if end == "lapse":
            clock.advance(31)
            hf.queues.sweep("q")
        else:
            getattr(hf, end)(claim, *([] if end == "release" else ["no"]))
    assert come_with(hf, queue, found).fates == [PointerFate.OVER]


def test_an_enqueued_message_can_be_cancelled_and_expires(hf: Holdfast, clock: FakeClock) -> None:
    queue = through_sqs(hf)
    canceled, expired = hf.enqueue("q", 1), hf.enqueue("q", 2, ttl=10)
    hand_over(hf, queue)
    assert hf.cancel(canceled.id) is True
    clock.advance(11)
    hf.queues.sweep("q")
    assert (state(hf, canceled.id), state(hf, expired.id)) == ("canceled", "expired")


def test_a_pause_leaves_pointers_and_hands_nothing_over(hf: Holdfast) -> None:
    queue = through_sqs(hf)
    hf.enqueue_many("q", [1, 2])
    first = hand_over(hf, queue, 1)
    hf.queues.pause("q")
    assert hand_over(hf, queue) == []
    assert come_with(hf, queue, first).fates == [PointerFate.LATER]
    hf.queues.resume("q")
    assert bodies_of(come_with(hf, queue, first)) == [1]


def test_the_most_urgent_are_handed_over_and_granted_first(hf: Holdfast) -> None:
    queue = through_sqs(hf)
    for priority in (3, 0, 2, 1):
        hf.enqueue("q", priority, priority=priority)
    found = [*hand_over(hf, queue, 2), *hand_over(hf, queue, 2)]
    assert bodies_of(come_with(hf, queue, list(reversed(found)))) == [0, 1, 2, 3]


def test_only_the_head_of_a_key_is_handed_over(hf: Holdfast) -> None:
    queue = through_sqs(hf, ordering="per_key")
    for number, key in enumerate("aab"):
        hf.enqueue("q", number, key=key)
    heads = come_with(hf, queue, hand_over(hf, queue))
    assert bodies_of(heads) == [0, 2]
    assert hand_over(hf, queue) == []
    hf.ack(heads.grants)
    assert bodies_of(come_with(hf, queue, hand_over(hf, queue))) == [1]


@pytest.mark.parametrize(
    ("settings", "keys", "most"),
    [
        ({"concurrency": 2}, [None] * 5, 2),
        ({"rate": "2/m"}, [None] * 5, 2),
        ({"key_concurrency": 1}, ["a", "a", "b", None, None], 4),
        ({"key_rate": "1/m"}, ["a", "a", "b", "b", "b"], 2),
    ],
)
def test_no_more_is_handed_over_than_may_be_claimed(
    hf: Holdfast, settings: dict[str, Any], keys: list[str | None], most: int
) -> None:
    queue = through_sqs(hf, **settings)
    for key in keys:
        hf.enqueue("q", key, key=key)
    found = hand_over(hf, queue)
    assert len(found) == most
    assert hand_over(hf, queue) == []
    assert len(come_with(hf, queue, found).grants) == most
    assert hand_over(hf, queue) == []


def test_a_limit_that_became_stricter_leaves_pointers(hf: Holdfast) -> None:
    queue = through_sqs(hf)
    hf.enqueue_many("q", [1, 2])
    found = hand_over(hf, queue)
    queue = through_sqs(hf, concurrency=1)
    taken = come_with(hf, queue, found)
    assert sorted(taken.fates) == [PointerFate.LATER, PointerFate.TAKEN]


def test_a_message_on_its_last_attempt_shares_its_claim_with_none(hf: Holdfast) -> None:
    queue = through_sqs(hf, max_attempts=1)
    hf.enqueue_many("q", [1, 2, 3])
    found = hand_over(hf, queue)
    taken = come_with(hf, queue, found)
    assert len(taken.grants) == 1
    assert sorted(taken.fates) == [PointerFate.BACK, PointerFate.BACK, PointerFate.TAKEN]
    assert come_with(hf, queue, found, alone=False).fates.count(PointerFate.BACK) == 2


def test_what_waits_in_lanes_is_handed_over_after_a_switch(hf: Holdfast) -> None:
    hf.queue("q")
    hf.enqueue_many("q", list(range(20)))
    queue = through_sqs(hf)
    hf.enqueue("q", 20)
    found = hand_over(hf, queue)
    assert sorted(bodies_of(come_with(hf, queue, found))) == list(range(21))
    assert hf.stats("q").processing == 21


def test_what_sqs_has_is_the_databases_after_a_switch_back(hf: Holdfast) -> None:
    queue = through_sqs(hf)
    hf.enqueue_many("q", [1, 2, 3])
    enqueued = hand_over(hf, queue, 1)
    sending = internals(hf).store.deliveries.hand_over(queue, 1, HOLD).pointers
    hf.queue("q", delivery="database")
    assert sorted(claim.message.body for claim in hf.claim("q", n=10)) == [1, 2, 3]
    assert internals(hf).store.deliveries.confirm(queue, sending, [], PATIENCE) == 0
    assert come_with(hf, queue, [*enqueued, *sending]).grants == []
    assert hand_over(hf, queue) == []


def test_the_pointer_of_another_queue_is_left(hf: Holdfast) -> None:
    queue, other = through_sqs(hf), through_sqs(hf, "other")
    hf.enqueue("other", 1)
    found = hand_over(hf, other)
    assert come_with(hf, queue, found).fates == [PointerFate.LATER]
    assert bodies_of(come_with(hf, other, found)) == [1]


def test_pointers_that_nobody_comes_with_are_missed_and_sent_again(hf: Holdfast, clock: FakeClock) -> None:
    queue = through_sqs(hf)
    hf.enqueue_many("q", [1, 2])
    found = hand_over(hf, queue)
    assert internals(hf).store.deliveries.overdue(queue).count == 0
    clock.advance(61)
    assert internals(hf).store.deliveries.overdue(queue).count == 2
    assert internals(hf).store.deliveries.overdue(queue).away == 61 * SECOND
    assert internals(hf).store.deliveries.wait_longer(queue, 1, PATIENCE) == 1
    assert internals(hf).store.deliveries.overdue(queue).count == 1
    assert internals(hf).store.deliveries.send_again(queue, 10, 0) == 1
    assert [one.generation for one in hand_over(hf, queue)] == [2]
    assert sorted(come_with(hf, queue, found).fates) == [PointerFate.OVER, PointerFate.TAKEN]


def test_a_death_is_unsent_until_someone_was_told(hf: Holdfast, client: OpenClient) -> None:
    """Who has nobody to tell leaves it to who has."""
    queue = through_sqs(hf, max_attempts=1, dead_events="callback")
    sent = hf.enqueue("q", 1)
    (claim,) = come_with(hf, queue, hand_over(hf, queue)).grants
    claim.nack("never")  # type: ignore[attr-defined]
    hf.maintain()
    assert [one.message_id for one in internals(hf).store.deaths.unsent(queue, 10)] == [sent.id]
    other, told = client(), list[DeadTaskEvent]()
    other.on(DeadTaskEvent, told.append)
    other.maintain()
    other.maintain()
    assert [one.task_id for one in told] == [sent.id]
    assert internals(hf).store.deaths.unsent(queue, 10) == []


def test_no_more_pointers_are_sent_again_than_are_missing_whoever_looks_for_them(
    hf: Holdfast, client: OpenClient, clock: FakeClock
) -> None:
    """Two ask SQS at the same time, and hear that two of four wait there."""
    queue = through_sqs(hf)
    hf.enqueue_many("q", [1, 2, 3, 4])
    hand_over(hf, queue)
    clock.advance(61)
    assert internals(hf).store.deliveries.send_again(queue, 10, 0, waiting=2) == 2
    assert internals(client()).store.deliveries.send_again(queue, 10, 0, waiting=2) == 0


def test_who_has_not_heard_of_another_queue_of_sqs_sends_nothing_to_the_old_one(hf: Holdfast) -> None:
    old = through_sqs(hf, sqs_queue="old")
    hf.enqueue_many("q", [1, 2])
    sending = internals(hf).store.deliveries.hand_over(old, 1, HOLD).pointers
    through_sqs(hf, sqs_queue="new")
    assert internals(hf).store.deliveries.confirm(old, sending, [], PATIENCE) == 0
    refused = internals(hf).store.deliveries.hand_over(old, 10, HOLD)
    assert (refused.pointers, refused.is_current) == ([], False)
    assert hf.stats("q").enqueued == 0
    assert len(hand_over(hf, internals(hf).catalog.channel("q"))) == 2


def test_two_senders_never_hand_over_the_same(hf: Holdfast, client: OpenClient) -> None:
    queue = through_sqs(hf)
    hf.enqueue_many("q", list(range(200)))
    found: list[Pointer] = []

    def send(one: Holdfast) -> None:
        while some := internals(one).store.deliveries.hand_over(queue, 7, HOLD).pointers:
            internals(one).store.deliveries.confirm(queue, some, [], PATIENCE)
            found.extend(some)

    threads = [threading.Thread(target=send, args=(one,)) for one in (hf, client(), client())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(set(found)) == 200
    assert {one.generation for one in found} == {1}


def test_a_status_tells_since_when_what_sqs_delivered_is_worked_on(hf: Holdfast, clock: FakeClock) -> None:
    queue, sent = through_sqs(hf, max_attempts=2), hf.enqueue("q", 1)
    begun = []
    for _ in range(2):
        clock.advance(1)
        pointers = hand_over(hf, queue)
        assert hf.status(sent.id).claimed_at is None
        clock.advance(1)
        (claim,) = come_with(hf, queue, pointers).grants
        begun.append(clock.utc)
        clock.advance(1)
        hf.extend(claim, 60)
        assert hf.status(sent.id).claimed_at == claim.lease.since == begun[-1]
        hf.nack(claim, "no", delay=0)
    found = hf.status(sent.id)
    assert (found.state, found.claimed_at) == ("dead", begun[-1])
    assert [failure.claimed_at for failure in found.history] == begun
