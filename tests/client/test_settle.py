"""Ending claims: acks and extensions of whole runs, parts of runs and single rows; once, and by their holder only."""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import pytest

from holdfast import Claim, Holdfast, InvalidInput, LeaseLost
from holdfast.client import settlements as settling
from holdfast.client.client import internals
from holdfast.core.settlement import Settlement
from tests.clock import FakeClock
from tests.steps import bodies, claim_one, drain, row, run_of, states
from tests.stores import LANES

pytestmark = [pytest.mark.behind_pooler, pytest.mark.both_engines, pytest.mark.through_sqs, pytest.mark.of_queues]

ENDINGS: dict[str, Callable[[Claim], None]] = {
    "nack": lambda claim: claim.nack("no"),
    "release": lambda claim: claim.release(),
    "snooze": lambda claim: claim.snooze(1),
    "dead_letter": lambda claim: claim.dead_letter("no"),
    "extend": lambda claim: claim.extend(60),
}


# --- ack --------------------------------------------------------------------------------------------------------------


def test_an_acked_message_is_done(hf: Holdfast, clock: FakeClock, claim: Claim) -> None:
    claim.ack()
    clock.advance(60)
    assert hf.claim("q") == []
    assert hf.status(claim.message.id).state == "succeeded"


def test_a_whole_run_is_acked_at_once(hf: Holdfast, clock: FakeClock) -> None:
    claims = run_of(hf, 10)
    hf.ack(claims)
    clock.advance(60)
    assert hf.claim("q") == []
    assert states(hf, claims) == ["succeeded"] * 10


def test_many_runs_and_rows_are_acked_at_once(hf: Holdfast, clock: FakeClock) -> None:
    claims = [row(hf), *run_of(hf, 3), row(hf), *run_of(hf, 2)]
    hf.ack(claims)
    clock.advance(60)
    assert hf.claim("q") == []
    assert states(hf, claims) == ["succeeded"] * 7


def test_a_run_may_be_acked_one_by_one_in_any_order(hf: Holdfast, clock: FakeClock) -> None:
    for order in itertools.permutations(range(3)):
        claims = run_of(hf, 3)
        for done, index in enumerate(order, start=1):
            claims[index].ack()
            assert states(hf, claims).count("succeeded") == done
    clock.advance(60)
    assert hf.claim("q") == []


@pytest.mark.not_through_sqs(LANES)
def test_a_run_longer_than_a_byte_of_bits_may_be_acked_in_parts(hf: Holdfast, clock: FakeClock) -> None:
    claims = run_of(hf, 21)
    hf.ack(claims[::2])
    hf.ack(claims[1:17:2])
    clock.advance(30)
    hf.queues.sweep("q")
    assert drain(hf) == [17, 19]


def test_acking_again_changes_nothing(hf: Holdfast, claim: Claim) -> None:
    """L13: the same once more is not an error."""
    claim.ack()
    claim.ack()
    hf.ack([claim, claim])
    assert states(hf, [claim]) == ["succeeded"]


def test_acking_one_claim_twice_in_one_call_is_one_ack(hf: Holdfast, claim: Claim) -> None:
    hf.ack([claim, claim])
    assert states(hf, [claim]) == ["succeeded"]


def test_acking_a_part_of_a_run_twice_does_not_end_the_rest(hf: Holdfast, clock: FakeClock) -> None:
    first, second = run_of(hf, 2)
    hf.ack([first, first])
    assert states(hf, [first, second]) == ["succeeded", "processing"]
    clock.advance(30)
    assert bodies(hf.claim("q", n=10)) == [1]


@pytest.mark.parametrize("ending", ["ack", "nack"])
def test_of_two_threads_that_end_a_claim_one_wins(hf: Holdfast, rival: Holdfast, claim: Claim, ending: str) -> None:
    """L13: two acks are one; of an ack and a nack one is told that the lease is lost, and nothing is done twice."""
    start = Barrier(2)

    def end(through: Holdfast, act: str) -> str:
        start.wait()
        try:
            through.ack(claim) if act == "ack" else through.nack(claim, "no")
        except LeaseLost:
            return "lost"
        return act

    with ThreadPoolExecutor(2) as threads:
        ended = [threads.submit(end, hf, "ack"), threads.submit(end, rival, ending)]
        said = sorted(one.result(30) for one in ended)
    state = states(hf, [claim])[0]
    if ending == "ack":
        assert (said, state) == (["ack", "ack"], "succeeded")
    else:
        assert (said, state) in [(["ack", "lost"], "succeeded"), (["lost", "nack"], "pending")]


