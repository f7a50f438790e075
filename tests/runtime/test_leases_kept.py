"""Leases are kept while handlers work, and handlers stop before a lease ends that cannot be kept."""

import asyncio
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Holdfast, Message, State, Unavailable
from holdfast.events import HandlerStopped, MessageLost
from holdfast.runtime.context import Context
from tests.acceptance.children import Child, Family
from tests.runtime.faults import Cable, held_up
from tests.runtime.steps import PATIENCE, Calls, ended, until

Connect = Callable[..., Holdfast]


def status_of(hf: Holdfast, message_id: str) -> Any:
    found = hf.status(message_id)
    assert found is not None
    return found


def spin(seconds: float) -> None:
    """Never lets go of the interpreter by itself."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_handlers_of_three_leases_are_executed_once(hf: Holdfast, connect: Connect) -> None:
    """L4: computing, sleeping, awaiting, and blocking the event loop, all at once; another process's client looks."""
    calls = Calls()

    @hf.consumer("q1")
    def computing(message: Message) -> None:
        calls.note("computing")
        spin(6)

    @hf.consumer("q2")
    def sleeping(message: Message) -> None:
        calls.note("sleeping")
        time.sleep(6)

    @hf.consumer("q3")
    async def awaiting(message: Message) -> None:
        calls.note("awaiting")
        await asyncio.sleep(6)

    @hf.consumer("q4")
    async def blocking(message: Message) -> None:
        calls.note("blocking")
        time.sleep(6)

    queues = ["q1", "q2", "q3", "q4"]
    for queue in queues:
        hf.queue(queue, lease=2)
    with hf.running():
        time.sleep(0.2)  # Who renews them has nothing to do yet, and must not oversleep.
        sent = [hf.enqueue(queue, 1) for queue in queues]
        calls.wait(4)
        other = connect(sweep_every=0.05)
        while not all(hf.stats(queue).processing == 0 for queue in queues):
            assert other.claim(*queues) == []
            time.sleep(0.02)
    assert sorted(calls.seen) == ["awaiting", "blocking", "computing", "sleeping"]
    assert {(status_of(hf, one.id).state, status_of(hf, one.id).attempts) for one in sent} == {(State.SUCCEEDED, 1)}


def test_slow_answers_are_waited_for(hf: Holdfast, url: str) -> None:
    """L4: the database does not answer for more than a third of the lease, again and again."""
    hf.queue("q", lease=4, max_attempts=1)
    begun, stops = threading.Event(), Calls()
    hf.on(HandlerStopped, stops.note)

    @hf.consumer("q")
    def handler(message: Message) -> None:
        begun.set()
        time.sleep(5)

    sent = hf.enqueue("q", 1)
    with hf.running():
        assert begun.wait(PATIENCE)
        for _ in range(2):
            with held_up(url):
                time.sleep(1.7)
            time.sleep(0.3)
        assert ended(hf, sent.id) is State.SUCCEEDED
    assert stops.seen == []


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_handler_whose_lease_cannot_be_renewed_stops_before_its_end(hf: Holdfast, url: str, kind: str) -> None:
    hf.queue("q", lease=4, backoff=0)
    begun, over = Calls(), Calls()

    def plain(message: Message, context: Context) -> None:
        if context.attempt > 1:
            return
        begun.note(1)
        try:
            while True:
                time.sleep(0.001)
        finally:
            over.note((time.time(), context.claim.lease.until_us / 1_000_000))

    async def awaited(message: Message, context: Context) -> None:
        if context.attempt > 1:
            return
        begun.note(1)
        try:
            await asyncio.sleep(3600)
        finally:
            over.note((time.time(), context.claim.lease.until_us / 1_000_000))

    hf.consumer("q", name="handler")(plain if kind == "def" else awaited)
    sent = hf.enqueue("q", 1)
    with hf.running():
        begun.wait(1)
        with held_up(url):
            [(stopped, until_)] = over.wait(1)
        assert ended(hf, sent.id) is State.SUCCEEDED
    assert until_ - 2.0 < stopped < until_, "it stopped in time, and not much too early"
    assert "could not be renewed" in status_of(hf, sent.id).history[0].error


