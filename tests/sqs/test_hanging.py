"""An SQS that accepts and never answers: nobody who works, renews, maintains or stops waits for it.

Nobody gives up waiting either, in these tests: whoever waited would do so until the test is over.
"""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Context, Holdfast, Message
from holdfast.client.client import internals
from tests.sqs.fake_sqs import FakeSQS
from tests.sqs.steps import Seen
from tests.waiting import eventually

pytestmark = pytest.mark.above_the_stores

HOURS = 3600
EVERYTHING = frozenset({"*"})


@pytest.fixture(autouse=True)
def endless_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.sqs.queue.ANSWER_WITHIN", HOURS)
    monkeypatch.setattr("holdfast.sqs.queue.POLLED_WITHIN", HOURS)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker waits for an answer, and maintenance between two turns."""
    monkeypatch.setattr("holdfast.sqs.receiver.ANSWERED", 0.2)
    monkeypatch.setattr("holdfast.worker.maintenance.leader.LOOK_EVERY", 0.05)


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Callable[[], int]:
    """How often a call has come back."""
    call, times = getattr(owner, name), list[None]()

    def count(*given: Any) -> Any:
        answer = call(*given)
        times.append(None)
        return answer

    monkeypatch.setattr(owner, name, count)
    return lambda: len(times)


def test_leases_stay_and_work_ends_well(url: str, sqs: FakeSQS, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what SQS delivers as well as of what the database does."""
    monkeypatch.setattr("holdfast.worker.lease_renewal.RENEW_AFTER", 1 / 100)
    with Holdfast(url, delivery="sqs", sqs_create=True) as hf:
        hf.queue("q", lease=30)
        hf.queue("db", delivery="database", lease=30)
        begun, finish, seen = threading.Semaphore(0), threading.Event(), Seen()

        def work(message: Message, context: Context) -> None:
            begun.release()
            assert finish.wait(60)
            assert context.stop is None
            seen.note(message)

        hf.consumer("q", name="one")(work)
        hf.consumer("db", name="two")(work)
        sent = [hf.enqueue("q", "by SQS"), hf.enqueue("db", "by the database")]
        with hf.running():
            assert begun.acquire(timeout=60)
            assert begun.acquire(timeout=60)
            sqs.faults.hanging = EVERYTHING
            renewals, hides = (
                counted(monkeypatch, internals(hf).transport.messages, "extend"),
                sqs.count("ChangeMessageVisibilityBatch"),
            )
            sqs.wait_for("ChangeMessageVisibilityBatch", hides + 1)
            before = renewals()
            eventually(lambda: renewals() >= before + 3)
            finish.set()
            seen.wait(2)
            eventually(lambda: {hf.status(one.id).state for one in sent} == {"succeeded"})
            hf.enqueue("db", "more")
            seen.wait(3)
        assert {hf.status(one.id).attempts for one in sent} == {1}


def test_a_worker_of_both_kinds_of_queues_goes_on_with_the_other(url: str, sqs: FakeSQS) -> None:
    """What it begins to fetch from SQS is waited for a moment, and not again before there was an answer."""
    with Holdfast(url, delivery="sqs", sqs_create=True) as hf:
        hf.queue("db", delivery="database")
        hf.queue("q")
        seen = Seen()
        hf.consumer("q", "db")(seen.note)
        sqs.faults.hanging = EVERYTHING
        with hf.running():
            for number in range(5):
                hf.enqueue("q", "not now")
                hf.enqueue("db", number)
                seen.wait(number + 1)
        assert seen.bodies == [0, 1, 2, 3, 4]


def test_maintenance_goes_on_and_a_death_is_settled(url: str, sqs: FakeSQS, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a database queue whose deaths SQS is told of."""
    monkeypatch.setattr("holdfast.worker.maintenance.duties.deliveries.every", 0.0)
    sqs.create("deaths")
    with Holdfast(url) as hf:
        hf.queue("q", dead_events="deaths", max_attempts=1)
        seen = Seen()

        @hf.consumer("q")
        def fail(message: Message) -> None:
            seen.note(message)
            raise ValueError("boom")

        sqs.faults.hanging = EVERYTHING
        dead = hf.enqueue("q", 1)
        with hf.running():
            sqs.wait_for("GetQueueUrl")
            turns = counted(monkeypatch, internals(hf).store.leaders, "lead")
            eventually(lambda: turns() >= 3)
            hf.enqueue("q", 2)
            seen.wait(2)
            eventually(lambda: len(hf.dead_letters.list("q")) == 2)
        assert hf.status(dead.id).state == "dead"


def test_a_process_that_only_leads_does_not_wait_either(
    url: str, sqs: FakeSQS, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.maintenance.duties.deliveries.every", 0.0)
    with Holdfast(url) as hf:
        hf.queue("q", dead_events="deaths")
        hf.queue("other")
        hf.enqueue("q", 1)
        sqs.faults.hanging = EVERYTHING
        with monkeypatch.context() as patched:
            patched.setattr("holdfast.sqs.dead_events.tell", lambda *_: 0)
            hf.dead_letter(hf.claim("q"), "no use")
        hf.consumer("other")(lambda message: None)
        with hf.running():
            sqs.wait_for("GetQueueUrl")
            turns = counted(monkeypatch, internals(hf).store.leaders, "lead")
            eventually(lambda: turns() >= 3)
