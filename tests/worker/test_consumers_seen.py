"""What is seen of consumers from outside: the list of them, progress, events; and the upkeep that they do."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Cancel, DeadLetter, Holdfast, Message, Retry, Snooze, State, Unavailable
from holdfast import events as happenings
from holdfast.client.client import internals
from holdfast.consumers.rules import Beat
from holdfast.events import MessageEvent, RuntimeEvent
from holdfast.worker.context import Context
from holdfast.worker.maintenance import leader as leading
from holdfast.worker.maintenance.duties import reaper
from tests.acceptance.children import Family
from tests.waiting import eventually
from tests.worker.steps import PATIENCE, Calls

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]

Connect = Callable[..., Holdfast]


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.worker.heartbeat.BEAT_EVERY", 0.1)
    monkeypatch.setattr("holdfast.worker.heartbeat.PROGRESS_EVERY", 0.05)


def test_a_consumer_is_seen_while_it_works_and_gone_when_it_has_ended(hf: Holdfast, connect: Connect) -> None:
    other, begun, finish = connect(), threading.Event(), threading.Event()

    @hf.consumer("q", "p", concurrency=2, labels={"zone": "a"})
    def handler(message: Message, context: Context) -> None:
        context.progress({"page": 3})
        begun.set()
        assert finish.wait(PATIENCE)

    with hf.running():
        eventually(lambda: [one.state for one in other.consumers.list()] == ["idle"])
        sent = hf.enqueue("q", 1)
        assert begun.wait(PATIENCE)
        half = lambda: [one for one in other.consumers.list() if one.work and 0.4 < one.saturation < 0.6]  # noqa: E731
        [seen] = eventually(half, "one of two hands is busy")
        assert (seen.consumer, seen.state, seen.concurrency, seen.labels) == ("handler", "working", 2, {"zone": "a"})
        assert sorted(seen.queues) == ["p", "q"]
        assert [(work.id, work.queue, work.attempt) for work in seen.work] == [(sent.id, "q", 1)]
        status = eventually(lambda: (found := other.status(sent.id)) and found.progress and found, "its progress")
        assert status.progress == {"page": 3}
        assert status.worker == seen.id
        eventually(
            lambda: (other.consumers.amplification(0.4), other.consumers.amplification(0.9)) == (1, 0),
            "it is amplified by one",
        )
        finish.set()
        eventually(lambda: [(one.handled, one.failed) for one in other.consumers.list()] == [(1, 0)])
    eventually(lambda: other.consumers.list(alive=False) == [], "it has said good-bye")
    assert other.consumers.amplification(0) == 0


def test_who_hibernates_stays_alive(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells again, long before what it told is out of date; also if telling fails for once."""
    monkeypatch.setattr("holdfast.worker.heartbeat.SLEEPING_EVERY", 0.3)
    monkeypatch.setattr("holdfast.worker.heartbeat.HIBERNATING_FOR", 3600.0)
    beat, told, fails = internals(hf).store.crew.beat, Calls(), True

    def note(tenant: str, told_of: Beat) -> None:
        if told_of.state == "hibernating" and fails:
            told.note("in vain")
            raise Unavailable("it is away")
        beat(tenant, told_of)
        told.note(told_of.state)

    monkeypatch.setattr(internals(hf).store.crew, "beat", note)
    hf.consumer("q", name="sleeper", empty="hibernate")(lambda message: None)
    with hf.running():
        eventually(lambda: told.seen.count("in vain") >= 2, "it tries again at once")
        fails = False
        eventually(lambda: told.seen.count("hibernating") >= 3, "it tells again")
        [seen] = hf.consumers.list()
        assert (seen.state, seen.alive) == ("hibernating", True)


