"""Giving up: what a message and its queue may spend, how long it may take, how often the same thing is tried."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast import AsyncHoldfast, Claim, Holdfast, LeaseLost, State, effort
from holdfast.core.effort import Effort
from holdfast.endings import acked
from holdfast.outcomes import BudgetSpent, DeadLetter, GaveUp, Snooze
from holdfast.store import efforts
from holdfast.store.ids import new_id
from tests.clock import FakeClock
from tests.conformance.steps import OpenClient, bodies, claim_one, row, run_of

KINDS = pytest.mark.parametrize("take", [lambda hf: run_of(hf, 1)[0], row], ids=["in a lane", "as a row"])
Take = Callable[[Holdfast], Claim]

Report = Callable[[Holdfast, Claim], object]
REPORTS: dict[str, Report] = {
    "spend": lambda hf, claim: effort.spend(hf, claim, 5),
    "act": lambda hf, claim: effort.act(hf, claim, "look"),
}


def known(hf: Holdfast, claim: Claim) -> Effort | None:
    """What is stored about a message, without a look at its claim."""

    def look(tx: Any) -> Effort | None:
        found = tx.one("effort.find", group=claim.lease.group, id=claim.message.raw_id)
        return found and Effort(*found[:4])

    return hf.store.database.read(look)  # type: ignore[attr-defined,no-any-return]


# --- spending ---------------------------------------------------------------------------------------------------------


def test_what_is_spent_adds_up_for_the_message_and_for_its_queue(hf: Holdfast, claim: Claim) -> None:
    assert (effort.spend(hf, claim, 3).spent, effort.spend(hf, claim, 0.5).spent) == (3, 3.5)
    hf.enqueue("q", "more")
    assert effort.spend(hf, claim_one(hf), 1).spent == 1
    assert hf.spent("q") == 4.5
    assert hf.spent("elsewhere") == 0


@pytest.mark.parametrize("end", ["release", "nack", "snooze", "lapse"])
def test_it_stays_spent_whatever_becomes_of_the_attempt(hf: Holdfast, clock: FakeClock, claim: Claim, end: str) -> None:
    effort.spend(hf, claim, 3)
    match end:
        case "snooze":
            claim.snooze(1)
        case "lapse":
            pass  # killed
        case _:
            getattr(claim, end)()
    clock.advance(100)
    again = claim_one(hf)
    assert effort.spend(hf, again, 4).spent == 7
    assert hf.spent("q") == 7


def test_a_budget_may_be_spent_to_the_last_penny(hf: Holdfast, claim: Claim) -> None:
    hf.queue("q", message_budget=10)
    effort.spend(hf, claim, 10)
    with pytest.raises(GaveUp, match=r"gave up \(message_budget\): spent 10\.5 of 10$"):
        effort.spend(hf, claim, 0.5)
    claim.ack()
    assert not hf.is_paused("q")


def test_a_message_may_have_a_smaller_budget_of_its_own(hf: Holdfast) -> None:
    hf.queue("q", message_budget=10)
    for budget, allowed in ((4, 4), (40, 10), (None, 10)):
        hf.enqueue("q", "work", budget=budget, headers={"a": 1})
        claim = claim_one(hf)
        assert claim.message.headers["a"] == 1
        effort.spend(hf, claim, allowed)
        with pytest.raises(GaveUp, match=f"spent {allowed + 1} of {allowed}"):
            effort.spend(hf, claim, 1)
        claim.ack()


def test_many_messages_have_the_same_budget_each(hf: Holdfast) -> None:
    hf.enqueue_many("q", range(3), budget=2)
    for claim in hf.claim("q", n=3):
        effort.spend(hf, claim, 2)
        with pytest.raises(GaveUp):
            effort.spend(hf, claim, 0.1)


def test_a_budget_that_was_raised_holds_for_those_who_work_already(hf: Holdfast, rival: Holdfast) -> None:
    hf.queue("q", message_budget=10)
    [claim] = run_of(hf, 1)
    rival.queue("q", message_budget=20)
    assert effort.spend(hf, claim, 15).spent == 15


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
    effort.spend(hf, claim, 3)
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
    assert (known(hf, claim), hf.spent("q")) == (before, 3)


def test_the_members_of_a_run_are_counted_apart_and_lost_apart(hf: Holdfast) -> None:
    first, second, third = run_of(hf, 3)
    effort.spend(hf, first, 1)
    effort.spend(hf, second, 2)
    first.ack()
    with pytest.raises(LeaseLost):
        effort.spend(hf, first, 10)
    assert effort.spend(hf, second, 2).spent == 4
    assert known(hf, third) is None
    assert hf.spent("q") == 5


def test_a_lost_claim_gives_up_nothing(hf: Holdfast, claim: Claim) -> None:
    """The queue of one who has nothing to say any more is not paused."""
    hf.queue("q", budget=1)
    claim.release()
    with pytest.raises(LeaseLost):
        effort.spend(hf, claim, 100)
    assert not hf.is_paused("q")


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_whose_answer_was_lost_counts_once(hf: Holdfast, claim: Claim, report: str) -> None:
    hf.queue("q", budget=4)
    [settlement], same = acked([claim]), new_id()
    verbs = {
        "spend": lambda tx, one: efforts.spend(tx, hf.store.efforts._insert, settlement, 5, one),
        "act": lambda tx, one: efforts.act(tx, settlement, "look", one),
    }
    write = hf.store.database.write  # type: ignore[attr-defined]
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
    effort.spend(hf, first, 10)
    assert not hf.is_paused("q")
    with pytest.raises(BudgetSpent, match=r"the queue spent 11 of 10: 'q' is paused\. Allow more") as over:
        effort.spend(hf, second, 1)
    assert (over.value.is_first, over.value.delay(0), rival.is_paused("q")) == (True, 0, True)
    for claim in (second, third):
        with pytest.raises(BudgetSpent) as later:
            effort.spend(hf, claim, 1)
        assert not later.value.is_first
    hf.release([first, second, third])
    assert (rival.claim("q", n=3), hf.count_dead_letters(), hf.spent("q")) == ([], 0, 13)
    [notice] = hf.notices()
    assert (notice.kind, notice.about, notice.queue, notice.repeats) == ("budget", "q", "q", 0)
    assert notice.error == str(over.value)


def test_a_spent_budget_begins_anew(hf: Holdfast) -> None:
    hf.queue("q", budget=10)
    hf.enqueue("q", "work")
    claim = claim_one(hf)
    with pytest.raises(BudgetSpent):
        effort.spend(hf, claim, 12)
    claim.release()
    assert hf.reset_budget("q") == 12
    assert (hf.spent("q"), hf.is_paused("q"), hf.claim("q")) == (0, True, [])
    hf.resume("q")
    again = claim_one(hf)
    assert again.attempt == 1
    assert effort.spend(hf, again, 9).spent == 21
    with pytest.raises(BudgetSpent) as over:
        effort.spend(hf, again, 9)
    assert over.value.is_first
    [record] = [line for line in hf.audit() if line.act == "reset_budget"]
    assert (record.actor, record.queue, record.about, record.count) == (hf.actor, "q", {"spent": 12}, 1)


def test_who_resumes_without_more_money_is_paused_again_and_told_again(hf: Holdfast, claim: Claim) -> None:
    hf.queue("q", budget=10)
    for _ in range(2):
        with pytest.raises(BudgetSpent) as over:
            effort.spend(hf, claim, 11)
        assert over.value.is_first
        hf.resume("q")
    hf.queue("q", budget=100)
    assert effort.spend(hf, claim, 11).spent == 33
    assert not hf.is_paused("q")


def test_the_queues_budget_goes_before_the_messages_own(hf: Holdfast, claim: Claim) -> None:
    """Whoever answers for the queue hears of it; the message gives up when it is next worked on."""
    hf.queue("q", budget=10, message_budget=10)
    with pytest.raises(BudgetSpent):
        effort.spend(hf, claim, 11)
    hf.reset_budget("q")
    with pytest.raises(GaveUp):
        effort.spend(hf, claim, 0)


def test_sums_are_exact_and_one_alone_pauses_however_many_spend(client: OpenClient) -> None:
    hf = client(clock=None, sweep_every=1)
    hf.queue("q", budget=300, lease=600)
    claims = run_of(hf, 4) + [row(hf) for _ in range(4)]
    together = threading.Barrier(8)

    def work(claim: Claim) -> list[bool]:
        together.wait(30)
        told = []
        for _ in range(50):
            try:
                effort.spend(hf, claim, 1)
            except BudgetSpent as over:
                told.append(over.is_first)
        return told

    with ThreadPoolExecutor(8) as threads:
        told = [is_first for each in threads.map(work, claims) for is_first in each]
    assert hf.spent("q") == 400
    assert [known(hf, claim).spent for claim in claims] == [50] * 8  # type: ignore[union-attr]
    assert (len(told), sum(told)) == (100, 1)


def test_one_message_may_be_spent_on_by_many_threads(client: OpenClient) -> None:
    hf = client(clock=None, sweep_every=1)
    hf.queue("q", lease=600)
    for claim in (run_of(hf, 1)[0], row(hf)):
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _, claim=claim: effort.spend(hf, claim, 1), range(40)))
        assert known(hf, claim).spent == 40  # type: ignore[union-attr]
    assert hf.spent("q") == 80


def test_asyncio_has_the_same(url: str, hf: Holdfast, claim: Claim) -> None:
    effort.spend(hf, claim, 5)

    async def main() -> list[float]:
        async with AsyncHoldfast(url) as awaited:
            await awaited.enqueue("q", "work", budget=7)
            return [await awaited.spent("q"), await awaited.reset_budget("q"), await awaited.spent("q")]

    assert asyncio.run(main()) == [5, 5, 0]
    assert claim_one(hf).message.headers == {"holdfast-budget": 7}


# --- time -------------------------------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("end", ["nack", "release", "lapse"])
def test_the_time_of_all_attempts_counts_from_the_first_claim(
    hf: Holdfast, clock: FakeClock, take: Take, end: str
) -> None:
    hf.queue("q", max_time=100, backoff=None, lease=40)
    claim = take(hf)
    [begun] = effort.begin(hf, [claim])
    assert begun == Effort(clock())
    for left in (60, 20):
        clock.advance(40)
        if end != "lapse":
            getattr(claim, end)()
        claim = claim_one(hf)
        assert effort.begin(hf, [claim]) == [begun]
        effort.check(claim, begun)
        assert effort.time_left(begun, claim.channel.spec, clock()) == left
    effort.act(hf, claim, "look")
    clock.advance(20)
    for report in REPORTS.values():
        with pytest.raises(GaveUp, match=r"max_time.*not done 100 s after its first claim; 100 s are allowed in all"):
            report(hf, claim)
    clock.advance(20)
    if end != "lapse":
        getattr(claim, end)()
    claim = claim_one(hf)
    with pytest.raises(GaveUp, match="not done 120 s"):
        effort.check(claim, effort.begin(hf, [claim])[0])


def test_many_begin_at_once_and_those_that_are_lost_do_not(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_time=100)
    hf.queue("p")
    single, members = row(hf), run_of(hf, 3)
    hf.enqueue("p", "without a limit")
    free = claim_one(hf, "p")
    members[1].ack()
    begun = effort.begin(hf, [members[0], free, members[1], single, members[2]])
    since = Effort(clock())
    assert begun == [since, None, None, since, since]
    assert [known(hf, claim) for claim in (free, members[1])] == [None, None]
    assert effort.begin(hf, []) == []


def test_a_report_begins_too_and_where_time_is_free_it_is_over_never(
    hf: Holdfast, clock: FakeClock, claim: Claim
) -> None:
    clock.advance(10)
    begun = effort.spend(hf, claim, 1)
    assert begun.started_at == claim.lease.since < clock()
    clock.advance(1e9)
    assert effort.time_left(begun, claim.channel.spec, clock()) is None
    effort.act(hf, claim, "look")


def test_earlier_attempts_may_have_spent_it_all(hf: Holdfast, claim: Claim) -> None:
    """Killed after the report that was too much, before it could give up."""
    hf.queue("q", message_budget=10, max_time=100, max_repeats=2)
    effort.act(hf, claim, "look")
    with pytest.raises(GaveUp):
        effort.spend(hf, claim, 11)
    claim.release()
    again = claim_one(hf)
    [begun] = effort.begin(hf, [again])
    with pytest.raises(GaveUp, match="spent 11 of 10"):
        effort.check(again, begun)


# --- repetition -------------------------------------------------------------------------------------------------------


def test_the_same_thing_again_and_again_is_given_up(hf: Holdfast, claim: Claim) -> None:
    hf.queue("q", max_repeats=3)
    streaks = [effort.act(hf, claim, text).repeats for text in ("Open page 1", "open  page 2", "save", "open page 3")]
    assert streaks == [1, 2, 1, 1]
    effort.act(hf, claim, "open page 4")
    with pytest.raises(GaveUp, match=r"gave up \(max_repeats\): did the same thing 3 times in a row: open page #$"):
        effort.act(hf, claim, "open page 5")


def test_spending_in_between_is_no_other_action(hf: Holdfast, claim: Claim) -> None:
    hf.queue("q", max_repeats=2)
    effort.act(hf, claim, "look")
    assert effort.spend(hf, claim, 5).repeats == 1
    with pytest.raises(GaveUp):
        effort.act(hf, claim, "look")


@pytest.mark.parametrize("end", ["nack", "release", "lapse"])
def test_a_retry_may_do_what_the_attempt_before_it_did(hf: Holdfast, clock: FakeClock, claim: Claim, end: str) -> None:
    hf.queue("q", max_repeats=2)
    for _ in range(3):
        assert effort.act(hf, claim, "look").repeats == 1
        if end != "lapse":
            getattr(claim, end)()
        clock.advance(100)
        claim = claim_one(hf)


# --- and then ---------------------------------------------------------------------------------------------------------


@KINDS
def test_a_replay_begins_anew(hf: Holdfast, clock: FakeClock, take: Take) -> None:
    hf.queue("q", message_budget=10, max_time=100, max_repeats=2)
    claim = take(hf)
    effort.begin(hf, [claim])
    with pytest.raises(GaveUp) as found:
        effort.spend(hf, claim, 11)
    claim.dead_letter(found.value)
    clock.advance(500)
    [dead] = hf.dead_letters("q")
    assert "spent 11 of 10" in dead.error
    hf.replay(dead.id)
    again = claim_one(hf)
    [begun] = effort.begin(hf, [again])
    assert begun == Effort(clock())
    assert effort.spend(hf, again, 10).spent == 10
    assert hf.spent("q") == 21


ENDS: dict[str, Callable[[Holdfast, Claim], object]] = {
    "ack": lambda hf, claim: claim.ack(),
    "death": lambda hf, claim: claim.dead_letter("no"),
    "cancel": lambda hf, claim: hf.cancel(claim.message.id),
    "purge": lambda hf, claim: (claim.release(), hf.purge("q")),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("history", [0, 3600])
def test_it_is_forgotten_with_the_message(
    hf: Holdfast, clock: FakeClock, claim: Claim, end: str, history: float
) -> None:
    hf.queue("q", history=history)
    effort.spend(hf, claim, 5)
    for _ in range(5):
        clock.advance(20)
        claim.extend(30)
        hf.sweep("q")
    assert known(hf, claim)
    ENDS[end](hf, claim)
    for _ in range(3):
        clock.advance(max(history, 60))
        hf.sweep("q")
    assert known(hf, claim) is None
    assert hf.spent("q") == 5
    assert hf.sweep("q") == 0


def test_it_is_kept_as_long_as_its_message_waits_or_is_worked_on(hf: Holdfast, clock: FakeClock) -> None:
    """More of them than a sweep looks at: those that stay do not hide those that can go."""
    hf.queue("q", history=0, lease="30d")
    stay = run_of(hf, 150)
    for claim in stay:
        effort.spend(hf, claim, 1)
    hf.snooze(stay[::2], "10d")
    clock.advance(1)
    hf.enqueue("q", "goes")
    goes = claim_one(hf)
    effort.spend(hf, goes, 1)
    goes.ack()
    clock.advance(61)
    for _ in range(3):
        hf.sweep("q")
    assert known(hf, goes) is None
    assert all(known(hf, claim) == Effort(claim.lease.since, 1) for claim in stay)


def test_a_message_that_gave_up_is_dead_with_a_reason_for_its_owner(hf: Holdfast) -> None:
    hf.owner("mia")
    hf.queue("q", owner="mia", max_repeats=2)
    [claim] = run_of(hf, 1)
    effort.act(hf, claim, "look")
    with pytest.raises(GaveUp) as found:
        effort.act(hf, claim, "Look")
    claim.dead_letter(str(found.value))
    assert hf.status(claim.message.id).state is State.DEAD
    [notice] = hf.notices("mia")
    assert notice.error == "gave up (max_repeats): did the same thing 2 times in a row: look"