def test_an_ack_that_comes_second_waits_until_the_first_has_returned(
    hf: Holdfast, rival: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L13: the first is stored, and has not said so yet. The other claim of the second call is none of its business."""
    claim, another = run_of(hf, 2)
    first, second = internals(hf).transport.messages.settle, internals(rival).transport.messages.settle
    is_stored, is_refused = Event(), Event()

    def stored_first(settlements: list[Settlement]) -> list[bool]:
        answers = first(settlements)
        is_stored.set()
        assert is_refused.wait(30)
        return answers

    def refused(settlements: list[Settlement]) -> list[bool]:
        assert is_stored.wait(30)
        answers = second(settlements)
        is_refused.set()
        return answers

    monkeypatch.setattr(internals(hf).settlements, "_apply", stored_first)
    monkeypatch.setattr(internals(rival).settlements, "_apply", refused)
    with ThreadPoolExecutor(2) as threads:
        for ended in [threads.submit(hf.ack, claim), threads.submit(rival.ack, [claim, another])]:
            ended.result(60)
    assert states(hf, [claim, another]) == ["succeeded", "succeeded"]


def test_after_an_ack_nothing_else_is_accepted(hf: Holdfast, clock: FakeClock, claim: Claim) -> None:
    """L13."""
    claim.ack()
    for act in ENDINGS.values():
        with pytest.raises(LeaseLost, match=claim.message.id):
            act(claim)
    clock.advance(600)
    assert hf.claim("q") == []
    assert states(hf, [claim]) == ["succeeded"]


@pytest.mark.parametrize("ending", [name for name in ENDINGS if name != "extend"])
def test_an_ended_claim_cannot_be_acked(hf: Holdfast, claim: Claim, ending: str) -> None:
    ENDINGS[ending](claim)
    before = hf.status(claim.message.id)
    with pytest.raises(LeaseLost):
        claim.ack()
    assert hf.status(claim.message.id) == before


def test_a_bulk_ack_with_one_lost_claim_settles_the_others(hf: Holdfast) -> None:
    claims = [*run_of(hf, 3), row(hf), *run_of(hf, 2)]
    hf.cancel(claims[1].message.id)
    with pytest.raises(LeaseLost, match=f"1 claim.*{claims[1].message.id}"):
        hf.ack(claims)
    assert states(hf, claims) == ["succeeded", "canceled", "succeeded", "succeeded", "succeeded", "succeeded"]


def test_a_bulk_ack_with_a_lost_row_settles_the_others(hf: Holdfast) -> None:
    claims = [row(hf), row(hf), *run_of(hf, 2)]
    hf.cancel(claims[0].message.id)
    with pytest.raises(LeaseLost, match=claims[0].message.id):
        hf.ack(claims)
    assert states(hf, claims) == ["canceled", "succeeded", "succeeded", "succeeded"]


def test_of_two_endings_of_one_claim_in_one_transaction_the_first_wins(hf: Holdfast) -> None:
    first, second = run_of(hf, 2)
    settlements = [*settling.nacked([first], "no", 60, False), *settling.acked([first, second])]
    assert internals(hf).store.messages.settle(settlements) == [True, False, True]
    assert states(hf, [first, second]) == ["pending", "succeeded"]


def test_of_two_endings_of_one_row_in_one_transaction_the_first_wins(hf: Holdfast) -> None:
    claim = row(hf)
    settlements = [*settling.nacked([claim], "no", 60, False), *settling.acked([claim])]
    assert internals(hf).store.messages.settle(settlements) == [True, False]
    assert states(hf, [claim]) == ["pending"]


def test_ending_nothing_is_nothing(hf: Holdfast, claim: Claim) -> None:
    before = (hf.status(claim.message.id), hf.stats("q"), claim.lease.until_us, hf.dead_letters.list())
    hf.ack([])
    hf.ack([], "result")
    hf.nack([], "no")
    hf.release([])
    hf.snooze([], 1)
    hf.dead_letter([], "no")
    hf.extend([], 600)
    hf.extend([])
    assert (hf.status(claim.message.id), hf.stats("q"), claim.lease.until_us, hf.dead_letters.list()) == before
    claim.ack()


def test_a_claim_of_one_client_may_be_ended_through_another(hf: Holdfast, rival: Holdfast, claim: Claim) -> None:
    rival.ack(claim)
    assert states(hf, [claim]) == ["succeeded"]


# --- extend -----------------------------------------------------------------------------------------------------------


def test_extending_moves_the_end_of_the_lease(hf: Holdfast, clock: FakeClock, claim: Claim) -> None:
    clock.advance(20)
    claim.extend(0.5)
    assert claim.lease.until_us == clock() + 500_000
    claim.extend("2m")
    assert claim.lease.until_us == clock() + 120_000_000


def test_extending_without_a_duration_takes_the_lease_of_the_queue(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", lease=45)
    claims = run_of(hf, 2)
    clock.advance(20)
    hf.extend(claims)
    assert {claim.lease.until_us for claim in claims} == {clock() + 45_000_000}


def test_an_extended_message_is_not_taken_by_anyone(
    hf: Holdfast, rival: Holdfast, clock: FakeClock, claim: Claim
) -> None:
    for _ in range(5):
        clock.advance(29)
        claim.extend()
        assert rival.claim("q") == []
    clock.advance(30)
    assert claim_one(rival).attempt == 2


@pytest.mark.not_through_sqs(LANES)
def test_extending_one_member_extends_its_run(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    claims = run_of(hf, 3)
    claims[1].extend(600)
    assert {claim.lease.until_us for claim in claims} == {clock() + 600_000_000}
    clock.advance(599)
    assert rival.claim("q") == []
    hf.ack(claims)


def test_a_refused_extension_changes_nothing_for_its_neighbours(
    hf: Holdfast, rival: Holdfast, clock: FakeClock
) -> None:
    done, held = run_of(hf, 2)
    done.ack()
    with pytest.raises(LeaseLost):
        done.extend(3600)
    clock.advance(30)
    assert bodies(rival.claim("q")) == [held.message.body]


def test_a_bulk_extension_with_one_lost_claim_extends_the_others(hf: Holdfast, clock: FakeClock) -> None:
    claims = [*run_of(hf, 2), row(hf)]
    claims[0].ack()
    with pytest.raises(LeaseLost, match=claims[0].message.id):
        hf.extend(claims, 600)
    assert [claim.lease.until_us for claim in claims[1:]] == [clock() + 600_000_000] * 2


def test_a_lease_cannot_be_extended_by_nothing(hf: Holdfast, clock: FakeClock) -> None:
    [claim] = run_of(hf, 1)
    with pytest.raises(InvalidInput):
        claim.extend(0)
    assert claim.lease.until_us == clock() + 30_000_000


# --- all of it in one run ---------------------------------------------------------------------------------------------


def test_the_members_of_a_run_may_end_in_every_way(hf: Holdfast, clock: FakeClock) -> None:
    acked, nacked, snoozed, released, dead, canceled, silent = claims = run_of(hf, 7)
    acked.ack()
    nacked.nack("no", delay=10)
    snoozed.snooze(20)
    released.release()
    dead.dead_letter("hopeless")
    hf.cancel(canceled.message.id)
    assert states(hf, claims) == ["succeeded", "pending", "pending", "pending", "dead", "canceled", "processing"]
    found = []
    for _ in range(4):
        found += [(claim.message.body, claim.attempt) for claim in hf.claim("q", n=10, lease=1000)]
        clock.advance(10)
    assert found == [(3, 1), (1, 2), (2, 1), (6, 2)]
    with pytest.raises(LeaseLost):
        silent.ack()


def test_members_of_a_run_may_end_in_different_ways_in_threads_of_different_clients(
    hf: Holdfast, rival: Holdfast
) -> None:
    claims = run_of(hf, 4)
    hf.nack(claims[0], "no", delay=60)
    rival.snooze(claims[1], 60)
    hf.ack(claims[2])
    rival.ack(claims[3])
    assert states(hf, claims) == ["pending", "pending", "succeeded", "succeeded"]
    stats = hf.stats("q")
    assert (stats.pending, stats.waiting, stats.processing) == (0, 2, 0)