def test_every_kind_of_event_is_told_once_and_after_it_is_stored(hf: Holdfast) -> None:
    hf.queue("q", max_attempts=2, backoff=3600)
    told, states = Calls(), {}

    def note(event: RuntimeEvent) -> None:
        if isinstance(event, MessageEvent) and not isinstance(event, happenings.MessageStarted):
            status = hf.status(event.id)
            states[event.id] = status and status.state
        told.note(event)

    hf.on(RuntimeEvent, note)
    ways: dict[str, Any] = {
        "MessageFailed": RuntimeError("bad"),
        "MessageDied": DeadLetter("never"),
        "MessageSnoozed": Snooze(3600),
        "MessageCanceled": Cancel("nobody wants it"),
    }

    @hf.consumer("q")
    def handler(message: Message) -> None:
        if problem := ways.get(message.body):
            raise problem

    kinds = [*ways, "MessageSucceeded"]
    sent = {kind: hf.enqueue("q", kind) for kind in kinds}
    with hf.running():
        eventually(lambda: len(told.seen) == 1 + 2 * len(kinds))
    by_kind = {type(event).__name__: event for event in told.seen}
    assert {kind: by_kind[kind].id for kind in kinds} == {kind: receipt.id for kind, receipt in sent.items()}
    assert {kind: states[sent[kind].id] for kind in kinds} == {
        "MessageFailed": State.PENDING,
        "MessageDied": State.DEAD,
        "MessageSnoozed": State.PENDING,
        "MessageCanceled": State.CANCELED,
        "MessageSucceeded": State.SUCCEEDED,
    }
    assert "bad" in by_kind["MessageFailed"].error
    assert by_kind["MessageFailed"].delay >= 1800
    assert by_kind["MessageDied"].error == "never"
    assert by_kind["MessageSnoozed"].delay == 3600
    assert by_kind["MessageCanceled"].reason == "nobody wants it"
    assert [type(event).__name__ for event in told.seen].count("MessageStarted") == 5
    assert type(told.seen[0]) is happenings.ConsumerStarted
    assert type(told.seen[-1]) is happenings.ConsumerStopped
    assert len(told.seen) == 2 + 2 * len(kinds)


def test_a_retry_says_when_it_comes_again(hf: Holdfast) -> None:
    told = Calls()
    hf.on(happenings.MessageFailed, told.note)

    @hf.consumer("q")
    def handler(message: Message) -> None:
        raise Retry(1234, reason="busy")

    hf.enqueue("q", 1)
    with hf.running():
        [event] = told.wait(1)
    assert (event.delay, event.error, event.attempt) == (1234, "busy", 1)


# --- upkeep -----------------------------------------------------------------------------------------------------------


def idle(hf: Holdfast) -> None:
    hf.consumer("nothing", name="idle")(lambda message: None)


def test_queues_that_nobody_claims_from_are_looked_after(hf: Holdfast, connect: Connect) -> None:
    """Leases that lapsed, messages past their time, history that is over, notices that nobody answers.

    L12: a process that has no handler for a queue takes its messages back, and nothing dies of that.
    """
    other = connect()
    other.owner("boss")
    other.owner("mia", owner="boss", escalate_after=0.1)
    other.queue("q", backoff=0, history=0.1)
    other.queue("old", max_age=0.1)
    other.queue("dying", owner="mia", max_attempts=1)
    done = other.enqueue("q", "done")
    other.ack(other.claim("q"))
    other.queue("q", lease=0.1, backoff=0, history=0.1)  # Only now: the first one must not lapse.
    other.enqueue("q", "lapses")
    other.claim("q")
    expires = other.enqueue("old", 1)
    other.enqueue("dying", 1)
    other.dead_letter(other.claim("dying"), "boom")
    idle(hf)
    with hf.running():
        eventually(lambda: other.stats("q").pending == 1, "the lapsed lease is taken back")
        eventually(lambda: (found := other.status(expires.id)) and found.state is State.EXPIRED, "it expires")
        eventually(lambda: other.status(done.id) is None, "its history is over")
        eventually(lambda: [notice.owner for notice in other.notices.list()] == ["boss"], "the notice climbs")
    assert (other.stats("q").dead, other.stats("dying").dead) == (0, 1)


def test_one_of_two_processes_leads_and_the_other_takes_over(
    hf: Holdfast, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaper, "every", 0.0)
    monkeypatch.setattr(leading, "LOOK_EVERY", 0.05)
    turns = Calls()
    monkeypatch.setattr(reaper, "turn", lambda client: turns.note(client) or 0)
    other = connect()
    for client in (hf, other):
        idle(client)
    first, second = hf.running(), other.running()
    first.start()
    turns.wait(1)
    second.start()
    turns.wait(10)
    assert set(turns.seen) == {hf}
    first.stop()
    count = len(turns.seen)
    turns.wait(count + 2)
    assert set(turns.seen[count:]) == {other}, "at once, as the first one has stepped down"
    second.stop()


def test_a_leader_that_was_killed_is_followed_by_another(family: Family, hf: Holdfast, url: str) -> None:
    """Its lease runs out; then messages of queues that nobody claims from are looked after again."""
    hf.queue("q", lease=0.1, backoff=0)
    hf.queue("nothing")
    leader = family.start("consumer", url=url, queue="nothing", term=1.0)
    lapse(hf)
    leader.kill()
    idle(hf)
    with hf.running():
        lapse(hf)
    assert not leader.is_running


def lapse(hf: Holdfast) -> None:
    """Someone looks after a claim that nobody ends."""
    hf.enqueue("q", 1)
    assert len(hf.claim("q")) == 1
    eventually(lambda: hf.stats("q").pending == 1, "it is taken back")
    hf.queues.purge("q")
