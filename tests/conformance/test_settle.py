"""Ending claims: whole runs, parts of runs, single rows; once, and by their holder only."""

import itertools
from collections.abc import Callable

import pytest

from holdfast import Claim, Holdfast, InvalidInput, LeaseLost, endings
from tests.clock import FakeClock
from tests.conformance.steps import bodies, claim_one, drain

ENDINGS: dict[str, Callable[[Claim], None]] = {
    "nack": lambda claim: claim.nack("no"),
    "release": lambda claim: claim.release(),
    "snooze": lambda claim: claim.snooze(1),
    "dead_letter": lambda claim: claim.dead_letter("no"),
    "extend": lambda claim: claim.extend(60),
}


def run_of(hf: Holdfast, size: int) -> list[Claim]:
    """A run of numbered messages under one lease."""
    hf.enqueue_many("q", range(size))
    claims = hf.claim("q", n=size)
    assert len({claim.lease.token for claim in claims}) == 1
    return claims


def row(hf: Holdfast, body: object = "row") -> Claim:
    """A claim of a message that has a state of its own."""
    hf.enqueue("q", body)
    hf.release(hf.claim("q"))
    return claim_one(hf)


@pytest.fixture(params=["lane", "row"])
def claim(hf: Holdfast, request: pytest.FixtureRequest) -> Claim:
    """One claim, from the lane and as a row."""
    return row(hf) if request.param == "row" else run_of(hf, 1)[0]


def states(hf: Holdfast, claims: list[Claim]) -> list[str]:
    return [hf.status(claim.message.id).state.value for claim in claims]


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


def test_a_run_longer_than_a_byte_of_bits_may_be_acked_in_parts(hf: Holdfast, clock: FakeClock) -> None:
    claims = run_of(hf, 21)
    hf.ack(claims[::2])
    hf.ack(claims[1:17:2])
    clock.advance(30)
    hf.sweep("q")
    assert drain(hf) == [17, 19]


def test_acking_again_changes_nothing(hf: Holdfast, claim: Claim) -> None:
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


def test_after_an_ack_nothing_else_is_accepted(hf: Holdfast, clock: FakeClock, claim: Claim) -> None:
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
    settlements = [*endings.nacked([first], "no", 60, False), *endings.acked([first, second])]
    assert hf.store.messages.settle(settlements) == [True, False, True]
    assert states(hf, [first, second]) == ["pending", "succeeded"]


def test_of_two_endings_of_one_row_in_one_transaction_the_first_wins(hf: Holdfast) -> None:
    claim = row(hf)
    settlements = [*endings.nacked([claim], "no", 60, False), *endings.acked([claim])]
    assert hf.store.messages.settle(settlements) == [True, False]
    assert states(hf, [claim]) == ["pending"]


def test_acking_nothing_is_nothing(hf: Holdfast) -> None:
    hf.ack([])
    hf.extend([])


def test_a_claim_of_one_client_may_be_ended_through_another(hf: Holdfast, rival: Holdfast, claim: Claim) -> None:
    rival.ack(claim)
    assert states(hf, [claim]) == ["succeeded"]


# --- nack -------------------------------------------------------------------------------------------------------------


def test_a_nacked_member_of_a_run_is_the_only_one_to_come_back(hf: Holdfast, clock: FakeClock) -> None:
    claims = run_of(hf, 5)
    claims[2].nack("no", delay=0)
    hf.ack(claims[:2] + claims[3:])
    clock.advance(60)
    assert [(claim.message.body, claim.attempt) for claim in hf.claim("q", n=10)] == [(2, 2)]


def test_a_nacked_member_can_be_taken_while_its_run_is_still_held(hf: Holdfast, rival: Holdfast) -> None:
    claims = run_of(hf, 3)
    claims[0].nack("no", delay=0)
    claim_one(rival).ack()
    hf.ack(claims[1:])
    assert states(hf, claims) == ["succeeded"] * 3


def test_a_nacked_message_keeps_its_identity(hf: Holdfast, claim: Claim) -> None:
    claim.nack("no", delay=0)
    again = claim_one(hf)
    assert again.message.id == claim.message.id
    assert again.message.enqueued_at == claim.message.enqueued_at
    assert again.lease.token != claim.lease.token


