"""A hand and those who disturb it: each piece of work ends once, for one of them."""

import threading
import time
from collections import Counter
from types import SimpleNamespace
from typing import cast

import pytest

from holdfast import Holdfast, Message, State
from holdfast.worker.context import Context
from holdfast.worker.executors.threads import Hand, ThreadHand
from holdfast.worker.ready_queue import Shelf
from holdfast.worker.worker import QUICK, Worker
from tests.waiting import eventually, spend
from tests.worker.steps import PATIENCE, ended

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]

MEETINGS = 2_000


@pytest.mark.usefixtures("nervous")
def test_what_is_given_up_has_not_ended_and_what_has_ended_is_not_given_up(hf: Holdfast) -> None:
    """They meet thousands of times, in whatever order. Only the last two times it is known who comes first."""
    hf.enqueue("q", 1)
    worker, [claim] = cast(Worker, None), hf.claim("q")
    for first in [*["whoever"] * MEETINGS, "giving up", "ending"]:
        hand, context = Hand(worker), Context(worker, claim, 0.0)
        together, given_up = threading.Barrier(2), list[bool]()

        def disturb(hand: Hand = hand, context: Context = context, *, start: threading.Barrier = together) -> None:
            start.wait()
            given_up.append(hand.abandon(context))  # noqa: B023

        other = threading.Thread(target=disturb)
        other.start()
        hand.begin(context, time.monotonic())
        if first == "ending":
            hand.let_go()
        together.wait()
        if first == "giving up":
            other.join()
        hand.let_go()
        ended = not hand.abandoned
        other.join()
        assert given_up == [not ended]
        assert first == "whoever" or ended == (first == "ending")


def test_one_slow_handler_holds_up_neither_the_settling_nor_the_others_leases(hf: Holdfast) -> None:
    """The thread that claims runs quick handlers itself. When one takes its time, someone else settles meanwhile."""
    go_on, slow = threading.Event(), threading.Event()

    @hf.consumer("q")
    def work(message: Message) -> None:
        if message.body == "slow":
            slow.set()
            assert go_on.wait(PATIENCE)

    quick = hf.enqueue_many("q", [f"quick-{number}" for number in range(60)])
    with hf.running():
        assert ended(hf, quick[-1].id) is State.SUCCEEDED
        before = hf.enqueue_many("q", ["first", "second", "slow"])
        assert slow.wait(PATIENCE)
        assert ended(hf, before[1].id) is State.SUCCEEDED
        go_on.set()
        assert ended(hf, before[2].id) is State.SUCCEEDED


def test_there_is_still_one_hand_when_the_claiming_was_taken_over(hf: Holdfast) -> None:
    at_work, most, workers = Counter[str](), list[int](), list[Worker]()

    @hf.consumer("q")
    def work(message: Message) -> None:
        at_work["now"] += 1
        most.append(at_work["now"])
        eventually(lambda: workers and not workers[0].works_alone, "someone else claims")
        spend(QUICK)
        at_work["now"] -= 1

    sent = [hf.enqueue("q", number) for number in range(6)]
    with hf.running() as runner:
        workers += runner.workers
        for receipt in sent:
            assert ended(hf, receipt.id) is State.SUCCEEDED
        [worker] = runner.workers
        assert not worker.works_alone
    assert most == [1] * 6
    eventually(lambda: threads_named("holdfast-work") == [], "all have gone home")


def threads_named(start: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(start)]


def test_handlers_that_wait_get_a_thread_each(hf: Holdfast) -> None:
    """Several threads are no help to handlers of microseconds; those that wait for something wait together."""
    together = threading.Barrier(4)

    @hf.consumer("q", concurrency=4)
    def work(message: Message) -> None:
        if message.body == "wait":
            together.wait(PATIENCE)

    quick = hf.enqueue_many("q", [f"quick-{number}" for number in range(100)])
    with hf.running():
        assert ended(hf, quick[-1].id) is State.SUCCEEDED
        for receipt in hf.enqueue_many("q", ["wait"] * 4):
            assert ended(hf, receipt.id) is State.SUCCEEDED


def test_one_hitch_does_not_make_threads_for_ever(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was stopped for a moment by a busy machine runs its quick handlers in one thread again, soon after."""
    monkeypatch.setattr("holdfast.worker.inline_backoff.SHORTEST", 0.0)
    threads = list[int]()

    @hf.consumer("q")
    def work(message: Message) -> None:
        threads.append(threading.get_ident())
        if message.body == "slow":
            spend(3 * QUICK)

    with hf.running() as runner:
        assert ended(hf, hf.enqueue("q", "slow").id) is State.SUCCEEDED
        [worker] = runner.workers
        eventually(lambda: ended(hf, hf.enqueue("q", "quick").id) is State.SUCCEEDED and worker.works_alone)
        assert ended(hf, hf.enqueue("q", "last").id) is State.SUCCEEDED
        assert threads[-1] != threads[0]
        eventually(lambda: threads_named("holdfast-work") == ["holdfast-work-claims"])


def test_nobody_waits_for_a_slow_handler_to_work_alone_again(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.worker.inline_backoff.SHORTEST", 0.0)
    go_on, slow, patient = threading.Event(), threading.Event(), list[bool]()

    @hf.consumer("q", concurrency=2)
    def work(message: Message) -> None:
        if message.body == "slow":
            slow.set()
            patient.append(go_on.wait(PATIENCE))

    with hf.running() as runner:
        first = hf.enqueue("q", "slow").id
        assert slow.wait(PATIENCE)
        for number in range(20):
            assert ended(hf, hf.enqueue("q", number).id) is State.SUCCEEDED
        go_on.set()
        assert ended(hf, first) is State.SUCCEEDED
        assert patient == [True]
        [worker] = runner.workers
        eventually(lambda: ended(hf, hf.enqueue("q", "quick").id) is State.SUCCEEDED and worker.works_alone)


class LateHand(ThreadHand):
    """It was made, and has not begun to serve."""

    def _begin_thread(self) -> threading.Thread:
        return threading.current_thread()


def test_a_hand_that_is_late_does_not_take_from_the_shelf_of_the_one_who_works_alone_again(hf: Holdfast) -> None:
    hf.enqueue("q", 1)
    worker = SimpleNamespace(shelf=Shelf())
    hand, [claim] = LateHand(cast(Worker, worker)), hf.claim("q")
    worker.shelf.close()
    worker.shelf = Shelf()
    worker.shelf.put([Context(cast(Worker, worker), claim, 0.0)])
    hand.serve()
    assert len(worker.shelf) == 1
