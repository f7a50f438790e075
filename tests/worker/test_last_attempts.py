"""One message on its last attempt per process, so that a crash ends at most one; and nobody is held up by that."""

import itertools
import threading

import pytest

from holdfast import Holdfast, Message, State
from holdfast.worker.context import Context
from tests.waiting import eventually
from tests.worker.steps import PATIENCE, Calls, ended

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]


def test_a_process_has_one_last_attempt_at_a_time(hf: Holdfast) -> None:
    hf.queue("q", max_attempts=2, backoff=0)
    lock, last, most = threading.Lock(), 0, Calls()

    def handler(message: Message, context: Context) -> None:
        nonlocal last
        if context.attempt == 1:
            raise RuntimeError("once more")
        with lock:
            last += 1
            most.note(last)
        threading.Event().wait(0.02)
        with lock:
            last -= 1

    for name in ("one", "two"):
        hf.consumer("q", name=name, concurrency=4)(handler)
    sent = hf.enqueue_many("q", range(20))
    with hf.running():
        assert {ended(hf, receipt.id) for receipt in sent} == {State.SUCCEEDED}
    assert max(most.seen) == 1


def test_attempts_that_become_the_last_ones_hurt_no_consumer(hf: Holdfast) -> None:
    """Fewer attempts are allowed than when the messages failed: several last ones are in hand, of two consumers."""
    hf.queue("q", max_attempts=5, backoff=0)
    claims = hf.claim("q", n=100) if hf.enqueue_many("q", range(100)) else []
    hf.nack(claims, "a first time", delay=0)
    hf.queue("q", max_attempts=2, backoff=0)
    done, calls, both = Calls(), itertools.count(), threading.Barrier(2)

    def handler(message: Message, context: Context) -> None:
        if next(calls) < 2:  # counted as they begin: one of each consumer, for the other cannot begin twice
            both.wait(PATIENCE)
        done.note((message.body, context.attempt))

    for name in ("one", "two"):
        hf.consumer("q", name=name)(handler)
    with hf.running() as runner:
        done.wait(100)
        eventually(lambda: hf.stats("q").processing == 0)
        assert [worker.failed for worker in runner.workers] == [False, False]
    assert sorted(done.seen) == [(number, 2) for number in range(100)]
