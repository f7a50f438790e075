"""What waits for SQS in a process with consumers: who is poked when, and what goes on while everybody sleeps."""

import os
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.client.client import internals
from holdfast.errors import Unavailable
from holdfast.sqs.background_calls import BackgroundCalls
from holdfast.sqs.circuit_breaker import Troubles
from holdfast.sqs.queue import Received, Sqs, SqsQueue
from holdfast.sqs.receiver import ProcessCourier, Round
from holdfast.worker.context import Context
from holdfast.worker.held_leases import HeldLeases
from tests.sqs.fake_sqs import FakeSQS
from tests.sqs.steps import Seen, hand_over, pointers
from tests.waiting import eventually, spend

pytestmark = pytest.mark.above_the_stores

NEVER = 3600.0


# --- pointers that lead to nothing ------------------------------------------------------------------------------------


def test_stale_pointers_hold_up_nothing(url: str, sqs: FakeSQS, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a rest after pointers that cannot be used now, and none after those that never can."""
    monkeypatch.setattr("holdfast.sqs.receiver.UNCLAIMABLE", NEVER)
    with Holdfast(url, delivery="sqs", sqs_create=True) as hf:
        hf.enqueue_many("q", list(range(30)))
        hand_over(hf)
        hf.queues.purge("q")
        sqs.client().send_message(QueueUrl=sqs.queue("holdfast-q").url, MessageBody="no pointer")
        hf.enqueue("q", "fresh")
        seen = Seen()
        hf.consumer("q")(seen.note)
        with hf.running():
            seen.wait(1)
            eventually(lambda: pointers(sqs) == [])
        assert seen.bodies == ["fresh"]


def test_who_claims_by_hand_gets_past_them_too(hf: Holdfast, sqs: FakeSQS) -> None:
    hf.enqueue_many("q", list(range(30)))
    hand_over(hf)
    hf.queues.purge("q")
    hf.enqueue("q", "fresh")
    assert [claim.message.body for claim in hf.claim("q")] == ["fresh"]


# --- while everybody hibernates ---------------------------------------------------------------------------------------


def test_lost_pointers_are_sent_again_while_all_hibernate(
    url: str, sqs: FakeSQS, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the process that waits for them, whoever does maintenance."""
    for module in ("send", "lost_pointers"):
        monkeypatch.setattr(f"holdfast.sqs.{module}.PATIENCE", 0.5)
    monkeypatch.setattr("holdfast.worker.maintenance.duties.deliveries.turn", lambda hf: 0)
    with Holdfast(url, delivery="sqs", sqs_create=True) as hf:
        hf.queue("q", empty="hibernate")
        seen = Seen()
        hf.consumer("q")(seen.note)
        with hf.running() as runner:
            eventually(lambda: runner.workers[0].state == "hibernating")
            sqs.faults.lost = lambda body: body.endswith(".1")
            hf.enqueue("q", "lost once")
            seen.wait(1)
        assert internals(hf).transport.through_sqs().counts.of("q")["sent_again"] >= 1, (
            "more often on a machine that is slower than the patience"
        )


def test_deaths_that_nobody_was_told_of_are_told_by_who_consumes_there(
    url: str, sqs: FakeSQS, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.sqs.send.PATIENCE", 0.2)
    monkeypatch.setattr("holdfast.worker.maintenance.duties.deliveries.turn", lambda hf: 0)
    sqs.create("deaths")
    with Holdfast(url) as hf:
        hf.queue("q", dead_events="deaths", empty="hibernate")
        hf.enqueue("q", 1)
        with monkeypatch.context() as patched:
            patched.setattr("holdfast.sqs.dead_events.tell", lambda *_: 0)
            hf.dead_letter(hf.claim("q"), "no use")
        hf.consumer("q")(lambda message: None)
        with hf.running():
            eventually(lambda: len(sqs.bodies("deaths")) == 1)


# --- sending and receiving --------------------------------------------------------------------------------------------


def test_what_comes_does_not_make_good_what_cannot_be_sent(
    url: str, sqs: FakeSQS, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQS takes nothing and answers every poll: the fallback begins all the same."""
    monkeypatch.setattr("holdfast.sqs.receiver.LONG_POLL", 0.0)
    monkeypatch.setattr("holdfast.sqs.receiver.SHORTEST_POLL", 0.1)
    monkeypatch.setattr("holdfast.sqs.receiver.SAFETY_NAP", 0.5)
    with Holdfast(url, delivery="sqs", sqs_create=True) as hf:
        hf.queue("q", sqs_fallback=1)
        seen = Seen()
        hf.consumer("q")(seen.note)
        sqs.faults.throttled = frozenset({"SendMessageBatch"})
        with hf.running():
            hf.enqueue_many("q", [0, 1, 2])
            seen.wait(3)
        assert sorted(seen.bodies) == [0, 1, 2]


def test_who_claims_by_hand_waits_for_what_another_is_sending(
    hf: Holdfast, rival: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    hf.enqueue("q", 1)
    handed = internals(rival).store.deliveries.hand_over(internals(rival).catalog.channel("q"), 10, 60_000_000)
    receive = SqsQueue.receive

    def sent_meanwhile(queue: SqsQueue, most: int, wait: float, hidden: int) -> list[Received]:
        if wait:
            queue.send([one.text() for one in handed.pointers])
        return receive(queue, most, wait, hidden)

    monkeypatch.setattr(SqsQueue, "receive", sent_meanwhile)
    assert [claim.message.body for claim in hf.claim("q")] == [1]


def test_the_time_that_sqs_takes_is_not_the_leases(url: str, sqs: FakeSQS, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short one would be over before its message is begun."""
    monkeypatch.setattr("holdfast.sqs.receiver.ANSWERED", NEVER)
    receive, opened, came, begun = SqsQueue.receive, HeldLeases.open, list[float](), list[float]()

    def slow(queue: SqsQueue, most: int, wait: float, hidden: int) -> list[Received]:
        found = receive(queue, most, wait, hidden)
        if found:
            came.append(time.monotonic())
        return found

    def noticed(ledger: HeldLeases, contexts: list[Context], terms: dict[int, float], started: float) -> None:
        begun.extend(started for _ in contexts)
        opened(ledger, contexts, terms, started)

    monkeypatch.setattr(SqsQueue, "receive", slow)
    monkeypatch.setattr(HeldLeases, "open", noticed)
    with Holdfast(url, delivery="sqs", sqs_create=True) as hf:
        hf.enqueue("q", 1)
        seen = Seen()
        hf.consumer("q")(seen.note)
        with hf.running():
            seen.wait(1)
    assert begun[0] >= came[0]


def test_an_enqueue_rings_the_sender(url: str, sqs: FakeSQS, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock alone nobody would look for hours."""
    for nap in ("receiver.LONGEST_NAP", "receiver.SAFETY_NAP", "send.PATIENCE"):
        monkeypatch.setattr(f"holdfast.sqs.{nap}", NEVER)
    with Holdfast(url, delivery="sqs", sqs_create=True) as hf:
        hf.queue("q")
        channel, seen = internals(hf).catalog.channel("q"), Seen()
        hf.consumer("q")(seen.note)
        with hf.running() as runner:
            sqs.wait_for("ReceiveMessage", 2)
            eventually(lambda: runner.courier.round(channel).is_quiet)
            eventually(lambda: runner.workers[0].state == "idle")
            with Holdfast(url, delivery="sqs") as other:
                other.enqueue("q", 1)
            seen.wait(1)


def test_the_sender_survives_a_database_that_fails_while_it_sleeps(
    url: str, sqs: FakeSQS, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn, failed = ProcessCourier._turn, list[int]()

    def fails_at_first(courier: ProcessCourier, bell: Any) -> None:
        if len(failed) < 2:
            failed.append(1)
            raise Unavailable("the database is away")
        turn(courier, bell)

    monkeypatch.setattr(ProcessCourier, "_turn", fails_at_first)
    monkeypatch.setattr("holdfast.sqs.receiver.SOON", 0.01)
    with Holdfast(url, delivery="sqs", sqs_create=True) as hf:
        hf.enqueue("q", 1)
        seen = Seen()
        hf.consumer("q")(seen.note)
        with hf.running():
            seen.wait(1)
    assert len(failed) == 2


def test_the_sender_has_ended_when_the_consumers_have(url: str, sqs: FakeSQS, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would open the database again after the client was closed."""
    turn, senders = ProcessCourier._turn, set[threading.Thread]()

    def slow_to_end(courier: ProcessCourier, bell: Any) -> None:
        senders.add(threading.current_thread())
        turn(courier, bell)
        if courier._over.is_set():
            spend(0.3)

    monkeypatch.setattr(ProcessCourier, "_turn", slow_to_end)
    with Holdfast(url, delivery="sqs", sqs_create=True) as hf:
        hf.enqueue("q", 1)
        seen = Seen()
        hf.consumer("q")(seen.note)
        with hf.running():
            seen.wait(1)
        assert [sender.is_alive() for sender in senders] == [False]


def test_an_sqs_that_does_not_wait_is_not_asked_in_a_hot_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.sqs.receiver.SHORTEST_POLL", 0.2)
    asked, enough = list[float](), threading.Event()

    def receive(*_: object) -> list[Any]:
        asked.append(time.monotonic())
        if len(asked) == 3:
            enough.set()
        return []

    messages: Any = SimpleNamespace(receive=receive, trouble=lambda _: troubles)
    troubles, channel = Troubles(), SimpleNamespace(name="q")
    polling = Round(messages, channel)  # type: ignore[arg-type]
    polling.want(1, lambda: None)
    begun = time.monotonic()
    polling.start()
    assert enough.wait(60)
    polling.stop()
    assert all(moment - begun > 0.19 * number for number, moment in enumerate(asked))


def test_a_pointer_is_hidden_from_when_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of a long poll, say: it has its full time."""
    now = [100.0]

    def receive_message(**_: object) -> dict[str, Any]:
        now[0] += 20
        return {"Messages": [{"Body": "text", "ReceiptHandle": "handle"}]}

    monkeypatch.setattr("holdfast.sqs.queue.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("holdfast.sqs.queue._connect", lambda _: SimpleNamespace(receive_message=receive_message))
    [one] = Sqs().queue("https://sqs.example/0/q").receive(1, 20.0, 30)
    assert (one.came_at, one.hidden_until) == (120.0, 150.0)


# --- beside -----------------------------------------------------------------------------------------------------------


def test_beside_the_work_each_item_waits_once() -> None:
    """However often it is asked for while SQS hangs."""
    done, begun, go_on = list[list[int]](), threading.Event(), threading.Event()

    def work(_: str, items: list[int]) -> None:
        begun.set()
        assert go_on.wait(60)
        done.append(items)

    beside: BackgroundCalls[str, int] = BackgroundCalls("tests", work)
    beside.switch_on()
    beside.put("q", [0])
    assert begun.wait(60)
    for _ in range(100):
        beside.put("q", [1, 2])
    go_on.set()
    assert beside.finish(60)
    assert done == [[0], [1, 2]]


def test_a_child_of_a_fork_does_itself_what_a_thread_of_the_parent_would() -> None:
    done = list[int]()
    beside: BackgroundCalls[str, int] = BackgroundCalls("tests", lambda _, items: done.extend(items))
    beside.switch_on()
    beside.put("q", [1])
    assert beside.finish(60)
    child = os.fork()
    if child == 0:
        beside.put("q", [2])
        os._exit(0 if done == [1, 2] else 1)
    assert os.waitpid(child, 0)[1] == 0
