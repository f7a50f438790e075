"""A handler's time: one attempt's, all attempts', and what it may spend. Who does not stop when told to is given up."""

import asyncio
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from holdfast import Holdfast, Message, State
from holdfast.events import HandlerStopped
from holdfast.worker import lease_renewal
from holdfast.worker.context import Context
from holdfast.worker.runner import Runner
from holdfast.worker.stop_reasons import Interrupted, Stop
from tests.tracing import not_traced
from tests.waiting import eventually, leave_time, spend, until_interrupted
from tests.worker.steps import PATIENCE, Calls, ended, let_time_pass

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]


def status_of(hf: Holdfast, message_id: str) -> Any:
    found = hf.status(message_id)
    assert found is not None
    return found


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_handler_is_stopped_at_its_timeout(hf: Holdfast, kind: str) -> None:
    """Not a moment too early, which is measured from its begin; half a minute is left for a handler to get there."""
    hf.queue("q", max_attempts=1)
    begun, over, told = Calls(), Calls(), Calls()
    hf.on(HandlerStopped, told.note)

    def plain(message: Message) -> None:
        try:
            begun.note(1)
            until_interrupted()
        finally:
            over.note(time.monotonic())

    async def awaited(message: Message) -> None:
        try:
            begun.note(1)
            await asyncio.sleep(3600)
        finally:
            over.note(time.monotonic())

    hf.consumer("q", name="handler", timeout=30)(plain if kind == "def" else awaited)
    sent = hf.enqueue("q", 1)
    with hf.running() as runner:
        begun.wait(1)
        [context] = runner.workers[0].running()
        context.started = ends = time.monotonic() - 29.7
        [stopped] = over.wait(1)
        assert stopped >= ends + 30
        assert ended(hf, sent.id) is State.DEAD
    assert hf.dead_letters.list("q")[0].error == "timed out after 30 s"
    assert [event.reason for event in told.seen] == ["timed out"]


def test_its_neighbours_in_the_run_are_not_touched(hf: Holdfast) -> None:
    hf.queue("q", backoff=3600)
    calls = Calls()

    begun = threading.Event()

    @hf.consumer("q", timeout=3600)
    def handler(message: Message, context: Context) -> None:
        calls.note((message.body, context.attempt))
        if message.body == "slow":
            begun.set()
            until_interrupted()

    hf.enqueue_many("q", range(500))
    receipts = hf.enqueue_many("q", [*range(20), "slow", *range(20, 40)])
    with hf.running() as runner:
        assert begun.wait(PATIENCE)
        let_time_pass(runner)
        eventually(lambda: hf.stats("q").waiting == 1 and hf.stats("q").pending + hf.stats("q").processing == 0)
    assert {(status_of(hf, one.id).state, status_of(hf, one.id).attempts) for one in receipts[:20] + receipts[21:]} == {
        (State.SUCCEEDED, 1)
    }
    assert (status_of(hf, receipts[20].id).state, status_of(hf, receipts[20].id).attempts) == (State.PENDING, 1)
    assert sorted(calls.seen, key=str) == sorted([(body, 1) for body in [*range(500), *range(40), "slow"]], key=str)


def test_who_notices_by_itself_may_still_succeed(hf: Holdfast) -> None:
    begun = threading.Event()

    @hf.consumer("q", timeout=3600)
    def handler(message: Message, context: Context) -> str:
        noticed = threading.Event()
        context.on_cancel(noticed.set)
        try:
            begun.set()
            until_interrupted()
        except BaseException:
            assert context.cancelled
            assert noticed.wait(PATIENCE)
            return "half of it"

    sent = hf.enqueue("q", 1)
    with hf.running() as runner:
        assert begun.wait(PATIENCE)
        let_time_pass(runner)
        assert ended(hf, sent.id) is State.SUCCEEDED
    assert status_of(hf, sent.id).result == "half of it"


