"""Claiming: how many, from where, in which order, and waiting for more."""

import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pytest

from holdfast import Claim, Holdfast, InvalidInput, LeaseLost
from holdfast.client.client import internals
from holdfast.store.api import ClaimRequest
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, claim_one, drain, sleepers
from tests.stores import LANES

pytestmark = [pytest.mark.behind_pooler, pytest.mark.both_engines, pytest.mark.through_sqs, pytest.mark.of_queues]


def test_a_claim_takes_one_message_unless_told_otherwise(hf: Holdfast) -> None:
    hf.enqueue_many("q", range(3))
    assert bodies(hf.claim("q")) == [0]


@pytest.mark.parametrize("delay", [0, 1])
def test_a_claim_takes_no_more_than_its_limit(hf: Holdfast, clock: FakeClock, delay: int) -> None:
    hf.enqueue_many("q", range(10), delay=delay)
    clock.advance(delay)
    assert bodies(hf.claim("q", n=4)) == [0, 1, 2, 3]
    assert bodies(hf.claim("q", n=4)) == [4, 5, 6, 7]
    assert bodies(hf.claim("q", n=4)) == [8, 9]
    assert hf.claim("q", n=4) == []


@pytest.mark.not_through_sqs(LANES)
def test_the_limit_holds_over_rows_and_lanes_together(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("q", ["row"] * 3, delay=1)
    hf.enqueue_many("q", ["urgent"] * 3, priority="urgent")
    hf.enqueue_many("q", ["normal"] * 3)
    clock.advance(1)
    assert bodies(hf.claim("q", n=7)) == ["urgent"] * 3 + ["row"] * 3 + ["normal"]


def test_a_claim_has_everything_a_consumer_needs(hf: Holdfast, clock: FakeClock) -> None:
    receipt = hf.enqueue("q", "work")
    claim = claim_one(hf)
    assert (claim.queue, claim.attempt, claim.message.id) == ("q", 1, receipt.id)
    assert (claim.lease.worker, claim.lease.until_us) == ("anna", clock() + 30_000_000)


def test_a_run_has_one_lease_and_two_claims_have_two(hf: Holdfast) -> None:
    hf.enqueue_many("q", range(3))
    first, second = hf.claim("q", n=2)
    third = claim_one(hf)
    assert first.lease.token == second.lease.token != third.lease.token


def test_queues_are_looked_at_in_the_order_given(hf: Holdfast) -> None:
    for queue in ("a", "b", "c"):
        hf.enqueue_many(queue, [f"{queue}1", f"{queue}2"])
    assert bodies(hf.claim("c", "a", "b", n=5)) == ["c1", "c2", "a1", "a2", "b1"]


def test_each_claim_of_several_queues_knows_its_own(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("a", lease=5)
    hf.queue("b", lease=50)
    hf.enqueue("a", 1)
    hf.enqueue("b", 2)
    found = [(claim.queue, claim.lease.until_us) for claim in hf.claim("a", "b", n=2)]
    assert found == [("a", clock() + 5_000_000), ("b", clock() + 50_000_000)]


def test_a_queue_named_twice_is_claimed_once(hf: Holdfast) -> None:
    hf.enqueue_many("q", [1, 2])
    assert bodies(hf.claim("q", "q", n=10)) == [1, 2]


def test_lanes_are_claimed_by_priority(hf: Holdfast) -> None:
    for priority in ("low", "normal", "urgent", "high"):
        hf.enqueue("q", priority, priority=priority)
    assert bodies(hf.claim("q", n=10)) == ["urgent", "high", "normal", "low"]


def test_late_arrivals_of_a_lane_come_before_the_next_priority(hf: Holdfast) -> None:
    hf.enqueue_many("q", ["high 1", "high 2"], priority="high")
    assert bodies(hf.claim("q")) == ["high 1"]
    hf.enqueue_many("q", ["high 3", "high 4"], priority="high")
    hf.enqueue_many("q", ["normal"] * 3)
    assert bodies(hf.claim("q", n=5)) == ["high 2", "high 3", "high 4", "normal", "normal"]


def test_rows_are_claimed_by_priority(hf: Holdfast, clock: FakeClock) -> None:
    for priority in ("low", "normal", "urgent", "high"):
        hf.enqueue("q", priority, priority=priority, delay=1)
    clock.advance(1)
    assert bodies(hf.claim("q", n=10)) == ["urgent", "high", "normal", "low"]


def test_an_urgent_row_beats_a_normal_lane(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("q", ["normal"] * 3)
    hf.enqueue("q", "urgent row", priority="urgent", delay=1)
    clock.advance(1)
    assert bodies(hf.claim("q")) == ["urgent row"]


def test_an_urgent_lane_beats_a_normal_row_that_was_due_before(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue("q", "normal row", delay=1)
    clock.advance(60)
    hf.enqueue("q", "urgent", priority="urgent")
    assert bodies(hf.claim("q")) == ["urgent"]


@pytest.mark.not_through_sqs(LANES)
def test_a_due_row_beats_the_lane_of_its_own_priority(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue("q", "lane")
    hf.enqueue("q", "row", delay=1)
    clock.advance(1)
    assert bodies(hf.claim("q", n=2)) == ["row", "lane"]


def test_a_failed_message_comes_back_with_its_priority(hf: Holdfast) -> None:
    hf.enqueue("q", "urgent", priority="urgent")
    claim_one(hf).nack("again", delay=0)
    hf.enqueue("q", "high", priority="high")
    assert bodies(hf.claim("q", n=2)) == ["urgent", "high"]


@pytest.mark.parametrize("delay", [0, 1])
def test_a_claim_may_ask_for_a_lease_of_its_own(hf: Holdfast, clock: FakeClock, delay: int) -> None:
    hf.enqueue_many("q", range(3), delay=delay)
    clock.advance(delay)
    leases = [hf.claim("q", lease=lease)[0].lease.until_us - clock() for lease in (0.25, "90s", 0.000_001)]
    assert leases == [250_000, 90_000_000, 1]


def test_a_short_lease_really_ends(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    hf.enqueue("q", 1)
    claim_one(hf, lease=0.25)
    clock.advance(0.249)
    assert rival.claim("q") == []
    clock.advance(0.001)
    assert claim_one(rival).attempt == 2


def test_a_limit_that_makes_no_sense_is_refused(hf: Holdfast) -> None:
    hf.enqueue("q", 1)
    for n in (0, -1, 1.5, "3", None, 10**9):
        with pytest.raises(InvalidInput, match="n must be"):
            hf.claim("q", n=n)
    assert hf.stats("q").pending == 1


def test_a_time_that_makes_no_sense_is_refused_and_changes_nothing(hf: Holdfast) -> None:
    hf.enqueue("q", 1)
    held = claim_one(hf)
    for options in ({"lease": 0}, {"lease": -1}, {"lease": "soon"}, {"wait": -1}, {"wait": "soon"}):
        with pytest.raises(InvalidInput):
            hf.claim("q", ack=held, **options)
    held.nack("still mine", delay=0)


def test_a_claim_without_a_queue_is_refused(hf: Holdfast) -> None:
    with pytest.raises(InvalidInput, match="needs the name of a queue"):
        hf.claim()


def test_an_empty_queue_answers_at_once(hf: Holdfast) -> None:
    asleep = sleepers(hf)
    assert hf.claim("q") == []
    assert not asleep.acquire(blocking=False)


def test_ack_in_the_same_call_ends_the_earlier_claims(hf: Holdfast) -> None:
    hf.enqueue_many("q", range(4))
    first = hf.claim("q", n=2)
    assert bodies(hf.claim("q", n=2, ack=first)) == [2, 3]
    assert [hf.status(claim.message.id).state for claim in first] == ["succeeded", "succeeded"]


def test_runs_of_one_claim_are_told_apart(hf: Holdfast) -> None:
    for priority in ("high", "normal"):
        hf.enqueue_many("q", [f"{priority} {number}" for number in range(3)], priority=priority)
    claims = hf.claim("q", n=6)
    failed = claims.pop(4)
    failed.nack("no", delay=0)
    hf.ack(claims)
    assert {hf.status(claim.message.id).state for claim in claims} == {"succeeded"}
    assert bodies(hf.claim("q", n=6)) == ["normal 1"]


def test_ack_in_the_same_call_frees_the_next_of_a_key(hf: Holdfast) -> None:
    hf.queue("q", ordering="fifo")
    hf.enqueue_many("q", [1, 2])
    assert bodies(hf.claim("q", ack=claim_one(hf))) == [2]


def test_ack_in_the_same_call_may_be_of_another_queue(hf: Holdfast) -> None:
    hf.enqueue("a", 1)
    hf.enqueue("b", 2)
    held = claim_one(hf, "a")
    assert bodies(hf.claim("b", ack=[held])) == [2]
    assert hf.status(held.message.id).state == "succeeded"


def test_ack_in_the_same_call_counts_when_nothing_is_there_to_claim(hf: Holdfast) -> None:
    hf.enqueue("q", 1)
    held = claim_one(hf)
    assert hf.claim("q", ack=held, wait=0.01) == []
    assert hf.status(held.message.id).state == "succeeded"


def test_a_lost_ack_in_the_same_call_hands_back_what_was_claimed(
    hf: Holdfast, rival: Holdfast, clock: FakeClock
) -> None:
    hf.enqueue_many("q", ["lost", "fine"])
    lost, fine = hf.claim("q"), hf.claim("q")
    hf.extend(fine, 600)
    clock.advance(30)
    rival.queues.sweep("q")
    hf.enqueue("q", "next", priority="urgent")
    with pytest.raises(LeaseLost):
        hf.claim("q", ack=[*lost, *fine])
    assert hf.status(fine[0].message.id).state == "succeeded"
    [claim] = rival.claim("q")
    assert (claim.message.body, claim.attempt) == ("next", 1)


def test_two_clients_never_claim_the_same_message(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("q", range(20))
    hf.enqueue_many("q", range(20, 40), delay=1)
    clock.advance(1)
    found = []
    while claims := [*hf.claim("q", n=3), *rival.claim("q", n=3)]:
        found += bodies(claims)
    assert sorted(found) == list(range(40))


@pytest.mark.not_through_sqs(
    "a claim that does not wait may find nothing while all pointers are in the hands of others, who give some back"
)
def test_clients_that_claim_at_the_same_time_share_the_work(client: OpenClient, clock: FakeClock) -> None:
    """L15, in small."""
    producer = client()
    producer.enqueue_many("q", range(200))
    producer.enqueue_many("q", range(200, 300), delay=1)
    clock.advance(1)
    consumers = [client() for _ in range(4)]

    def work(consumer: Holdfast) -> list[int]:
        found = []
        while claims := consumer.claim("q", n=7):
            found += bodies(claims)
            consumer.ack(claims)
        return found

    with ThreadPoolExecutor(4) as threads:
        shares = list(threads.map(work, consumers))
    assert sorted(number for share in shares for number in share) == list(range(300))


class Waiting:
    """A claim that waits in a thread of its own."""

    def __init__(self, hf: Holdfast, *queues: str, wait: float = 200) -> None:
        self._asleep = sleepers(hf)
        self._threads = ThreadPoolExecutor(1)
        self._claims: Future[list[Claim]] = self._threads.submit(hf.claim, *queues, wait=wait)

    def fall_asleep(self) -> None:
        assert self._asleep.acquire(timeout=60)

    def result(self) -> list[Claim]:
        return self._claims.result(100)


@pytest.fixture
def sleeper(client: OpenClient, monkeypatch: pytest.MonkeyPatch) -> Holdfast:
    """A client with the database's own clock, which finds nothing by itself: it has to be woken."""
    monkeypatch.setattr("holdfast.client.claim_loop.LONGEST_NAP", 3600.0)
    return client(clock=None)


@pytest.fixture
def waker(client: OpenClient) -> Holdfast:
    return client(clock=None)


def test_waiting_ends_when_another_client_enqueues(sleeper: Holdfast, waker: Holdfast) -> None:
    waiting = Waiting(sleeper, "q")
    waiting.fall_asleep()
    waker.enqueue("q", "wake up")
    claims = waiting.result()
    assert bodies(claims) == ["wake up"]


def test_waiting_ends_when_another_thread_of_the_same_client_enqueues(sleeper: Holdfast) -> None:
    waiting = Waiting(sleeper, "q")
    waiting.fall_asleep()
    sleeper.enqueue("q", "wake up")
    claims = waiting.result()
    assert bodies(claims) == ["wake up"]


def test_waiting_for_several_queues_ends_at_the_first(sleeper: Holdfast, waker: Holdfast) -> None:
    waiting = Waiting(sleeper, "a", "b")
    waiting.fall_asleep()
    waker.enqueue("b", "wake up")
    claims = waiting.result()
    assert bodies(claims) == ["wake up"]


def test_waiting_ends_when_a_held_message_is_released(sleeper: Holdfast, waker: Holdfast) -> None:
    waker.enqueue("q", "hot potato")
    held = claim_one(waker)
    waiting = Waiting(sleeper, "q")
    waiting.fall_asleep()
    held.release()
    claims = waiting.result()
    assert bodies(claims) == ["hot potato"]


def test_waiting_ends_when_the_head_of_a_key_is_acked(sleeper: Holdfast, waker: Holdfast) -> None:
    waker.queue("q", ordering="fifo")
    waker.enqueue_many("q", [1, 2])
    head = claim_one(waker)
    waiting = Waiting(sleeper, "q")
    waiting.fall_asleep()
    head.ack()
    claims = waiting.result()
    assert bodies(claims) == [2]


def test_waiting_sees_a_delayed_message_when_it_is_due(sleeper: Holdfast, waker: Holdfast) -> None:
    began = time.monotonic()
    waker.enqueue("q", "later", delay=0.3)
    claims = Waiting(sleeper, "q").result()
    assert bodies(claims) == ["later"]
    assert time.monotonic() - began > 0.2


def test_waiting_takes_over_a_lease_that_ends(sleeper: Holdfast, waker: Holdfast) -> None:
    waker.enqueue("q", "abandoned")
    began = time.monotonic()
    claim_one(waker, lease=0.3)
    claims = Waiting(sleeper, "q").result()
    assert [(claim.message.body, claim.attempt) for claim in claims] == [("abandoned", 2)]
    assert time.monotonic() - began > 0.2


def test_waiting_ends_with_nothing_when_the_time_is_over(sleeper: Holdfast) -> None:
    began = time.monotonic()
    assert Waiting(sleeper, "q", wait=0.2).result() == []
    assert time.monotonic() - began >= 0.2


def test_what_is_there_is_claimed_without_waiting(sleeper: Holdfast) -> None:
    sleeper.enqueue("q", "here")
    claims = Waiting(sleeper, "q").result()
    assert bodies(claims) == ["here"]


def test_twenty_sleepers_share_what_comes(client: OpenClient, waker: Holdfast) -> None:
    clients = [client(clock=None, sweep_every=1) for _ in range(2)]
    with ThreadPoolExecutor(20) as threads:
        waiting = [threads.submit(clients[number % 2].claim, "q", wait=200) for number in range(20)]
        waker.enqueue_many("q", range(20))
        found = [body for claims in waiting for body in bodies(claims.result(100))]
    assert sorted(found) == list(range(20))


def test_the_clients_clock_may_stand_still_while_it_works(hf: Holdfast) -> None:
    hf.enqueue_many("q", range(3))
    assert drain(hf) == [0, 1, 2]


# --- shares -----------------------------------------------------------------------------------------------------------


def share_out(hf: Holdfast, limit: int, **shares: int) -> dict[str, int]:
    """How many messages of each queue a claim gets that wants so many of each."""
    channels = internals(hf).catalog.channels(list(shares))
    request = ClaimRequest(channels, limit, "anna", shares=list(shares.values()))
    return dict(
        Counter(
            grant.channel.name for grant in internals(hf).transport.messages.claim(request, partial(Claim, hf)).grants
        )
    )


def test_every_queue_gives_its_share(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("rows", range(20), delay=1)
    for queue in ("a", "b"):
        hf.enqueue_many(queue, range(20), priority="high")
    clock.advance(1)
    assert share_out(hf, 9, b=2, rows=3, a=4) == {"a": 4, "b": 2, "rows": 3}
    assert share_out(hf, 1, b=2, rows=3, a=4) == {"a": 4, "b": 2, "rows": 3}, "whatever the limit"


def test_what_a_queue_does_not_have_others_fill_up(hf: Holdfast) -> None:
    hf.enqueue_many("a", range(20))
    hf.enqueue_many("b", range(3))
    assert share_out(hf, 10, empty=2, b=5, a=3) == {"a": 7, "b": 3}
    assert share_out(hf, 1, empty=1, b=0, a=0) == {"a": 1}
    assert share_out(hf, 4, a=2, b=2) == {"a": 4}


def test_shares_keep_within_limits(hf: Holdfast) -> None:
    hf.queue("a", concurrency=4)
    hf.enqueue_many("a", range(20))
    hf.enqueue_many("b", range(20))
    assert share_out(hf, 10, a=6, b=3) == {"a": 4, "b": 6}
    assert share_out(hf, 2, a=1, b=1) == {"b": 2}


@pytest.mark.not_through_sqs("a claim that does not wait may find nothing while others have taken all pointers")
def test_who_claims_shares_of_the_same_queues_waits_for_nobody_for_ever(client: OpenClient) -> None:
    """Each begins with another queue; in the database all of them take their locks in one order."""
    hf, together = client(clock=None), threading.Barrier(4)
    names = [f"q{number}" for number in range(4)]
    for name in names:
        hf.enqueue_many(name, range(400))

    def work(first: int) -> int:
        order, got = names[first:] + names[:first], 0
        together.wait()
        while found := share_out(hf, 8, **dict.fromkeys(order, 2)):
            got += sum(found.values())
        return got

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(work, range(4))) == 1600
