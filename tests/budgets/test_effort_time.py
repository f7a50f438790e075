"""Giving up: how long a message may take, how often the same thing is tried, and what is known of it afterwards."""

from collections.abc import Callable

import pytest

from holdfast import Claim, Holdfast, State
from holdfast.budgets import spend_reports
from holdfast.budgets.rules import Effort
from holdfast.client.client import internals
from holdfast.worker.outcomes import GaveUp
from tests.budgets.effort_steps import REPORTS, known
from tests.clock import FakeClock
from tests.steps import claim_one, row, run_of

pytestmark = pytest.mark.of_queues

KINDS = pytest.mark.parametrize("take", [lambda hf: run_of(hf, 1)[0], row], ids=["in a lane", "as a row"])
Take = Callable[[Holdfast], Claim]

# --- time -------------------------------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("end", ["nack", "release", "lapse"])
def test_the_time_of_all_attempts_counts_from_the_first_claim(
    hf: Holdfast, clock: FakeClock, take: Take, end: str
) -> None:
    hf.queue("q", max_time=100, backoff=None, lease=40)
    claim = take(hf)
    [begun] = spend_reports.begin(internals(hf), [claim])
    assert begun == Effort(clock())
    for left in (60, 20):
        clock.advance(40)
        if end != "lapse":
            getattr(claim, end)()
        claim = claim_one(hf)
        assert spend_reports.begin(internals(hf), [claim]) == [begun]
        spend_reports.check(claim, begun)
        assert spend_reports.time_left(begun, claim.channel.spec, clock()) == left
    spend_reports.act(internals(hf), claim, "look")
    clock.advance(20)
    for report in REPORTS.values():
        with pytest.raises(GaveUp, match=r"max_time.*not done 100 s after its first claim; 100 s are allowed in all"):
            report(hf, claim)
    clock.advance(20)
    if end != "lapse":
        getattr(claim, end)()
    claim = claim_one(hf)
    with pytest.raises(GaveUp, match="not done 120 s"):
        spend_reports.check(claim, spend_reports.begin(internals(hf), [claim])[0])


def test_many_begin_at_once_and_those_that_are_lost_do_not(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_time=100)
    hf.queue("p")
    single, members = row(hf), run_of(hf, 3)
    hf.enqueue("p", "without a limit")
    free = claim_one(hf, "p")
    members[1].ack()
    begun = spend_reports.begin(internals(hf), [members[0], free, members[1], single, members[2]])
    since = Effort(clock())
    assert begun == [since, None, None, since, since]
    assert [known(hf, claim) for claim in (free, members[1])] == [None, None]
    assert spend_reports.begin(internals(hf), []) == []


def test_a_report_begins_too_and_where_time_is_free_it_is_over_never(
    hf: Holdfast, clock: FakeClock, claim: Claim
) -> None:
    clock.advance(10)
    begun = spend_reports.spend(internals(hf), claim, 1)
    assert begun.started_at == claim.lease.since_us < clock()
    clock.advance(1e9)
    assert spend_reports.time_left(begun, claim.channel.spec, clock()) is None
    spend_reports.act(internals(hf), claim, "look")


def test_earlier_attempts_may_have_spent_it_all(hf: Holdfast, claim: Claim) -> None:
    """Killed after the report that was too much, before it could give up."""
    hf.queue("q", message_budget=10, max_time=100, max_repeats=2)
    spend_reports.act(internals(hf), claim, "look")
    with pytest.raises(GaveUp):
        spend_reports.spend(internals(hf), claim, 11)
    claim.release()
    again = claim_one(hf)
    [begun] = spend_reports.begin(internals(hf), [again])
    with pytest.raises(GaveUp, match="spent 11 of 10"):
        spend_reports.check(again, begun)


# --- repetition -------------------------------------------------------------------------------------------------------


def test_the_same_thing_again_and_again_is_given_up(hf: Holdfast, claim: Claim) -> None:
    hf.queue("q", max_repeats=3)
    streaks = [
        spend_reports.act(internals(hf), claim, text).repeats
        for text in ("Open page 1", "open  page 2", "save", "open page 3")
    ]
    assert streaks == [1, 2, 1, 1]
    spend_reports.act(internals(hf), claim, "open page 4")
    with pytest.raises(GaveUp, match=r"gave up \(max_repeats\): did the same thing 3 times in a row: open page #$"):
        spend_reports.act(internals(hf), claim, "open page 5")