@pytest.mark.parametrize("kind", ["swallows", "sleeps", "swallows, async"])
def test_a_handler_that_does_not_stop_is_given_up(hf: Holdfast, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Another hand takes over; the late outcome does not count."""
    monkeypatch.setattr(lease_renewal, "STUBBORN", 0.3)
    hf.queue("q", max_attempts=1)
    begun, leave, left, others = threading.Event(), threading.Event(), threading.Event(), Calls()

    def stubborn(message: Message) -> str:
        if message.body == "other":
            others.note(message.body)
            return "done"
        while not leave.is_set():
            with suppress(Interrupted):
                begun.set()
                if kind == "sleeps":
                    leave.wait(PATIENCE)  # Nothing reaches it in there.
                spend(0.001)
        left.set()
        return "too late"

    async def stubborn_too(message: Message) -> str:
        if message.body == "other":
            others.note(message.body)
            return "done"
        while not leave.is_set():
            with suppress(asyncio.CancelledError):
                begun.set()
                await asyncio.sleep(0.01)
        left.set()
        return "too late"

    hf.consumer("q", name="handler", timeout=3600)(stubborn_too if "async" in kind else stubborn)
    sent = hf.enqueue("q", "stubborn")
    with hf.running() as runner:
        [worker] = runner.workers
        assert begun.wait(PATIENCE)
        [hand] = worker.hands
        let_time_pass(runner)
        assert ended(hf, sent.id) is State.DEAD
        hf.enqueue("q", "other")
        others.wait(1)
        assert not left.is_set(), "another hand has done it"
        leave.set()
        assert left.wait(PATIENCE)
        hand.join(PATIENCE)  # type: ignore[attr-defined]
        hf.enqueue("q", "other")
        others.wait(2)
    assert (worker.failed, worker.outbox.handled) == (False, 3)
    status = status_of(hf, sent.id)
    assert (status.state, status.result) == (State.DEAD, None)
    assert status.history[0].error.startswith("timed out")


def test_a_callback_that_fails_or_hangs_keeps_nobody_from_being_stopped(hf: Holdfast) -> None:
    hf.queue("q", max_attempts=1)
    calls, begun, over = Calls(), Calls(), threading.Event()

    @hf.consumer("q", timeout=3600, concurrency=2)
    def handler(message: Message, context: Context) -> None:
        if message.body == "fails":
            context.on_cancel(lambda: 1 / 0)
        else:
            context.on_cancel(over.wait)
        context.on_cancel(lambda: calls.note(message.body))
        begun.note(1)
        until_interrupted()

    sent = hf.enqueue_many("q", ["fails", "hangs"])
    with hf.running() as runner:
        begun.wait(2)
        let_time_pass(runner)
        for receipt in sent:
            assert ended(hf, receipt.id) is State.DEAD
        again = hf.enqueue("q", "fails")
        begun.wait(3)
        let_time_pass(runner)
        assert ended(hf, again.id) is State.DEAD
        over.set()
        assert sorted(calls.wait(3)) == ["fails", "fails", "hangs"]


def test_a_cancellation_of_its_own_is_a_failure_like_any_other(hf: Holdfast) -> None:
    """A handler that awaits a task which somebody cancels, or cancels itself, does not take its hand along."""
    hf.queue("q", max_attempts=2, backoff=0)
    calls = Calls()

    @hf.consumer("q")
    async def handler(message: Message) -> None:
        calls.note(message.body)
        if message.body == "task":
            task = asyncio.create_task(asyncio.sleep(3600))
            asyncio.get_running_loop().call_soon(task.cancel)
            await task
        if message.body == "raise":
            raise asyncio.CancelledError

    bad = hf.enqueue_many("q", ["task", "raise"])
    good = hf.enqueue("q", "good")
    with hf.running():
        for receipt in bad:
            assert ended(hf, receipt.id) is State.DEAD
        assert ended(hf, good.id) is State.SUCCEEDED
    assert len(calls.seen) == 5
    assert "CancelledError" in hf.dead_letters.list("q")[0].error


def begin(hf: Holdfast, handler: Any) -> Runner:
    """Runs it in one hand, whose lock a test may hold for a while although the hand's own methods need it."""
    hf.consumer("q", name="handler")(handler)
    runner = hf.running()
    runner.start()
    eventually(lambda: runner.workers[0].hands, "its thread has begun")
    runner.workers[0].hands[0].lock = threading.RLock()  # type: ignore[assignment]
    return runner


def test_a_stop_at_the_very_moment_of_the_end_loses_no_outcome(hf: Holdfast) -> None:
    """The handler has returned, and its hand is about to let go of it: the interrupt arrives just then."""
    hf.queue("q", max_attempts=1)
    begun, may_end = Calls(), threading.Event()

    def handler(message: Message, context: Context) -> None:
        begun.note(context)
        assert may_end.wait(PATIENCE)

    runner = begin(hf, handler)
    sent = hf.enqueue("q", 1)
    [context] = begun.wait(1)
    with context.hand.lock:
        may_end.set()
        leave_time(0.1)  # The hand waits for its lock by now.
        context.halt(Stop.LEASE)
    assert ended(hf, sent.id) in (State.SUCCEEDED, State.DEAD)
    assert ended(hf, hf.enqueue("q", 2).id) is State.SUCCEEDED, "the hand works on"
    assert runner.stop()


def test_a_stop_just_before_the_begin_is_not_overheard(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hand has looked whether it may begin, and the stop comes before it can be interrupted."""
    hf.queue("q", backoff=0)
    begun = Calls()

    def handler(message: Message, context: Context) -> None:
        begun.note((context.attempt, context.cancelled))

    runner = begin(hf, handler)
    hand = runner.workers[0].hands[0]
    now, begin_now = threading.Event(), hand.begin

    def begin_late(context: Context, moment: float) -> None:
        if not now.is_set():
            context.halt(Stop.LEASE)
            now.set()
        begin_now(context, moment)

    monkeypatch.setattr(hand, "begin", begin_late)
    sent = hf.enqueue("q", 1)
    assert ended(hf, sent.id) is State.SUCCEEDED
    assert begun.seen == [(2, False)]
    assert runner.stop()


# --- all attempts together --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_the_time_of_all_attempts_together_is_limited(hf: Holdfast, kind: str) -> None:
    """What the first attempt has taken is not there for the second, which begins with the rest."""
    hf.queue("q", max_time=60, max_attempts=100, backoff=0)
    calls, contexts = Calls(), Calls()

    def plain(message: Message, context: Context) -> None:
        calls.note(context.attempt)
        if context.attempt == 1:
            spend(0.2)
            raise RuntimeError("first")
        contexts.note(context)
        until_interrupted()

    async def awaited(message: Message, context: Context) -> None:
        calls.note(context.attempt)
        if context.attempt == 1:
            await asyncio.sleep(0.2)
            raise RuntimeError("first")
        contexts.note(context)
        await asyncio.sleep(3600)

    hf.consumer("q", name="handler")(plain if kind == "def" else awaited)
    sent = hf.enqueue("q", 1)
    with hf.running():
        [context] = contexts.wait(1)
        assert 0 < context.time_left <= 60 - 0.2
        ends = time.monotonic() + 0.3
        context.time_left = ends - context.claimed  # As if the first one had taken nearly all of it.
        assert ended(hf, sent.id) is State.DEAD
        assert time.monotonic() >= ends
    [letter] = hf.dead_letters.list("q")
    assert calls.seen == [1, 2]
    assert letter.error.startswith("gave up (max_time)")
    assert letter.attempts == 2


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_who_spends_more_than_the_message_may_is_dead(hf: Holdfast, kind: str) -> None:
    hf.queue("q", message_budget=10, backoff=0)
    spent = Calls()

    def plain(message: Message, context: Context) -> None:
        for _ in range(3):
            spent.note(context.spend(4))

    async def awaited(message: Message, context: Any) -> None:
        for _ in range(3):
            spent.note(await context.spend(4))

    hf.consumer("q", name="handler")(plain if kind == "def" else awaited)
    sent = hf.enqueue("q", 1)
    with hf.running():
        assert ended(hf, sent.id) is State.DEAD
    assert spent.seen == [4, 8]
    [letter] = hf.dead_letters.list("q")
    assert letter.error.startswith("gave up (message_budget)")
    assert letter.attempts == 1


def test_who_spends_more_than_the_queue_may_pauses_it_and_its_owner_is_told_once(hf: Holdfast) -> None:
    hf.owner("anna")
    hf.queue("q", budget=10, owner="anna")

    @hf.consumer("q", concurrency=3)
    def handler(message: Message, context: Context) -> None:
        context.spend(4)

    receipts = hf.enqueue_many("q", range(6))
    with hf.running():
        eventually(lambda: hf.queues.is_paused("q") and hf.stats("q").processing == 0)
        notices = eventually(lambda: hf.notices.list("anna"))
    states = [status_of(hf, one.id).state for one in receipts]
    assert states.count(State.SUCCEEDED) == 2
    waiting = [one for one in receipts if status_of(hf, one.id).state in (State.PENDING, State.ENQUEUED)]
    assert len(waiting) == 4, "what was over the budget is back; SQS may have it already"
    assert {status_of(hf, one.id).attempts for one in waiting} == {0}
    assert [notice.kind for notice in notices] == ["budget"]


def test_the_same_again_and_again_is_given_up(hf: Holdfast) -> None:
    hf.queue("q", max_repeats=3)
    done = Calls()

    @hf.consumer("q")
    def handler(message: Message, context: Context) -> None:
        while True:
            context.action("look at the same page")
            done.note(1)

    sent = hf.enqueue("q", 1)
    with hf.running():
        assert ended(hf, sent.id) is State.DEAD
    assert len(done.seen) == 2
    assert "max_repeats" in hf.dead_letters.list("q")[0].error


def test_a_session_is_there_for_the_next_attempt(hf: Holdfast) -> None:
    hf.queue("q", backoff=0)
    seen = Calls()

    @hf.consumer("q")
    def handler(message: Message, context: Context) -> None:
        seen.note(context.session)
        if context.session is None:
            context.session = "conversation 7"
            raise RuntimeError("cut off")

    sent = hf.enqueue("q", 1)
    with hf.running():
        assert ended(hf, sent.id) is State.SUCCEEDED
    assert seen.seen == [None, "conversation 7"]


# --- in the middle of something ---------------------------------------------------------------------------------------


def test_a_stop_in_the_middle_of_a_call_hurts_nobody_else(hf: Holdfast) -> None:
    """Handlers that only enqueue are interrupted in there: whoever comes next can still ask the database."""
    count = 150
    hf.queue("q", max_attempts=1)
    calls = Calls()

    @hf.consumer("q", timeout=0.03, concurrency=3)
    def handler(message: Message) -> None:
        not_traced()
        while True:
            hf.enqueue("other", calls.note(message.body))

    hf.enqueue_many("q", range(count))
    with hf.running():
        eventually(lambda: hf.stats("q").dead == count, "all of them were stopped")
        assert len(set(calls.seen)) > count / 2, "hardly any was stopped before its first step"
        hf.enqueue("other", "still there")
    assert hf.stats("other").pending <= len(calls.seen) + 1
