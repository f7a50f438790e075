"""Leases that end in silence: the attempt counts, and someone else takes the message."""

from collections.abc import Callable

import pytest

from holdfast import Claim, Holdfast, LeaseLost
from holdfast.client.client import internals
from holdfast.client.validate import SWEEP_LIMIT
from holdfast.store.engine.expire_leases import MOST_MEMBERS
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, claim_one, drain
from tests.stores import LANES

pytestmark = [pytest.mark.behind_pooler(long=True), pytest.mark.through_sqs, pytest.mark.of_queues]

LEASE = 30

STALE: dict[str, Callable[[Claim], None]] = {
    "ack": lambda claim: claim.ack(),
    "nack": lambda claim: claim.nack("late"),
    "extend": lambda claim: claim.extend(60),
    "release": lambda claim: claim.release(),
    "snooze": lambda claim: claim.snooze(5),
    "dead_letter": lambda claim: claim.dead_letter("late"),
}


def silent_run(hf: Holdfast, clock: FakeClock, size: int) -> list[Claim]:
    """A run whose holder says nothing until its lease is over."""
    hf.enqueue_many("q", range(size))
    claims = hf.claim("q", n=size)
    clock.advance(LEASE)
    return claims


def silent_row(hf: Holdfast, clock: FakeClock) -> Claim:
    hf.enqueue("q", "row", delay=1)
    clock.advance(1)
    claim = claim_one(hf)
    clock.advance(LEASE)
    return claim


@pytest.fixture(params=["lane", "row"])
def silent(hf: Holdfast, clock: FakeClock, request: pytest.FixtureRequest) -> Claim:
    """A claim whose lease has just ended, from the lane and as a row."""
    return silent_row(hf, clock) if request.param == "row" else silent_run(hf, clock, 1)[0]


