"""Leases are kept while handlers work, and handlers stop before a lease ends that cannot be kept."""

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast import Holdfast, Message, State, Unavailable
from holdfast.client.client import internals
from holdfast.events import HandlerStopped, MessageLost
from holdfast.worker.context import Context
from holdfast.worker.held_leases import HeldLease
from holdfast.worker.runner import Runner
from tests.acceptance.children import Child, Family
from tests.clock import FakeClock
from tests.long import only_long
from tests.waiting import eventually, leave_time, spend, until_interrupted
from tests.worker.faults import Cable, held_up
from tests.worker.steps import PATIENCE, Calls, ended

pytestmark = [pytest.mark.on_postgres, pytest.mark.of_queues, pytest.mark.above_the_stores]

Connect = Callable[..., Holdfast]


def status_of(hf: Holdfast, message_id: str) -> Any:
    found = hf.status(message_id)
    assert found is not None
    return found


LEASE = 30.0
"""Seconds that no test takes: what has to be renewed in time is made older, and the database's clock stands still."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def stood(url: str, clock: FakeClock) -> Iterator[Holdfast]:
    """A client whose database has a clock that stands still, so that a lease ends when the test says so."""
    with Holdfast(url, clock=clock) as client:
        yield client


def leases(runner: Runner) -> list[HeldLease]:
    return [held for worker in runner.workers for held in worker.ledger.held()]


def grow_older(held: HeldLease, seconds: float) -> float:
    """For the runtime, it was last renewed so much earlier; when."""
    with held.storing:  # Nobody is just renewing it, and would take that back.
        held.renewed -= seconds
        return held.renewed


def renewed(runner: Runner) -> None:
    """Every lease is due, and is renewed."""
    before = [(held, grow_older(held, LEASE / 2)) for held in leases(runner)]
    eventually(lambda: all(held.renewed > earlier for held, earlier in before), "all are renewed")


@pytest.mark.parametrize("url", ["sqlite-apsw", pytest.param("postgres", marks=only_long)], indirect=True)
def test_handlers_of_three_leases_are_executed_once(stood: Holdfast, connect: Connect, clock: FakeClock) -> None:
    """L4: computing, waiting, awaiting, and blocking the event loop, all at once; another process's client looks.

    The one that awaits may begin only when the one that blocks its event loop has ended. Its lease is kept meanwhile.
    """
    hf, calls, finish = stood, Calls(), threading.Event()

    @hf.consumer("q1")
    def computing(message: Message) -> None:
        calls.note("computing")
        while not finish.is_set():
            pass

    @hf.consumer("q2")
    def waiting(message: Message) -> None:
        calls.note("waiting")
        assert finish.wait(PATIENCE)

    @hf.consumer("q3")
    async def awaiting(message: Message) -> None:
        calls.note("awaiting")
        await asyncio.to_thread(finish.wait, PATIENCE)

    @hf.consumer("q4")
    async def blocking(message: Message) -> None:
        calls.note("blocking")
        assert finish.wait(PATIENCE)

    queues = ["q1", "q2", "q3", "q4"]
    for queue in queues:
        hf.queue(queue, lease=LEASE)
    with hf.running() as runner:
        leave_time(0.2)  # The thread that renews leases has nothing to do yet, and must not oversleep.
        sent = [hf.enqueue(queue, 1) for queue in queues]
        eventually(lambda: all(hf.stats(queue).processing == 1 for queue in queues), "all are claimed")
        eventually(lambda: len(leases(runner)) == 4, "all are in the ledgers")
        other = connect(clock=clock, sweep_every=0)
        for _ in range(4):
            renewed(runner)
            clock.advance(0.9 * LEASE)
            assert other.claim(*queues) == []
        finish.set()
        eventually(lambda: all(hf.stats(queue).processing == 0 for queue in queues), "all have ended")
    assert sorted(calls.seen) == ["awaiting", "blocking", "computing", "waiting"]
    assert {(status_of(hf, one.id).state, status_of(hf, one.id).attempts) for one in sent} == {(State.SUCCEEDED, 1)}


def test_slow_answers_are_waited_for(hf: Holdfast, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """L4: the database does not answer for more than a third of the lease, again and again."""
    hf.queue("q", lease=LEASE, max_attempts=1)
    begun, finish, stops, asked = threading.Event(), threading.Event(), Calls(), Calls()
    hf.on(HandlerStopped, stops.note)
    extend = internals(hf).transport.messages.extend
    monkeypatch.setattr(internals(hf).transport.messages, "extend", lambda *words: (asked.note(1), extend(*words))[1])

    @hf.consumer("q")
    def handler(message: Message) -> None:
        begun.set()
        assert finish.wait(PATIENCE)

    sent = hf.enqueue("q", 1)
    with hf.running() as runner:
        assert begun.wait(PATIENCE)
        [held] = leases(runner)
        for number in range(2):
            with held_up(url):
                held.renewed -= 0.35 * LEASE  # A renewal is due.
                asked.wait(number + 1)
                held.renewed -= 0.4 * LEASE  # As if it had waited for so long.
                waiting = held.renewed
                leave_time(0.3)
                assert held.renewed == waiting, "there was no answer"
            eventually(lambda earlier=waiting: held.renewed > earlier + LEASE / 2, "it is renewed")
        finish.set()
        assert ended(hf, sent.id) is State.SUCCEEDED
    assert stops.seen == []


class Calendar:
    """What the thread that stops handlers takes for the time. It stands still, so nobody is ever too slow."""

    def __init__(self, runner: Runner) -> None:
        self.now, self.rounds = time.monotonic(), Calls()
        look = runner._watch.round

        def round(now: float) -> float | None:
            today = self.now
            found = look(today)
            self.rounds.note(today)
            return found

        runner._watch.round = round  # type: ignore[method-assign]

    def turn_to(self, now: float) -> None:
        """It is that late, and someone has looked since."""
        self.now = now
        eventually(lambda: self.rounds.seen.count(now) >= 2, "a round")


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_handler_whose_lease_cannot_be_renewed_stops_before_its_end(hf: Holdfast, url: str, kind: str) -> None:
    hf.queue("q", lease=LEASE, backoff=0)
    begun, over = Calls(), Calls()

    def plain(message: Message, context: Context) -> None:
        if context.attempt > 1:
            return
        try:
            begun.note(1)
            until_interrupted()
        finally:
            over.note(1)

    async def awaited(message: Message, context: Context) -> None:
        if context.attempt > 1:
            return
        try:
            begun.note(1)
            await asyncio.sleep(3600)
        finally:
            over.note(1)

    hf.consumer("q", name="handler")(plain if kind == "def" else awaited)
    sent = hf.enqueue("q", 1)
    with hf.running() as runner:
        begun.wait(1)
        with held_up(url):
            calendar, [held] = Calendar(runner), leases(runner)
            calendar.turn_to(held.ends - 1.2)
            assert over.seen == [], "it stops not much too early"
            calendar.now = held.ends - 0.8
            over.wait(1)  # In time: it is still that moment.
        calendar.now = time.monotonic()
        assert ended(hf, sent.id) is State.SUCCEEDED
    assert "could not be renewed" in status_of(hf, sent.id).history[0].error


def test_an_outcome_after_the_lease_is_refused_and_told(stood: Holdfast, connect: Connect, clock: FakeClock) -> None:
    """L1: cut off from the database, the handler cannot be interrupted; someone else does the work meanwhile."""
    hf = stood
    hf.queue("q", lease=LEASE, backoff=0)
    other, cable = connect(clock=clock, sweep_every=0), Cable(hf)
    begun, finish, lost = threading.Event(), threading.Event(), Calls()
    hf.on(MessageLost, lost.note)

    @hf.consumer("q")
    def handler(message: Message) -> str:
        begun.set()
        while not finish.is_set():
            try:
                spend(0.01)
            except BaseException:
                continue
        return "late"

    sent = hf.enqueue("q", 1)
    with hf.running() as runner:
        assert begun.wait(PATIENCE)
        cable.cut.set()
        for held in leases(runner):
            grow_older(held, LEASE)  # The handler is told to stop, and does not.
        clock.advance(LEASE + 1)
        [claim] = other.claim("q", wait=PATIENCE)
        other.ack(claim, "mine")
        finish.set()
        eventually(lambda: cable.tries > 10)
        cable.cut.clear()
        [event] = lost.wait(1)
    assert (event.id, event.attempt, claim.attempt) == (sent.id, 1, 2)
    status = status_of(hf, sent.id)
    assert (status.state, status.result) == (State.SUCCEEDED, "mine")


def test_its_own_earlier_attempt_is_refused_too(stood: Holdfast, clock: FakeClock) -> None:
    """L2: the same consumer of the same process has the message again, under another token."""
    hf = stood
    hf.queue("q", lease=LEASE, backoff=0)
    cable = Cable(hf, "extend")
    begun, finish, lost = Calls(), threading.Event(), Calls()
    hf.on(MessageLost, lost.note)

    @hf.consumer("q", concurrency=2)
    def handler(message: Message, context: Context) -> str:
        begun.note(context.attempt)
        while context.attempt == 1 and not finish.is_set():
            try:
                spend(0.01)
            except BaseException:
                continue
        return f"attempt {context.attempt}"

    sent = hf.enqueue("q", 1)
    cable.cut.set()
    with hf.running():
        begun.wait(1)
        clock.advance(LEASE + 1)
        assert ended(hf, sent.id) is State.SUCCEEDED
        finish.set()
        [event] = lost.wait(1)
    assert begun.seen == [1, 2]
    assert event.attempt == 1
    assert status_of(hf, sent.id).result == "attempt 2"


def test_a_handler_that_has_ended_is_not_told_to_stop(hf: Holdfast) -> None:
    """Only its outcome could not be stored in time."""
    hf.queue("q", lease=LEASE, backoff=0, max_attempts=1)
    cable, stops, begun = Cable(hf), Calls(), Calls()
    called = Calls()
    hf.on(HandlerStopped, stops.note)

    @hf.consumer("q")
    def handler(message: Message, context: Context) -> None:
        context.on_cancel(lambda: called.note(1))
        cable.cut.set()
        begun.note(context)

    hf.enqueue("q", 1)
    with hf.running() as runner:
        [context] = begun.wait(1)
        eventually(lambda: context.ended, "the handler has ended")
        calendar, [held] = Calendar(runner), leases(runner)
        calendar.turn_to(held.ends + 1)
        cable.cut.clear()
        eventually(lambda: hf.stats("q").processing == 0)
    assert (stops.seen, called.seen) == ([], [])


def test_who_cancels_one_message_stops_no_other(hf: Holdfast) -> None:
    """Two of one run, under one lease."""
    hf.queue("q", lease=LEASE)
    begun, over = Calls(), Calls()
    finish = threading.Event()

    @hf.consumer("q", concurrency=2)
    def handler(message: Message, context: Context) -> None:
        try:
            begun.note((message.body, context.claim.lease.token))
            while not finish.is_set():
                spend(0.001)
        finally:
            over.note(message.body)

    first, second = hf.enqueue_many("q", ["first", "second"])
    with hf.running() as runner:
        tokens = {token for _, token in begun.wait(2)}
        assert len(tokens) == 1, "one lease"
        assert hf.cancel(first.id)
        renewed(runner)
        assert over.wait(1) == ["first"]
        for _ in range(3):
            renewed(runner)
        leave_time(0.1)
        assert over.seen == ["first"]
        finish.set()
        assert ended(hf, second.id) is State.SUCCEEDED
    assert status_of(hf, first.id).state is State.CANCELED


def fail() -> None:
    raise SystemExit("the end of the thread")


def test_a_consumer_that_has_failed_keeps_no_lease(
    stood: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would ever settle what it holds; the others of its process go on."""
    hf = stood
    hf.queue("q", lease=LEASE, backoff=0)
    begun, finish = threading.Event(), threading.Event()

    @hf.consumer("other")
    def other(message: Message) -> None: ...

    @hf.consumer("q")
    def handler(message: Message) -> None:
        begun.set()
        finish.wait(PATIENCE)

    hf.enqueue("q", 1)
    runner = hf.running()
    runner.start()
    assert begun.wait(PATIENCE)
    worker = runner.workers[1]
    monkeypatch.setattr(worker, "_collect", fail)
    worker.wake()
    try:
        eventually(worker.ended.is_set)
        clock.advance(LEASE / 2)
        for held in leases(runner):
            grow_older(held, LEASE / 2)
        leave_time(0.3)  # A renewal that is made now makes it last for longer.
        clock.advance(LEASE / 2 + 1)
        assert [claim.attempt for claim in hf.claim("q", wait=10)] == [2]
    finally:
        finish.set()
    runner.stop()