def test_an_outcome_after_the_lease_is_refused_and_told(hf: Holdfast, connect: Connect) -> None:
    """L1: cut off from the database, the handler cannot be interrupted; someone else does the work meanwhile."""
    hf.queue("q", lease=0.5, backoff=0)
    other, cable = connect(sweep_every=0.05), Cable(hf)
    begun, finish, lost = threading.Event(), threading.Event(), Calls()
    hf.on(MessageLost, lost.note)

    @hf.consumer("q")
    def handler(message: Message) -> str:
        begun.set()
        while not finish.is_set():
            try:
                time.sleep(0.01)
            except BaseException:
                continue
        return "late"

    sent = hf.enqueue("q", 1)
    with hf.running():
        assert begun.wait(PATIENCE)
        cable.cut.set()
        [claim] = other.claim("q", wait=PATIENCE)
        other.ack(claim, "mine")
        finish.set()
        until(lambda: cable.tries > 10)
        cable.cut.clear()
        [event] = lost.wait(1)
    assert (event.id, event.attempt, claim.attempt) == (sent.id, 1, 2)
    status = status_of(hf, sent.id)
    assert (status.state, status.result) == (State.SUCCEEDED, "mine")


def test_its_own_earlier_attempt_is_refused_too(hf: Holdfast) -> None:
    """L2: the same consumer of the same process has the message again, under another token."""
    hf.queue("q", lease=0.5, backoff=0)
    cable = Cable(hf, "extend")
    begun, finish, lost = Calls(), threading.Event(), Calls()
    hf.on(MessageLost, lost.note)

    @hf.consumer("q", concurrency=2)
    def handler(message: Message, context: Context) -> str:
        begun.note(context.attempt)
        while context.attempt == 1 and not finish.is_set():
            try:
                time.sleep(0.01)
            except BaseException:
                continue
        return f"attempt {context.attempt}"

    sent = hf.enqueue("q", 1)
    cable.cut.set()
    with hf.running():
        assert ended(hf, sent.id) is State.SUCCEEDED
        finish.set()
        [event] = lost.wait(1)
    assert begun.seen == [1, 2]
    assert event.attempt == 1
    assert status_of(hf, sent.id).result == "attempt 2"


def test_a_handler_that_has_ended_is_not_told_to_stop(hf: Holdfast) -> None:
    """Only its outcome could not be stored in time."""
    hf.queue("q", lease=0.4, backoff=0, max_attempts=1)
    cable, stops, over = Cable(hf), Calls(), threading.Event()
    called = Calls()
    hf.on(HandlerStopped, stops.note)

    @hf.consumer("q")
    def handler(message: Message, context: Context) -> None:
        context.on_cancel(lambda: called.note(1))
        cable.cut.set()
        over.set()

    hf.enqueue("q", 1)
    with hf.running():
        assert over.wait(PATIENCE)
        time.sleep(0.6)
        cable.cut.clear()
        until(lambda: hf.stats("q").processing == 0)
    assert (stops.seen, called.seen) == ([], [])


def test_who_cancels_one_message_stops_no_other(hf: Holdfast) -> None:
    """Two of one run, under one lease."""
    hf.queue("q", lease=2)
    begun, over = Calls(), Calls()
    finish = threading.Event()

    @hf.consumer("q", concurrency=2)
    def handler(message: Message, context: Context) -> None:
        begun.note((message.body, context.claim.lease.token))
        try:
            while not finish.is_set():
                time.sleep(0.001)
        finally:
            over.note(message.body)

    first, second = hf.enqueue_many("q", ["first", "second"])
    with hf.running():
        tokens = {token for _, token in begun.wait(2)}
        assert len(tokens) == 1, "one lease"
        assert hf.cancel(first.id)
        assert over.wait(1) == ["first"]
        time.sleep(2.5)
        assert over.seen == ["first"]
        finish.set()
        assert ended(hf, second.id) is State.SUCCEEDED
    assert status_of(hf, first.id).state is State.CANCELED


def fail() -> None:
    raise SystemExit("the end of the thread")


def test_a_consumer_that_has_failed_keeps_no_lease(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would ever settle what it holds; the others of its process go on."""
    hf.queue("q", lease=0.5, backoff=0)
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
        until(worker.ended.is_set)
        assert [claim.attempt for claim in hf.claim("q", wait=PATIENCE)] == [2]
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
    sent = hf.enqueue("q", 2.0)
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
        until(lambda: cable.tries > 2)
        cable.cut.clear()
        assert ended(hf, sent.id) is State.SUCCEEDED
    assert hf.stats("next").pending == 1
