"""A consumer whose policy is `strict`: as long as the first queue has something to be had, nothing else is taken."""

from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.client.client import internals
from holdfast.worker.worker import Worker
from tests.sqs.fake_sqs import FakeSQS
from tests.sqs.steps import Seen, hand_over
from tests.waiting import eventually, leave_time

pytestmark = [pytest.mark.on_postgres, pytest.mark.above_the_stores]

NEVER = 3600.0
FEW = 25
IN_ORDER = ["first"] * FEW + ["second"] * FEW


def declare(hf: Holdfast) -> Seen:
    seen = Seen()
    hf.consumer("first", "second", policy="strict")(seen.note)
    return seen


def fill(hf: Holdfast, count: int = FEW) -> None:
    for queue in ("second", "first"):
        hf.enqueue_many(queue, [queue] * count)


def sleeps(worker: Worker) -> None:
    """Wait until it naps, and no look is under way. On PostgreSQL, the first to listen is woken once for nothing."""
    listener = getattr(internals(worker.hf).store.wakeup, "_listener", None)
    if listener is not None:
        eventually(lambda: listener._everyone, "the server knows of the listener")
    naps = -1
    while worker._bell is None or naps != worker.naps:
        naps = worker.naps
        leave_time(0.2)


@pytest.fixture
def hf(url: str, sqs: FakeSQS) -> Any:
    with Holdfast(url, delivery="sqs", sqs_create=True) as hf:
        hf.queue("first")
        hf.queue("second")
        yield hf


def test_what_is_left_of_a_claim_is_not_filled_from_the_second(hf: Holdfast) -> None:
    """SQS gives ten at a time, and who is quick wants more."""
    seen = declare(hf)
    fill(hf)
    with hf.running():
        seen.wait(2 * FEW)
    assert seen.bodies == IN_ORDER


def test_stale_pointers_are_not_taken_for_an_empty_queue(hf: Holdfast) -> None:
    hf.enqueue_many("first", ["stale"] * 30)
    hand_over(hf, "first")
    hf.queues.purge("first")
    seen = declare(hf)
    fill(hf)
    with hf.running():
        seen.wait(2 * FEW)
    assert seen.bodies == IN_ORDER


def test_a_slow_answer_is_not_taken_for_an_empty_queue(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for one here: every answer comes later than that."""
    monkeypatch.setattr("holdfast.sqs.receiver.ANSWERED", 0.0)
    seen = declare(hf)
    fill(hf)
    with hf.running():
        seen.wait(2 * FEW)
    assert seen.bodies == IN_ORDER


def test_what_is_due_since_sqs_was_asked_comes_first(
    hf: Holdfast, sqs: FakeSQS, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pointer of the second queue is there already, and none of the first was sent yet."""
    monkeypatch.setattr("holdfast.sqs.receiver.ProcessCourier._send", lambda *_: NEVER)
    seen = declare(hf)
    with hf.running() as runner:
        rounds = [runner.courier.round(internals(hf).catalog.channel(name)) for name in ("first", "second")]
        eventually(lambda: all(one.is_quiet for one in rounds))
        sleeps(runner.workers[0])
        hf.enqueue("first", "first")
        hf.enqueue("second", "second")
        hand_over(hf, "second")
        seen.wait(2)
    assert seen.bodies == ["first", "second"]


def test_a_queue_that_nothing_can_be_had_from_holds_up_nobody(hf: Holdfast) -> None:
    """Paused, with messages in the database and with SQS."""
    hf.enqueue_many("first", ["first"] * 3)
    hand_over(hf, "first")
    hf.enqueue("first", "first")
    hf.queues.pause("first")
    hf.enqueue_many("second", ["second"] * 3)
    seen = declare(hf)
    with hf.running():
        seen.wait(3)
    assert seen.bodies == ["second"] * 3


def test_an_sqs_that_does_not_answer_holds_up_nobody_for_long(
    hf: Holdfast, sqs: FakeSQS, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.sqs.queue.ANSWER_WITHIN", 0.2)
    hf.queue("second", delivery="database")
    sqs.faults.hanging = frozenset({"*"})
    seen = declare(hf)
    fill(hf, 5)  # Before each of them it may wait for SQS.
    with hf.running():
        seen.wait(5)
        sqs.faults.hanging = frozenset()
    assert seen.bodies[:5] == ["second"] * 5