def stop(child: Child, url: str) -> None:
    """Anywhere but in a transaction: a SQLite file would stay locked for as long as that lasts."""
    with Holdfast(url, patience=1) as other:
        while True:
            child.send(signal.SIGSTOP)
            try:
                other.enqueue("another", 1)
                return
            except Unavailable:
                child.send(signal.SIGCONT)


def test_a_process_that_was_paused_has_lost_its_message(family: Family, hf: Holdfast, url: str) -> None:
    """L1: stopped like a laptop that sleeps until its lease is over; when it goes on, its ack is refused."""
    hf.queue("q", lease=4, backoff=0)
    child = family.start("consumer", url=url, queue="q")
    sent = hf.enqueue("q", 3.5)  # Until then it has to be stopped; and it is over when the process goes on.
    child.hear()
    stop(child, url)
    [claim] = hf.claim("q", wait=PATIENCE)
    hf.ack(claim, "mine")
    child.send(signal.SIGCONT)
    child.finish()
    history = family.history()
    assert history.errors() == []
    assert [grant.attempt for grant in history.grants[sent.id]] == [1]
    assert sent.id not in history.acked
    assert [event["phase"] for event in history.events if event["op"] == "ack"][-1] == "fail"
    status = status_of(hf, sent.id)
    assert (status.state, status.result, status.attempts) == (State.SUCCEEDED, "mine", 2)


def test_a_success_stays_one_while_the_database_is_away(hf: Holdfast) -> None:
    """With a message that follows: it is stored as soon as that is possible, and is no failure until then."""
    hf.queue("q", max_attempts=1)
    cable, done = Cable(hf), threading.Event()

    @hf.consumer("q")
    def handler(message: Message, context: Context) -> str:
        context.enqueue("next", message.body)
        cable.cut.set()
        done.set()
        return "done"

    sent = hf.enqueue("q", 1)
    with hf.running():
        assert done.wait(PATIENCE)
        eventually(lambda: cable.tries > 2)
        cable.cut.clear()
        assert ended(hf, sent.id) is State.SUCCEEDED
    assert hf.stats("next").pending == 1