def test_spending_in_between_is_no_other_action(hf: Holdfast, claim: Claim) -> None:
    hf.queue("q", max_repeats=2)
    spend_reports.act(internals(hf), claim, "look")
    assert spend_reports.spend(internals(hf), claim, 5).repeats == 1
    with pytest.raises(GaveUp):
        spend_reports.act(internals(hf), claim, "look")


@pytest.mark.parametrize("end", ["nack", "release", "lapse"])
def test_a_retry_may_do_what_the_attempt_before_it_did(hf: Holdfast, clock: FakeClock, claim: Claim, end: str) -> None:
    hf.queue("q", max_repeats=2)
    for _ in range(3):
        assert spend_reports.act(internals(hf), claim, "look").repeats == 1
        if end != "lapse":
            getattr(claim, end)()
        clock.advance(100)
        claim = claim_one(hf)


# --- and then ---------------------------------------------------------------------------------------------------------


@KINDS
def test_a_replay_begins_anew(hf: Holdfast, clock: FakeClock, take: Take) -> None:
    hf.queue("q", message_budget=10, max_time=100, max_repeats=2)
    claim = take(hf)
    spend_reports.begin(internals(hf), [claim])
    with pytest.raises(GaveUp) as found:
        spend_reports.spend(internals(hf), claim, 11)
    claim.dead_letter(found.value)
    clock.advance(500)
    [dead] = hf.dead_letters.list("q")
    assert "spent 11 of 10" in dead.error
    hf.dead_letters.replay(dead.id)
    again = claim_one(hf)
    [begun] = spend_reports.begin(internals(hf), [again])
    assert begun == Effort(clock())
    assert spend_reports.spend(internals(hf), again, 10).spent == 10
    assert hf.queues.budget("q") == 21


ENDS: dict[str, Callable[[Holdfast, Claim], object]] = {
    "ack": lambda hf, claim: claim.ack(),
    "death": lambda hf, claim: claim.dead_letter("no"),
    "cancel": lambda hf, claim: hf.cancel(claim.message.id),
    "purge": lambda hf, claim: (claim.release(), hf.queues.purge("q")),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("history", [0, 3600])
def test_it_is_forgotten_with_the_message(
    hf: Holdfast, clock: FakeClock, claim: Claim, end: str, history: float
) -> None:
    hf.queue("q", history=history)
    spend_reports.spend(internals(hf), claim, 5)
    for _ in range(5):
        clock.advance(20)
        claim.extend(30)
        hf.queues.sweep("q")
    assert known(hf, claim)
    ENDS[end](hf, claim)
    for _ in range(3):
        clock.advance(max(history, 60))
        hf.queues.sweep("q")
    assert known(hf, claim) is None
    assert hf.queues.budget("q") == 5
    assert hf.queues.sweep("q") == 0


def test_it_is_kept_as_long_as_its_message_waits_or_is_worked_on(hf: Holdfast, clock: FakeClock) -> None:
    """More of them than a sweep looks at: those that stay do not hide those that can go."""
    hf.queue("q", history=0, lease="30d")
    stay = run_of(hf, 150)
    for claim in stay:
        spend_reports.spend(internals(hf), claim, 1)
    hf.snooze(stay[::2], "10d")
    clock.advance(1)
    hf.enqueue("q", "goes")
    goes = claim_one(hf)
    spend_reports.spend(internals(hf), goes, 1)
    goes.ack()
    clock.advance(61)
    for _ in range(3):
        hf.queues.sweep("q")
    assert known(hf, goes) is None
    assert all(known(hf, claim) == Effort(claim.lease.since_us, 1) for claim in stay)


def test_a_message_that_gave_up_is_dead_with_a_reason_for_its_owner(hf: Holdfast) -> None:
    hf.owner("mia")
    hf.queue("q", owner="mia", max_repeats=2)
    [claim] = run_of(hf, 1)
    spend_reports.act(internals(hf), claim, "look")
    with pytest.raises(GaveUp) as found:
        spend_reports.act(internals(hf), claim, "Look")
    claim.dead_letter(str(found.value))
    assert hf.status(claim.message.id).state is State.DEAD
    [notice] = hf.notices.list("mia")
    assert notice.error == "gave up (max_repeats): did the same thing 2 times in a row: look"
