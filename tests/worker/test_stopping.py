"""Stopping: nothing new is begun, what was not begun goes back unspent, what runs may finish."""

import asyncio
import signal
import threading
import time
from typing import Any

import pytest

from holdfast import Holdfast, Message, State
from holdfast.worker import worker as workers
from holdfast.worker.context import Context
from holdfast.worker.runner import Runner
from holdfast.worker.signals import Signals
from tests.acceptance.children import Family
from tests.clock import FakeClock
from tests.waiting import eventually, until_interrupted
from tests.worker.steps import PATIENCE, Calls, ended

pytestmark = [pytest.mark.on_postgres, pytest.mark.of_queues, pytest.mark.above_the_stores]

WAITING = (State.PENDING, State.ENQUEUED)
"""What is handed back; SQS may have it already."""


class Gate:
    """A handler that waits at the message "stop"; others pass."""

    def __init__(self) -> None:
        self.entered, self.open = threading.Event(), threading.Event()
        self.passed = Calls()

    def __call__(self, message: Message) -> None:
        if message.body == "stop":
            self.entered.set()
            assert self.open.wait(PATIENCE)
        self.passed.note(message.body)


def status_of(hf: Holdfast, message_id: str) -> Any:
    found = hf.status(message_id)
    assert found is not None
    return found