def test_a_lease_holds_until_its_very_end(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    hf.enqueue("q", 1)
    claim_one(hf)
    clock.advance(LEASE - 0.000_001)
    assert rival.claim("q") == []
    clock.advance(0.000_001)
    assert claim_one(rival).attempt == 2


def test_whoever_asks_next_gets_the_abandoned_message(rival: Holdfast, silent: Claim) -> None:
    again = claim_one(rival)
    assert (again.message.id, again.attempt) == (silent.message.id, 2)
    assert again.message.body == silent.message.body
    assert again.lease.token != silent.lease.token


def test_members_of_an_abandoned_run_come_back_one_by_one(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    silent_run(hf, clock, 4)
    found = [rival.claim("q", n=10) for _ in range(5)]
    assert [bodies(claims) for claims in found] == [[0], [1], [2], [3], []]
    assert {claim.attempt for claims in found for claim in claims} == {2}


def test_an_abandoned_row_comes_back_alone(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("q", ["a", "b"], delay=1)
    clock.advance(1)
    assert len(hf.claim("q", n=10)) == 2
    clock.advance(LEASE)
    assert [bodies(hf.claim("q", n=10)) for _ in range(3)] == [["a"], ["b"], []]


def test_an_abandoned_message_is_not_mixed_with_new_ones(hf: Holdfast, clock: FakeClock) -> None:
    silent_run(hf, clock, 2)
    hf.enqueue_many("q", ["new"] * 3)
    assert [bodies(hf.claim("q", n=10)) for _ in range(3)] == [[0], [1], ["new"] * 3]


def test_an_abandoned_message_is_not_mixed_with_those_of_another_priority(hf: Holdfast, clock: FakeClock) -> None:
    silent_run(hf, clock, 1)
    hf.enqueue("q", "urgent", priority="urgent")
    hf.enqueue("q", "low", priority="low")
    shares = [bodies(hf.claim("q", n=10)) for _ in range(3)]
    assert [share for share in shares if 0 in share] == [[0]]


def test_an_abandoned_message_is_not_mixed_with_those_of_another_queue(hf: Holdfast, clock: FakeClock) -> None:
    silent_run(hf, clock, 1)
    hf.enqueue("before", "before")
    hf.enqueue("after", "after")
    shares = [bodies(hf.claim("before", "q", "after", n=10)) for _ in range(3)]
    assert [share for share in shares if 0 in share] == [[0]]


def test_a_suspect_starves_neither_itself_nor_those_behind_it_while_urgent_ones_trickle_in(
    hf: Holdfast, clock: FakeClock
) -> None:
    silent_run(hf, clock, 1)
    hf.enqueue("q", "behind")
    seen = []
    for _ in range(6):
        hf.enqueue("q", "urgent", priority="urgent")
        claims = hf.claim("q", n=10)
        seen += bodies(claims)
        hf.ack(claims)
    assert {0, "behind"} <= set(seen)


def test_a_released_suspect_is_still_claimed_alone(hf: Holdfast, clock: FakeClock) -> None:
    silent_run(hf, clock, 3)
    hf.release([hf.claim("q", n=10)[0] for _ in range(3)])
    assert [len(hf.claim("q", n=10)) for _ in range(4)] == [1, 1, 1, 0]


def test_a_snoozed_suspect_is_still_claimed_alone(hf: Holdfast, clock: FakeClock) -> None:
    silent_run(hf, clock, 3)
    hf.snooze([hf.claim("q", n=10)[0] for _ in range(3)], 0)
    assert [len(hf.claim("q", n=10)) for _ in range(4)] == [1, 1, 1, 0]


def test_what_was_settled_does_not_come_back(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("q", range(6))
    claims = hf.claim("q", n=6)
    hf.ack(claims[:2])
    claims[2].dead_letter("hopeless")
    hf.cancel(claims[3].message.id)
    claims[4].nack("no", delay=600)
    clock.advance(LEASE)
    assert drain(rival) == [5]
    clock.advance(600)
    assert drain(rival) == [4]


def test_an_abandoned_run_keeps_its_priority_headers_and_key(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue("q", 1, priority="high", headers={"h": 1}, key="k", correlation_id="c")
    before = claim_one(hf).message
    clock.advance(LEASE)
    after = claim_one(hf).message
    assert (after.priority, after.headers, after.key, after.correlation_id) == (1, {"h": 1}, "k", "c")
    assert (after.id, after.enqueued_at_us) == (before.id, before.enqueued_at_us)


def test_a_stale_claim_is_refused_once_it_was_taken_back(hf: Holdfast, rival: Holdfast, silent: Claim) -> None:
    rival.queues.sweep("q")
    before = rival.status(silent.message.id)
    for act in STALE.values():
        with pytest.raises(LeaseLost, match=silent.message.id):
            act(silent)
        assert rival.status(silent.message.id) == before
    assert rival.dead_letters.list() == []


def test_a_stale_claim_is_refused_while_another_worker_holds_the_message(
    hf: Holdfast, rival: Holdfast, silent: Claim
) -> None:
    current = claim_one(rival)
    before = rival.status(silent.message.id)
    for act in STALE.values():
        with pytest.raises(LeaseLost, match=silent.message.id):
            act(silent)
        assert rival.status(silent.message.id) == before
    current.ack()
    assert rival.status(silent.message.id).state == "succeeded"


def test_a_stale_claim_is_refused_after_another_worker_finished_the_message(
    hf: Holdfast, rival: Holdfast, silent: Claim
) -> None:
    claim_one(rival).ack()
    for act in STALE.values():
        with pytest.raises(LeaseLost, match=silent.message.id):
            act(silent)
    assert rival.status(silent.message.id).state == "succeeded"


def test_a_worker_that_claims_its_own_abandoned_message_cannot_use_the_old_token(hf: Holdfast, silent: Claim) -> None:
    current = claim_one(hf)
    with pytest.raises(LeaseLost):
        silent.ack()
    current.ack()


def test_a_bulk_ack_of_a_run_that_was_taken_back_is_refused_whole(
    hf: Holdfast, rival: Holdfast, clock: FakeClock
) -> None:
    claims = silent_run(hf, clock, 3)
    rival.queues.sweep("q")
    with pytest.raises(LeaseLost, match="3 claim"):
        hf.ack(claims)
    assert drain(rival) == [0, 1, 2]


def test_whoever_acks_late_but_before_anyone_took_over_still_succeeds(hf: Holdfast, silent: Claim) -> None:
    silent.ack()
    assert hf.queues.sweep("q") == 0
    assert hf.claim("q") == []
    assert hf.status(silent.message.id).state == "succeeded"


def test_whoever_extends_late_but_before_anyone_took_over_keeps_the_lease(
    hf: Holdfast, rival: Holdfast, silent: Claim
) -> None:
    silent.extend(60)
    assert rival.claim("q") == []
    silent.ack()


@pytest.mark.not_through_sqs(LANES)
def test_sweeping_twice_is_sweeping_once(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    silent_run(hf, clock, 3)
    assert rival.queues.sweep("q") == 1
    assert rival.queues.sweep("q") == 0
    assert hf.queues.sweep("q") == 0
    assert [(claim.message.body, claim.attempt) for claim in (claim_one(rival) for _ in range(3))] == [
        (0, 2),
        (1, 2),
        (2, 2),
    ]


@pytest.mark.not_through_sqs(LANES)
def test_a_sweep_counts_the_leases_of_runs_and_of_rows(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    hf.enqueue("q", "row", delay=1)
    clock.advance(1)
    claim_one(hf)
    silent_run(hf, clock, 2)
    assert rival.queues.sweep("q") == 2


def test_a_sweep_leaves_leases_that_still_hold(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("q", [1, 2])
    old = hf.claim("q")
    clock.advance(LEASE - 1)
    young = hf.claim("q")
    clock.advance(1)
    assert rival.queues.sweep("q") == 1
    hf.ack(young)
    with pytest.raises(LeaseLost):
        hf.ack(old)


def test_more_ended_leases_than_one_sweep_takes_are_found_by_the_next(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("q", range(120))
    for _ in range(120):
        hf.claim("q")
    clock.advance(LEASE)
    swept = [hf.queues.sweep("q"), hf.queues.sweep("q"), hf.queues.sweep("q")]
    assert sum(swept) == 120
    assert swept[-1] == 0
    assert hf.stats("q").pending == 120


def test_a_claim_finds_ended_leases_without_anyone_sweeping(client: OpenClient, clock: FakeClock) -> None:
    careless, helper = client(sweep_every=3600), client(sweep_every=3600)
    careless.enqueue("q", 1)
    claim_one(careless)
    clock.advance(LEASE)
    assert claim_one(helper).attempt == 2


@pytest.mark.parametrize("delay", [0, 1])
def test_a_message_that_is_abandoned_every_time_ends_as_a_dead_letter(
    hf: Holdfast, clock: FakeClock, delay: int
) -> None:
    hf.queue("q", max_attempts=3)
    receipt = hf.enqueue("q", "poison", delay=delay)
    clock.advance(delay)
    for attempt in (1, 2, 3):
        assert claim_one(hf).attempt == attempt
        clock.advance(LEASE)
    assert hf.claim("q") == []
    assert hf.status(receipt.id).state == "dead"
    [dead] = hf.dead_letters.list("q")
    assert (dead.message.id, dead.attempts, dead.failed_at_us) == (receipt.id, 3, clock())
    assert [(line.attempt, line.worker) for line in dead.history] == [(1, "anna"), (2, "anna"), (3, "anna")]
    assert all("ended without an answer" in line.error for line in dead.history)


def test_a_single_attempt_that_is_abandoned_takes_nobody_with_it(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_attempts=1)
    hf.enqueue_many("q", range(3))
    assert bodies(hf.claim("q", n=10)) == [0]
    clock.advance(LEASE)
    assert bodies(hf.claim("q", n=10)) == [1]
    assert [dead.message.body for dead in hf.dead_letters.list("q")] == [0]


@pytest.mark.parametrize("delay", [0, 1])
def test_one_crash_never_kills_more_than_one_message(hf: Holdfast, clock: FakeClock, delay: int) -> None:
    hf.queue("q", max_attempts=2, backoff=None)
    hf.enqueue_many("q", range(4), delay=delay)
    clock.advance(delay)
    hf.nack(hf.claim("q", n=10), "an outage of something else")
    hf.claim("q", n=10)
    clock.advance(LEASE)
    hf.queues.sweep("q")
    assert hf.stats("q").dead == 1


def test_an_abandoned_single_attempt_is_announced_to_the_dead_letter_queue(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_attempts=1, dead_letter="graves")
    hf.enqueue("q", "poison")
    claim_one(hf)
    clock.advance(LEASE)
    hf.queues.sweep("q")
    assert claim_one(hf, "graves").message.body["original_message"]["body"] == "poison"


def test_a_poison_message_does_not_spend_the_attempts_of_its_neighbours(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_attempts=3)
    hf.enqueue_many("q", ["fine", "poison", "fine too"])
    done = []
    for _ in range(10):
        claims = hf.claim("q", n=10)
        if "poison" not in bodies(claims):
            done += bodies(claims)
            hf.ack(claims)
        clock.advance(LEASE)
    assert done == ["fine", "fine too"]
    assert [dead.message.body for dead in hf.dead_letters.list("q")] == ["poison"]


def test_failures_and_silences_share_one_history(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_attempts=3)
    hf.enqueue("q", 1)
    claim_one(hf).nack("refused", delay=0)
    claim_one(rival)
    clock.advance(LEASE)
    claim_one(hf).nack("refused again")
    [dead] = hf.dead_letters.list("q")
    assert [(line.attempt, line.worker, line.error[:9]) for line in dead.history] == [
        (1, "anna", "refused"),
        (2, "ben", "the lease"),
        (3, "anna", "refused a"),
    ]


@pytest.mark.not_through_sqs(LANES)
def test_a_long_run_comes_back_in_turns(hf: Holdfast, clock: FakeClock) -> None:
    """Nobody waits long for the database because of one who claimed much and went silent."""
    hf.enqueue_many("q", range(MOST_MEMBERS + 50))
    held = hf.claim("q", n=MOST_MEMBERS + 50, lease=1)
    hf.ack(held[:10])
    clock.advance(2)
    channel = internals(hf).catalog.channel("q")
    assert internals(hf).store.upkeep.take_back(channel, SWEEP_LIMIT) == SWEEP_LIMIT
    assert (hf.stats("q").pending, hf.stats("q").processing) == (MOST_MEMBERS, 40)
    hf.ack(held[-5:])
    assert internals(hf).store.upkeep.take_back(channel, SWEEP_LIMIT) == 1
    assert (hf.stats("q").pending, hf.stats("q").processing) == (MOST_MEMBERS + 35, 0)
    assert internals(hf).store.upkeep.take_back(channel, SWEEP_LIMIT) == 0
    with pytest.raises(LeaseLost):
        hf.ack(held[10])
    assert len({claim.message.body for _ in range(MOST_MEMBERS + 35) for claim in hf.claim("q")}) == MOST_MEMBERS + 35


def test_what_was_acked_of_a_silent_run_is_passed_by(
    hf: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.store.engine.expire_leases.MOST_LOOKED_AT", 4)
    hf.enqueue_many("q", range(20))
    held = hf.claim("q", n=20, lease=1)
    hf.ack([*held[:5], *held[6:18:2]])
    held[7].dead_letter("boom")
    clock.advance(2)
    while hf.queues.sweep("q"):
        pass
    assert [claim.message.body for _ in range(8) for claim in hf.claim("q")] == [5, 9, 11, 13, 15, 17, 18, 19]
    assert hf.claim("q", n=20) == []