def test_the_delay_of_a_nack_is_kept(hf: Holdfast, clock: FakeClock, claim: Claim) -> None:
    claim.nack("no", delay=0.5)
    assert hf.status(claim.message.id).due_at == clock() + 500_000
    clock.advance(0.499)
    assert hf.claim("q") == []
    clock.advance(0.001)
    assert claim_one(hf).attempt == 2


def test_a_list_of_waits_is_kept_attempt_by_attempt(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", backoff=[10, "1m"], max_attempts=10)
    hf.enqueue("q", "flaky")
    for attempt, wait in [(1, 10), (2, 60), (3, 60), (4, 60)]:
        claim = claim_one(hf, lease=1000)
        assert claim.attempt == attempt
        claim.nack("no")
        clock.advance(wait - 0.001)
        assert hf.claim("q") == []
        clock.advance(0.001)
    assert claim_one(hf).attempt == 5


def test_the_default_backoff_doubles_with_a_little_jitter(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_attempts=10)
    receipt = hf.enqueue("q", "flaky")
    for base in [1, 2, 4, 8, 16, 32, 60]:
        claim_one(hf).nack("no")
        wait = hf.status(receipt.id).due_at - clock()
        assert 0.9 * base <= wait / 1_000_000 <= min(1.1 * base, 60)
        clock.advance(60)


def test_without_a_backoff_it_comes_back_at_once(hf: Holdfast) -> None:
    hf.queue("q", backoff=None)
    hf.enqueue("q", 1)
    claim_one(hf).nack("no")
    assert claim_one(hf).attempt == 2


def test_the_last_attempt_makes_it_dead(hf: Holdfast) -> None:
    hf.queue("q", max_attempts=3, backoff=None)
    receipt = hf.enqueue("q", 1)
    for attempt in (1, 2, 3):
        assert hf.status(receipt.id).state == "pending"
        claim_one(hf).nack(f"error {attempt}")
    assert hf.claim("q") == []
    assert hf.status(receipt.id).state == "dead"
    [dead] = hf.dead_letters("q")
    assert (dead.attempts, dead.error) == (3, "error 3")


def test_a_single_attempt_is_dead_after_the_first_failure(hf: Holdfast) -> None:
    hf.queue("q", max_attempts=1)
    receipt = hf.enqueue("q", 1)
    claim_one(hf).nack("no", delay=5)
    assert hf.status(receipt.id).state == "dead"
    assert hf.claim("q") == []


def test_a_permanent_failure_is_dead_at_once(hf: Holdfast, claim: Claim) -> None:
    claim.nack("never again", permanent=True)
    assert states(hf, [claim]) == ["dead"]
    assert hf.claim("q") == []
    assert [dead.error for dead in hf.dead_letters("q")] == ["never again"]


def test_a_bulk_nack_judges_each_claim_by_its_own_queue(hf: Holdfast) -> None:
    hf.queue("strict", max_attempts=1)
    hf.queue("patient", max_attempts=9, backoff=None)
    hf.enqueue("strict", 1)
    hf.enqueue("patient", 2)
    claims = hf.claim("strict", "patient", n=2)
    hf.nack(claims, "no")
    assert states(hf, claims) == ["dead", "pending"]


def test_an_exception_leaves_its_traceback_in_the_history(hf: Holdfast, claim: Claim) -> None:
    def handler() -> None:
        raise ValueError("the zip code is missing")

    try:
        handler()
    except ValueError as problem:
        claim.nack(problem, permanent=True)
    [dead] = hf.dead_letters("q")
    [line] = dead.history
    assert "in handler" in line.error
    assert line.error.endswith("ValueError: the zip code is missing")


def test_a_nack_without_a_reason_says_so(hf: Holdfast, claim: Claim) -> None:
    claim.nack(permanent=True)
    [dead] = hf.dead_letters("q")
    assert dead.error == "failed without a reason"


@pytest.mark.parametrize("text", ["NUL \x00 inside", "file \udcff.txt", "🐙" * 5_000], ids=["NUL", "surrogate", "long"])
def test_no_error_text_can_keep_a_failure_from_being_recorded(hf: Holdfast, claim: Claim, text: str) -> None:
    hf.queue("q", dead_letter="graves")
    claim.nack(text, delay=0)
    claim_one(hf).nack(text, permanent=True)
    [dead] = hf.dead_letters("q")
    assert len(dead.history) == 2
    assert dead.error.startswith(text[:3]) or dead.error.endswith(text[-3:])
    assert len(hf.claim("graves")) == 1


def test_a_delay_that_makes_no_sense_is_refused_and_the_claim_is_still_held(hf: Holdfast, claim: Claim) -> None:
    for delay in (-1, "soon", True, float("nan")):
        with pytest.raises(InvalidInput):
            claim.nack("no", delay=delay)
        with pytest.raises(InvalidInput):
            claim.snooze(delay)
        with pytest.raises(InvalidInput):
            claim.extend(delay)
    claim.ack()


def test_an_error_that_is_neither_text_nor_exception_is_refused(hf: Holdfast, claim: Claim) -> None:
    with pytest.raises(InvalidInput):
        claim.nack(404)  # type: ignore[arg-type]
    claim.ack()


# --- release, snooze, dead letter -------------------------------------------------------------------------------------


def test_a_released_message_is_claimable_at_once_and_no_attempt_is_spent(hf: Holdfast, claim: Claim) -> None:
    attempt = claim.attempt
    for _ in range(10):
        claim.release()
        claim = claim_one(hf)
        assert claim.attempt == attempt


@pytest.mark.parametrize("ending", ["release", "snooze", "nack"])
def test_what_is_handed_back_together_comes_back_in_its_order(hf: Holdfast, ending: str) -> None:
    claims = run_of(hf, 5)
    {
        "release": lambda: hf.release(claims),
        "snooze": lambda: hf.snooze(claims, 0),
        "nack": lambda: hf.nack(claims, "no", delay=0),
    }[ending]()
    assert bodies(hf.claim("q", n=10)) == [0, 1, 2, 3, 4]


def test_release_gives_back_only_its_own_attempt(hf: Holdfast) -> None:
    hf.enqueue("q", 1)
    claim_one(hf).nack("no", delay=0)
    claim_one(hf).release()
    assert claim_one(hf).attempt == 2


def test_a_snoozed_message_comes_back_after_its_delay_and_no_attempt_is_spent(
    hf: Holdfast, clock: FakeClock, claim: Claim
) -> None:
    attempt = claim.attempt
    for _ in range(10):
        claim.snooze("1m")
        clock.advance(59.999)
        assert hf.claim("q") == []
        clock.advance(0.001)
        claim = claim_one(hf)
        assert claim.attempt == attempt


def test_release_and_snooze_leave_no_line_in_the_history(hf: Holdfast, claim: Claim) -> None:
    claim.release()
    claim_one(hf).snooze(0)
    claim_one(hf).dead_letter("the end")
    [dead] = hf.dead_letters("q")
    assert [line.error for line in dead.history] == ["the end"]


def test_a_dead_letter_is_made_whatever_attempts_are_left(hf: Holdfast, claim: Claim) -> None:
    claim.dead_letter(RuntimeError("hopeless"))
    assert states(hf, [claim]) == ["dead"]
    [dead] = hf.dead_letters("q")
    assert (dead.error, dead.attempts) == ("RuntimeError: hopeless", 1)


# --- extend -----------------------------------------------------------------------------------------------------------


def test_extending_moves_the_end_of_the_lease(hf: Holdfast, clock: FakeClock, claim: Claim) -> None:
    clock.advance(20)
    claim.extend(0.5)
    assert claim.lease.until == clock() + 500_000
    claim.extend("2m")
    assert claim.lease.until == clock() + 120_000_000


def test_extending_without_a_duration_takes_the_lease_of_the_queue(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", lease=45)
    claims = run_of(hf, 2)
    clock.advance(20)
    hf.extend(claims)
    assert {claim.lease.until for claim in claims} == {clock() + 45_000_000}


def test_an_extended_message_is_not_taken_by_anyone(
    hf: Holdfast, rival: Holdfast, clock: FakeClock, claim: Claim
) -> None:
    for _ in range(5):
        clock.advance(29)
        claim.extend()
        assert rival.claim("q") == []
    clock.advance(30)
    assert claim_one(rival).attempt == 2


def test_extending_one_member_extends_its_run(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    claims = run_of(hf, 3)
    claims[1].extend(600)
    assert {claim.lease.until for claim in claims} == {clock() + 600_000_000}
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
    assert [claim.lease.until for claim in claims[1:]] == [clock() + 600_000_000] * 2


def test_a_lease_cannot_be_extended_by_nothing(hf: Holdfast, clock: FakeClock) -> None:
    [claim] = run_of(hf, 1)
    with pytest.raises(InvalidInput):
        claim.extend(0)
    assert claim.lease.until == clock() + 30_000_000


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
