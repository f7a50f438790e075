"""Giving up: what a message and its queue may spend, and who may say so."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast import AsyncHoldfast, Claim, Holdfast, LeaseLost
from holdfast.budgets import spend_reports
from holdfast.budgets.steps import reports
from holdfast.client.client import internals
from holdfast.client.settlements import acked
from holdfast.store.ids import new_id
from holdfast.worker.outcomes import BudgetSpent, DeadLetter, GaveUp, Snooze
from tests.budgets.effort_steps import REPORTS, known
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, claim_one, row, run_of

pytestmark = pytest.mark.of_queues

# --- spending ---------------------------------------------------------------------------------------------------------


def test_what_is_spent_adds_up_for_the_message_and_for_its_queue(hf: Holdfast, claim: Claim) -> None:
    parts = internals(hf)
    assert (spend_reports.spend(parts, claim, 3).spent, spend_reports.spend(parts, claim, 0.5).spent) == (3, 3.5)
    hf.enqueue("q", "more")
    assert spend_reports.spend(internals(hf), claim_one(hf), 1).spent == 1
    assert hf.queues.budget("q") == 4.5
    assert hf.queues.budget("elsewhere") == 0


@pytest.mark.parametrize("end", ["release", "nack", "snooze", "lapse"])
def test_it_stays_spent_whatever_becomes_of_the_attempt(hf: Holdfast, clock: FakeClock, claim: Claim, end: str) -> None:
    spend_reports.spend(internals(hf), claim, 3)
    match end:
        case "snooze":
            claim.snooze(1)
        case "lapse":
            pass  # killed
        case _:
            getattr(claim, end)()
    clock.advance(100)
    again = claim_one(hf)
    assert spend_reports.spend(internals(hf), again, 4).spent == 7
    assert hf.queues.budget("q") == 7


def test_a_budget_may_be_spent_to_the_last_penny(hf: Holdfast, claim: Claim) -> None:
    hf.queue("q", message_budget=10)
    spend_reports.spend(internals(hf), claim, 10)
    with pytest.raises(GaveUp, match=r"gave up \(message_budget\): spent 10\.5 of 10$"):
        spend_reports.spend(internals(hf), claim, 0.5)
    claim.ack()
    assert not hf.queues.is_paused("q")


def test_a_message_may_have_a_smaller_budget_of_its_own(hf: Holdfast) -> None:
    hf.queue("q", message_budget=10)
    for budget, allowed in ((4, 4), (40, 10), (None, 10)):
        hf.enqueue("q", "work", budget=budget, headers={"a": 1})
        claim = claim_one(hf)
        assert claim.message.headers["a"] == 1
        spend_reports.spend(internals(hf), claim, allowed)
        with pytest.raises(GaveUp, match=f"spent {allowed + 1} of {allowed}"):
            spend_reports.spend(internals(hf), claim, 1)
        claim.ack()


def test_many_messages_have_the_same_budget_each(hf: Holdfast) -> None:
    hf.enqueue_many("q", range(3), budget=2)
    for claim in hf.claim("q", n=3):
        spend_reports.spend(internals(hf), claim, 2)
        with pytest.raises(GaveUp):
            spend_reports.spend(internals(hf), claim, 0.1)


def test_a_budget_that_was_raised_holds_for_those_who_work_already(hf: Holdfast, rival: Holdfast) -> None:
    hf.queue("q", message_budget=10)
    [claim] = run_of(hf, 1)
    rival.queue("q", message_budget=20)
    assert spend_reports.spend(internals(hf), claim, 15).spent == 15


def test_giving_up_is_an_end_for_the_message_and_the_other_is_not() -> None:
    assert issubclass(GaveUp, DeadLetter)
    assert issubclass(BudgetSpent, Snooze)
    assert not issubclass(BudgetSpent, DeadLetter)


# --- the fence --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("end", ["ack", "release", "lapse", "cancel"])
def test_who_has_lost_the_claim_changes_nothing(
    hf: Holdfast, rival: Holdfast, clock: FakeClock, claim: Claim, report: str, end: str
) -> None:
    spend_reports.spend(internals(hf), claim, 3)
    before = known(hf, claim)
    match end:
        case "lapse":
            clock.advance(31)
            assert bodies(rival.claim("q"))
        case "cancel":
            assert rival.cancel(claim.message.id)
        case _:
            getattr(claim, end)()
    with pytest.raises(LeaseLost):
        REPORTS[report](hf, claim)
    assert (known(hf, claim), hf.queues.budget("q")) == (before, 3)


def test_the_members_of_a_run_are_counted_apart_and_lost_apart(hf: Holdfast) -> None:
    first, second, third = run_of(hf, 3)
    spend_reports.spend(internals(hf), first, 1)
    spend_reports.spend(internals(hf), second, 2)
    first.ack()
    with pytest.raises(LeaseLost):
        spend_reports.spend(internals(hf), first, 10)
    assert spend_reports.spend(internals(hf), second, 2).spent == 4
    assert known(hf, third) is None
    assert hf.queues.budget("q") == 5


def test_a_lost_claim_gives_up_nothing(hf: Holdfast, claim: Claim) -> None:
    """The queue of one who has nothing to say any more is not paused."""
    hf.queue("q", budget=1)
    claim.release()
    with pytest.raises(LeaseLost):
        spend_reports.spend(internals(hf), claim, 100)
    assert not hf.queues.is_paused("q")


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_whose_answer_was_lost_counts_once(hf: Holdfast, claim: Claim, report: str) -> None:
    hf.queue("q", budget=4)
    [settlement], same = acked([claim]), new_id()
    verbs = {
        "spend": lambda tx, one: reports.spend(tx, one, settlement, 5),
        "act": lambda tx, one: reports.act(tx, one, settlement, "look"),
    }
    write = internals(hf).store.database.write  # type: ignore[attr-defined]
    first = write(lambda tx: verbs[report](tx, same))
    again = write(lambda tx: verbs[report](Again(tx), same))
    assert (again.effort, again.is_first, again.queue_spent) == (first.effort, first.is_first, first.queue_spent)
    assert first.is_first == (report == "spend")
    other = write(lambda tx: verbs[report](Again(tx), new_id()))
    assert other.effort != first.effort
    assert not other.is_first


class Again:
    """A transaction that tries for a second time what may have happened."""

    again = True

    def __init__(self, tx: Any) -> None:
        self._tx = tx

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)


# --- the queue's budget -----------------------------------------------------------------------------------------------


def test_what_goes_over_the_queues_budget_pauses_it_and_is_told_once(hf: Holdfast, rival: Holdfast) -> None:
    hf.queue("q", budget=10)
    first, second, third = run_of(hf, 3)
    spend_reports.spend(internals(hf), first, 9.5)
    assert not hf.queues.is_paused("q")
    with pytest.raises(BudgetSpent, match=r"the queue spent 10\.5 of 10: 'q' is paused\. Allow more") as over:
        spend_reports.spend(internals(hf), second, 1)
    assert (over.value.is_first, over.value.delay(0), rival.queues.is_paused("q")) == (True, 0, True)
    for claim in (second, third):
        with pytest.raises(BudgetSpent) as later:
            spend_reports.spend(internals(hf), claim, 1)
        assert not later.value.is_first
    hf.release([first, second, third])
    assert (rival.claim("q", n=3), hf.dead_letters.count(), hf.queues.budget("q")) == ([], 0, 12.5)
    [notice] = hf.notices.list()
    assert (notice.kind, notice.about, notice.queue, notice.repeats) == ("budget", "q", "q", 0)
    assert notice.error == str(over.value)


def test_a_budget_spent_to_the_last_penny_pauses_the_queue_and_ends_no_attempt(hf: Holdfast, rival: Holdfast) -> None:
    """Nothing is left for another message, so none may begin."""
    hf.queue("q", budget=10)
    first, second = run_of(hf, 2)
    assert spend_reports.spend(internals(hf), first, 10).spent == 10
    assert rival.queues.is_paused("q")
    assert [notice.error.split(":")[0] for notice in hf.notices.list()] == ["the queue spent 10 of 10"]
    with pytest.raises(BudgetSpent) as over:
        spend_reports.spend(internals(hf), second, 1)
    assert not over.value.is_first, "the queue was paused before"


def test_a_resume_alone_starts_nothing_that_no_budget_is_left_for(hf: Holdfast, rival: Holdfast) -> None:
    hf.queue("q", budget=10)
    [claim] = run_of(hf, 1)
    hf.enqueue("q", "next")
    with pytest.raises(BudgetSpent):
        spend_reports.spend(internals(hf), claim, 11)
    hf.queues.resume("q")
    assert (rival.claim("q"), rival.queues.is_paused("q")) == ([], True)
    hf.queue("q", budget=12)
    assert not rival.queues.is_paused("q"), "it was resumed, and now there is more"
    assert len(rival.claim("q")) == 1


@pytest.mark.parametrize("more", ["reset", "no limit", "a higher one"])
def test_a_budget_that_is_lowered_below_what_was_spent_pauses_the_queue(hf: Holdfast, more: str) -> None:
    hf.queue("q", budget=100)
    [claim] = run_of(hf, 1)
    hf.enqueue("q", "next")
    spend_reports.spend(internals(hf), claim, 50)
    hf.queue("q", budget=50)
    assert (hf.queues.is_paused("q"), hf.claim("q")) == (True, [])
    if more == "reset":
        hf.queues.reset_budget("q")
    else:
        hf.queue("q", budget=None if more == "no limit" else 51)
    assert (hf.queues.is_paused("q"), len(hf.claim("q"))) == (False, 1)


def test_a_pause_by_hand_outlives_a_budget_that_is_raised(hf: Holdfast) -> None:
    hf.queue("q", budget=100)
    hf.queues.pause("q")
    hf.queue("q", budget=200)
    hf.queues.reset_budget("q")
    assert hf.queues.is_paused("q")


def test_a_spent_budget_begins_anew(hf: Holdfast) -> None:
    hf.queue("q", budget=10)
    hf.enqueue("q", "work")
    claim = claim_one(hf)
    with pytest.raises(BudgetSpent):
        spend_reports.spend(internals(hf), claim, 12)
    claim.release()
    assert hf.queues.reset_budget("q") == 12
    assert (hf.queues.budget("q"), hf.queues.is_paused("q"), hf.claim("q")) == (0, True, [])
    hf.queues.resume("q")
    again = claim_one(hf)
    assert again.attempt == 1
    assert spend_reports.spend(internals(hf), again, 9).spent == 21
    with pytest.raises(BudgetSpent) as over:
        spend_reports.spend(internals(hf), again, 9)
    assert over.value.is_first
    [record] = [line for line in hf.audit.list() if line.act == "reset_budget"]
    assert (record.actor, record.queue, record.about, record.count) == (hf.actor, "q", {"spent": 12}, 1)


def test_who_resumes_without_more_money_is_paused_again_and_told_again(hf: Holdfast, claim: Claim) -> None:
    hf.queue("q", budget=10)
    for _ in range(2):
        with pytest.raises(BudgetSpent) as over:
            spend_reports.spend(internals(hf), claim, 11)
        assert over.value.is_first
        hf.queues.resume("q")
    hf.queue("q", budget=100)
    assert spend_reports.spend(internals(hf), claim, 11).spent == 33
    assert not hf.queues.is_paused("q")


def test_the_queues_budget_goes_before_the_messages_own(hf: Holdfast, claim: Claim) -> None:
    """Whoever answers for the queue hears of it; the message gives up when it is next worked on."""
    hf.queue("q", budget=10, message_budget=10)
    with pytest.raises(BudgetSpent):
        spend_reports.spend(internals(hf), claim, 11)
    hf.queues.reset_budget("q")
    with pytest.raises(GaveUp):
        spend_reports.spend(internals(hf), claim, 0)


def test_sums_are_exact_and_one_alone_pauses_however_many_spend(client: OpenClient) -> None:
    hf = client(clock=None, sweep_every=1)
    hf.queue("q", budget=299.5, lease=600)
    claims = run_of(hf, 4) + [row(hf) for _ in range(4)]
    together = threading.Barrier(8)

    def work(claim: Claim) -> list[bool]:
        together.wait(30)
        told = []
        for _ in range(50):
            try:
                spend_reports.spend(internals(hf), claim, 1)
            except BudgetSpent as over:
                told.append(over.is_first)
        return told

    with ThreadPoolExecutor(8) as threads:
        told = [is_first for each in threads.map(work, claims) for is_first in each]
    assert hf.queues.budget("q") == 400
    assert [known(hf, claim).spent for claim in claims] == [50] * 8  # type: ignore[union-attr]
    assert (len(told), sum(told)) == (101, 1)


def test_one_message_may_be_spent_on_by_many_threads(client: OpenClient) -> None:
    hf = client(clock=None, sweep_every=1)
    hf.queue("q", lease=600)
    for claim in (run_of(hf, 1)[0], row(hf)):
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _, claim=claim: spend_reports.spend(internals(hf), claim, 1), range(40)))
        assert known(hf, claim).spent == 40  # type: ignore[union-attr]
    assert hf.queues.budget("q") == 80


def test_asyncio_has_the_same(url: str, hf: Holdfast, clock: FakeClock, claim: Claim) -> None:
    spend_reports.spend(internals(hf), claim, 5)

    async def main() -> list[float]:
        async with AsyncHoldfast(url, clock=clock) as awaited:
            await awaited.enqueue("q", "work", budget=7)
            return [
                await awaited.queues.budget("q"),
                await awaited.queues.reset_budget("q"),
                await awaited.queues.budget("q"),
            ]

    assert asyncio.run(main()) == [5, 5, 0]
    assert claim_one(hf).message.headers == {"holdfast-budget": 7}
