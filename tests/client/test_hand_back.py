"""Claims that are not done: failed, handed back, put off, or given up."""

import pytest

from holdfast import Claim, Holdfast, InvalidInput
from tests.clock import FakeClock
from tests.steps import bodies, claim_one, run_of, states

pytestmark = pytest.mark.of_queues

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
    assert again.message.enqueued_at_us == claim.message.enqueued_at_us
    assert again.lease.token != claim.lease.token


def test_the_delay_of_a_nack_is_kept(hf: Holdfast, clock: FakeClock, claim: Claim) -> None:
    claim.nack("no", delay=0.5)
    assert hf.status(claim.message.id).due_at_us == clock() + 500_000
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
        wait = hf.status(receipt.id).due_at_us - clock()
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
    [dead] = hf.dead_letters.list("q")
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
    assert [dead.error for dead in hf.dead_letters.list("q")] == ["never again"]


@pytest.mark.not_through_sqs(
    "a row on its last attempt is claimed alone, and the first attempt of one of its queues is the last"
)
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
    [dead] = hf.dead_letters.list("q")
    [line] = dead.history
    assert line.error == dead.error == "ValueError: the zip code is missing"
    assert line.traceback is not None
    assert line.traceback == dead.traceback
    assert "in handler" in line.traceback


def test_a_nack_without_a_reason_says_so(hf: Holdfast, claim: Claim) -> None:
    claim.nack(permanent=True)
    [dead] = hf.dead_letters.list("q")
    assert dead.error == "failed without a reason"


@pytest.mark.parametrize("text", ["NUL \x00 inside", "file \udcff.txt", "🐙" * 5_000], ids=["NUL", "surrogate", "long"])
def test_no_error_text_can_keep_a_failure_from_being_recorded(hf: Holdfast, claim: Claim, text: str) -> None:
    hf.queue("q", dead_letter="graves")
    claim.nack(text, delay=0)
    claim_one(hf).nack(text, permanent=True)
    [dead] = hf.dead_letters.list("q")
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
    [dead] = hf.dead_letters.list("q")
    assert [line.error for line in dead.history] == ["the end"]


def test_who_has_had_more_attempts_than_there_are_now_is_claimed_once_more_and_dies(
    hf: Holdfast, clock: FakeClock
) -> None:
    """L8: the limit was lowered below what a ready message has behind it; nobody looks at it for ever."""
    hf.queue("q", max_attempts=9, backoff=None)
    sent = hf.enqueue("q", 1)
    for _ in range(3):
        claim_one(hf).nack("no")
    hf.queue("q", max_attempts=2, backoff=None)
    claim = claim_one(hf)
    assert claim.attempt == 4
    claim.nack("no")
    assert hf.status(sent.id).state == "dead"
    assert hf.claim("q") == []
    clock.advance(3600)
    assert hf.claim("q") == []
    assert hf.status(sent.id).state == "dead"


def test_a_dead_letter_is_made_whatever_attempts_are_left(hf: Holdfast, claim: Claim) -> None:
    claim.dead_letter(RuntimeError("hopeless"))
    assert states(hf, [claim]) == ["dead"]
    [dead] = hf.dead_letters.list("q")
    assert (dead.error, dead.attempts) == ("RuntimeError: hopeless", 1)