def test_what_was_claimed_and_not_begun_is_handed_back_unspent(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """L10: one is being worked on, 49 lie ready behind it; they can be claimed at once, with no attempt spent."""
    monkeypatch.setattr(workers, "HOARDED", 3600.0)
    monkeypatch.setattr("holdfast.worker.fetch.Fetching._ahead", lambda fetching: 49)  # However slow it is here.
    gate = Gate()
    hf.consumer("q", name="handler")(gate)
    receipts = hf.enqueue_many("q", ["stop", *range(49)])
    runner = hf.running()
    runner.start()
    assert gate.entered.wait(PATIENCE)
    eventually(lambda: len(runner.workers[0].shelf) == 49, "they lie ready")
    runner.ask_to_stop(PATIENCE)
    eventually(lambda: hf.stats("q").pending == 49, "they are handed back")
    assert {status_of(hf, receipt.id).attempts for receipt in receipts[1:]} == {0}
    assert {claim.attempt for claim in hf.claim("q", n=49, wait=PATIENCE)} == {1}
    gate.open.set()
    assert runner.stop()
    assert status_of(hf, receipts[0].id).state is State.SUCCEEDED
    assert gate.passed.seen == ["stop"]


def test_nothing_new_is_claimed(hf: Holdfast) -> None:
    gate = Gate()
    hf.consumer("q", name="handler")(gate)
    hf.enqueue("q", "stop")
    runner = hf.running()
    runner.start()
    assert gate.entered.wait(PATIENCE)
    late = hf.enqueue("q", "late")
    runner.ask_to_stop(PATIENCE)
    gate.open.set()
    assert runner.stop()
    assert status_of(hf, late.id).attempts == 0
    assert gate.passed.seen == ["stop"]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_leases_are_renewed_until_the_last_handler_has_ended(url: str, kind: str) -> None:
    """L5: a handler of more than two leases is told to stop in its first one; nobody else can have it meanwhile.

    The leases are long and their time passes at a word, by the clock of the database and in the ledger.
    """
    lease, clock = 30, FakeClock()
    started, may_end = threading.Event(), threading.Event()

    def plain(message: Message) -> str:
        started.set()
        assert may_end.wait(PATIENCE)
        return "in peace"

    async def awaited(message: Message) -> str:
        started.set()
        assert await asyncio.to_thread(may_end.wait, PATIENCE)
        return "in peace"

    with Holdfast(url, clock=clock, sweep_every=0) as hf:
        hf.queue("q", lease=lease, max_attempts=1)
        hf.consumer("q", name="handler")(plain if kind == "def" else awaited)
        sent = hf.enqueue("q", 1)
        runner = hf.running()
        runner.start()
        assert started.wait(PATIENCE)
        runner.ask_to_stop(3600)
        [held] = runner.workers[0].ledger.held()
        for _ in range(3):
            with held.storing:
                held.renewed = earlier = held.renewed - lease / 2
            eventually(lambda earlier=earlier: held.renewed > earlier, "it is renewed")
            clock.advance(0.9 * lease)
            assert hf.claim("q") == []
        may_end.set()
        assert runner.stop(PATIENCE)
        status = status_of(hf, sent.id)
    assert (status.state, status.result, status.attempts) == (State.SUCCEEDED, "in peace", 1)


def test_after_the_grace_a_handler_is_interrupted_and_its_attempt_has_failed(
    hf: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.runner.STUBBORN", PATIENCE)  # They stop at once, or as soon as they can.
    hf.queue("q", backoff=3600)
    calls = Calls()

    @hf.consumer("q", name="plain")
    def spin(message: Message) -> None:
        calls.note("def")
        until_interrupted()

    @hf.consumer("aq", name="awaited")
    async def wait(message: Message) -> None:
        calls.note("async def")
        await asyncio.sleep(3600)

    sent = [hf.enqueue("q", 1), hf.enqueue("aq", 1)]
    runner = hf.running()
    runner.start()
    calls.wait(2)
    assert runner.stop(grace=0.2)
    for receipt in sent:
        status = status_of(hf, receipt.id)
        assert status.state in WAITING
        assert status.attempts == 1
        assert "had to stop" in status.history[0].error
        assert status.due_at_us < time.time() * 1_000_000 + 60_000_000, "another worker may begin at once"


def test_asking_again_shortens_the_grace_and_never_lengthens_it(hf: Holdfast) -> None:
    started = threading.Event()

    @hf.consumer("q")
    def spin(message: Message) -> None:
        started.set()
        until_interrupted()

    hf.enqueue("q", 1)
    runner = hf.running()
    runner.start()
    assert started.wait(PATIENCE)
    runner.ask_to_stop(0.3)
    runner.ask_to_stop(3600)
    assert runner.wait(PATIENCE)
    runner.stop()


def test_a_handler_can_stop_everything(hf: Holdfast) -> None:
    seen = Calls()

    @hf.consumer("q")
    def last(message: Message) -> None:
        seen.note(message.body)
        hf.stop()

    sent = hf.enqueue("q", 1)
    hf.run()
    assert seen.seen == [1]
    assert ended(hf, sent.id) is State.SUCCEEDED


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_a_signal_lets_handlers_finish(family: Family, hf: Holdfast, url: str, number: signal.Signals) -> None:
    """L5, L10: the handler takes longer than its lease; its ack is stored, and the process has ended well."""
    hf.queue("q", lease=4, max_attempts=1)
    child = family.start("consumer", url=url, queue="q")
    sent = hf.enqueue("q", 4.2)
    assert child.hear() == ["started", 4.2]
    child.send(number)
    late = hf.enqueue("q", "late")
    assert child.process.wait(PATIENCE) == 0
    assert status_of(hf, sent.id).state is State.SUCCEEDED
    assert status_of(hf, late.id).attempts == 0
    history = family.history()
    assert (history.errors(), history.acked) == ([], {sent.id})


def test_a_second_signal_means_now(family: Family, hf: Holdfast, url: str) -> None:
    hf.queue("q", backoff=None)
    child = family.start("consumer", url=url, queue="q", grace=3600)
    sent = hf.enqueue("q", "spin")
    child.hear()
    child.send(signal.SIGTERM)
    child.send(signal.SIGINT)  # Another one: two of a kind that come together are one, for the kernel.
    assert child.process.wait(PATIENCE) == 0
    status = status_of(hf, sent.id)
    assert status.state in WAITING
    assert status.attempts == 1
    assert "had to stop" in status.history[0].error


def test_a_second_signal_does_not_wait_for_a_handler_that_cannot_be_interrupted(
    family: Family, hf: Holdfast, url: str
) -> None:
    child = family.start("consumer", url=url, queue="q", grace=3600)
    hf.enqueue("q", 600.0)
    child.hear()
    child.send(signal.SIGTERM)
    child.send(signal.SIGINT)
    assert child.process.wait(PATIENCE) == 0


def test_a_signal_before_the_first_claim_counts(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were started and stopped by a rolling restart that changes its mind."""
    seen, heard, ask = Calls(), threading.Event(), Runner.ask_to_stop

    def ask_and_tell(runner: Runner, grace: float) -> None:
        ask(runner, grace)
        heard.set()

    monkeypatch.setattr(Runner, "ask_to_stop", ask_and_tell)

    def terminate() -> None:
        signal.raise_signal(signal.SIGTERM)
        assert heard.wait(PATIENCE)  # Another thread hears it.

    @hf.consumer("q", preflight=terminate)
    def handler(message: Message, context: Context) -> None:
        seen.note(message.body)

    hf.enqueue("q", 1)
    hf.run()
    assert seen.seen == []


@pytest.mark.timeout(60)
def test_a_signal_may_interrupt_one_who_holds_a_lock() -> None:
    """What it leads to needs locks itself, and the same thread cannot have one twice."""
    lock, heard = threading.Lock(), threading.Event()

    def on_signal(count: int) -> None:
        with lock:
            heard.set()

    with Signals(on_signal):
        with lock:
            signal.raise_signal(signal.SIGTERM)
        assert heard.wait(PATIENCE)
