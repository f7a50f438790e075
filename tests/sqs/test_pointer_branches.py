"""The five things that become of a pointer: deleted or left, and never before the database has spoken."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Holdfast, LeaseLost, Message, Unavailable
from holdfast.client.client import internals
from holdfast.sqs.queue import SqsQueue
from tests.clock import FakeClock
from tests.sqs.fake_sqs import FakeSQS
from tests.sqs.steps import claim_all, pointers, seen, work_off
from tests.steps import bodies, claim_one
from tests.waiting import eventually

pytestmark = pytest.mark.above_the_stores

# --- 1. It is no pointer: deleted -------------------------------------------------------------------------------------

NO_POINTERS = [
    "hello",
    "{}",
    "0192a4c8-0000-7000-8000-000000000001",
    "0192a4c8-0000-7000-8000-000000000001.0",
    "0192A4C8-0000-7000-8000-000000000001.1",
    "0192a4c8-0000-7000-8000-000000000001.1\n",
    "0192a4c8-0000-7000-8000-000000000001.٣",
    "x" * 100_000,
]


def test_branch_1_what_is_no_pointer_is_deleted_and_counted(hf: Holdfast, sqs: FakeSQS) -> None:
    url = sqs.create("holdfast-q")
    for text in NO_POINTERS:
        sqs.client().send_message(QueueUrl=url, MessageBody=text)
    hf.enqueue("q", "real")
    assert work_off(hf) == ["real"]
    assert pointers(sqs) == []
    assert seen(hf)["unreadable"] == len(NO_POINTERS)


# --- 2. Its message is over: deleted, nothing is run ------------------------------------------------------------------


def succeed(hf: Holdfast, clock: FakeClock) -> None:
    hf.ack(claim_one(hf))


def cancel(hf: Holdfast, clock: FakeClock) -> None:
    claim = claim_one(hf)
    hf.release(claim)
    hf.cancel(claim.message.id)


def die(hf: Holdfast, clock: FakeClock) -> None:
    hf.dead_letter(claim_one(hf), "no use")


def expire(hf: Holdfast, clock: FakeClock) -> None:
    hf.release(claim_one(hf))
    clock.advance("2h")
    hf.maintain()


def be_sent_again(hf: Holdfast, clock: FakeClock) -> None:
    """An older pointer of a message that has a newer one."""
    hf.release(claim_one(hf))
    hf.ack(claim_one(hf))


@pytest.mark.parametrize("end", [succeed, cancel, die, expire, be_sent_again])
def test_branch_2_the_pointer_of_what_is_over_is_deleted(
    hf: Holdfast, clock: FakeClock, sqs: FakeSQS, end: Callable[[Holdfast, FakeClock], None]
) -> None:
    hf.enqueue("q", 1, ttl="1h")
    end(hf, clock)
    sqs.resurrect()
    assert pointers(sqs) != []
    hf.enqueue("q", 2)
    assert work_off(hf) == [2]
    assert pointers(sqs) == []


# --- 3. Its message is in someone's hands: left -----------------------------------------------------------------------


def test_branch_3_the_pointer_of_what_is_being_worked_on_is_left(hf: Holdfast, rival: Holdfast, sqs: FakeSQS) -> None:
    hf.queue("q", lease="1h")
    hf.enqueue("q", 1)
    claim = claim_one(hf)
    sqs.advance(3_601)  # By the clock of SQS it was not renewed.
    rival.enqueue("q", 2)
    assert bodies(claim_all(rival)) == [2]
    assert seen(rival)["left"] == 1
    assert len(pointers(sqs)) == 2
    hf.ack(claim)


def test_branch_3_if_its_worker_is_gone_the_pointer_is_what_brings_it_back(
    hf: Holdfast, rival: Holdfast, clock: FakeClock, sqs: FakeSQS
) -> None:
    hf.queue("q", lease="1m")
    hf.enqueue("q", 1)
    claim_one(hf)
    clock.advance(61)
    sqs.advance(61)
    again = claim_one(rival)
    assert (again.message.body, again.attempt) == (1, 2)
    rival.ack(again)
    assert claim_all(rival) == []
    assert pointers(sqs) == []


# --- 4. The outcome is stored: deleted, after that --------------------------------------------------------------------


def ack(hf: Holdfast, claim: Any) -> None:
    hf.ack(claim)


def nack(hf: Holdfast, claim: Any) -> None:
    hf.nack(claim, "failed")


def release(hf: Holdfast, claim: Any) -> None:
    hf.release(claim)


def snooze(hf: Holdfast, claim: Any) -> None:
    hf.snooze(claim, "1h")


def dead_letter(hf: Holdfast, claim: Any) -> None:
    hf.dead_letter(claim, "no use")


ENDINGS = {ack: "succeeded", nack: "pending", release: "pending", snooze: "pending", dead_letter: "dead"}


@pytest.mark.parametrize("end", ENDINGS)
def test_branch_4_the_database_hears_of_the_outcome_before_sqs_does(
    hf: Holdfast, rival: Holdfast, sqs: FakeSQS, monkeypatch: pytest.MonkeyPatch, end: Callable[[Holdfast, Any], None]
) -> None:
    hf.queue("q", backoff=["1h"])
    sent = hf.enqueue("q", 1)
    claim = claim_one(hf)
    states: list[str] = []
    delete = SqsQueue.delete

    def look_first(queue: SqsQueue, handles: Any) -> int:
        states.append(rival.status(sent.id).state)
        return delete(queue, handles)

    monkeypatch.setattr(SqsQueue, "delete", look_first)
    end(hf, claim)
    assert states == [ENDINGS[end]]
    assert pointers(sqs) == []


def test_branch_4_an_ack_that_travels_with_the_next_claim(hf: Holdfast, sqs: FakeSQS) -> None:
    hf.enqueue_many("q", [1, 2])
    first = hf.claim("q")
    second = hf.claim("q", ack=first)
    assert len(pointers(sqs)) == 1
    hf.ack(second)
    assert pointers(sqs) == []


def extend(hf: Holdfast, claim: Any) -> None:
    hf.extend(claim, "1m")


def ack_on_the_way(hf: Holdfast, claim: Any) -> None:
    hf.claim("q", ack=[claim])


@pytest.mark.parametrize("by", ["its client", "another"])
@pytest.mark.parametrize("hear", [*ENDINGS, extend, ack_on_the_way])
def test_branch_4_a_canceled_message_takes_its_pointer_along_when_its_holder_hears_of_it(
    hf: Holdfast, rival: Holdfast, sqs: FakeSQS, hear: Callable[[Holdfast, Any], None], by: str
) -> None:
    hf.enqueue_many("q", [1, 2])
    canceled, other = claim_all(hf)
    assert (hf if by == "its client" else rival).cancel(canceled.message.id)
    with pytest.raises(LeaseLost):
        hear(hf, canceled)
    assert len(pointers(sqs)) == 1, "that of the other one"
    hf.ack(other)
    assert pointers(sqs) == []
    assert "over" not in seen(hf), "nobody has received it again"


def test_branch_4_a_message_that_is_canceled_while_its_handler_runs(
    hf: Holdfast, rival: Holdfast, sqs: FakeSQS
) -> None:
    begun, finish = threading.Event(), threading.Event()

    @hf.consumer("q")
    def handler(message: Message) -> None:
        begun.set()
        finish.wait(60)

    sent = hf.enqueue("q", 1)
    with hf.running():
        assert begun.wait(60)
        assert rival.cancel(sent.id)
        finish.set()
        eventually(lambda: pointers(sqs) == [])
    assert rival.status(sent.id).state == "canceled"
    assert "over" not in seen(hf), "nobody has received it again"


# --- 5. The outcome is not stored: left -------------------------------------------------------------------------------


def test_branch_5_what_the_database_could_not_store_is_not_deleted(
    hf: Holdfast, rival: Holdfast, clock: FakeClock, sqs: FakeSQS, monkeypatch: pytest.MonkeyPatch
) -> None:
    hf.queue("q", lease="1m")
    hf.enqueue("q", 1)
    claim = claim_one(hf)
    with monkeypatch.context() as patched:
        patched.setattr(internals(hf).store.messages, "settle", away)
        with pytest.raises(Unavailable):
            hf.ack(claim)
    assert len(pointers(sqs)) == 1
    assert sqs.count("DeleteMessage", "DeleteMessageBatch") == 0
    clock.advance(61)
    sqs.advance(61)
    assert [one.attempt for one in claim_all(rival)] == [2]


def test_branch_5_who_has_lost_the_lease_deletes_nothing(
    hf: Holdfast, rival: Holdfast, clock: FakeClock, sqs: FakeSQS
) -> None:
    hf.queue("q", lease="1m")
    hf.enqueue("q", 1)
    late = claim_one(hf)
    clock.advance(61)
    sqs.advance(61)
    again = claim_one(rival)
    deleted = sqs.count("DeleteMessage", "DeleteMessageBatch")
    with pytest.raises(LeaseLost):
        hf.ack(late)
    assert sqs.count("DeleteMessage", "DeleteMessageBatch") == deleted
    sqs.advance(43_201)
    assert rival.status(again.message.id).state == "processing"
    rival.extend(again)
    rival.ack(again)
    assert rival.status(again.message.id).state == "succeeded"


def test_branch_5_who_is_late_takes_no_pointer_from_who_has_the_message_now(
    hf: Holdfast, clock: FakeClock, sqs: FakeSQS
) -> None:
    """Both in one process."""
    hf.queue("q", lease="1m")
    hf.enqueue("q", 1)
    late = claim_one(hf)
    clock.advance(61)
    sqs.advance(61)
    again = claim_one(hf)
    with pytest.raises(LeaseLost):
        hf.ack(late)
    hf.ack(again)
    assert pointers(sqs) == []


def away(*_: object) -> None:
    raise Unavailable("the database is away")
