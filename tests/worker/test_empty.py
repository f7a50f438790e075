"""An empty queue: looked at now and then, slept over until someone rings, or the end."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest

from holdfast import Context, Holdfast, Message, Wait
from holdfast.client.client import internals
from holdfast.events import ConsumerStopped
from holdfast.store.api import Waiter
from holdfast.worker.runner import Runner
from tests.acceptance.children import Family
from tests.clock import FakeClock
from tests.steps import NoticedBell
from tests.waiting import eventually, leave_time, spend
from tests.worker.steps import PATIENCE, Calls, ended, swallow_rings

pytestmark = [pytest.mark.on_postgres, pytest.mark.of_queues, pytest.mark.above_the_stores]

Connect = Callable[..., Holdfast]

ROLES = (
    "messages",
    "reads",
    "crew",
    "leaders",
    "upkeep",
    "channels",
    "efforts",
    "seats",
    "schedules",
    "sagas",
    "notices",
)


def declare(hf: Holdfast, *queues: str, **options: Any) -> Calls:
    seen = Calls()

    @hf.consumer(*queues, name="handler", **options)
    def handler(message: Message) -> None:
        seen.note((message.body, time.time()))

    return seen


class Meter:
    """Counts every call of a client's store, whatever it is."""

    def __init__(self, hf: Holdfast) -> None:
        self.calls: list[str] = []
        for role in ROLES:
            setattr(internals(hf).store, role, self._metered(getattr(internals(hf).store, role), role))
        internals(hf).transport.messages = self._metered(internals(hf).transport.messages, "messages")

    def _metered(self, role: Any, name: str) -> Any:
        meter = self

        class Metered:
            def __getattr__(self, verb: str) -> Any:
                meter.calls.append(f"{name}.{verb}")
                return getattr(role, verb)

        return Metered()


def asleep(runner: Runner) -> None:
    """All of them, and who keeps the house too."""
    eventually(lambda: runner._keeper.is_asleep, "sleep")


class NotedBell(NoticedBell):
    """Notes down that its sleeper has asked all that it wants to know, and lies down."""

    def __init__(self, bell: Waiter, naps: list[int]) -> None:
        super().__init__(bell, threading.Semaphore(0))
        self._naps = naps

    def wait(self, channels: Sequence[int], timeout: float) -> bool:
        self._naps.append(1)
        return super().wait(channels, timeout)


def naps_of(hf: Holdfast) -> list[int]:
    """One more for every time that somebody of this client lies down."""
    naps, bell = list[int](), internals(hf).store.wakeup.bell
    internals(hf).store.wakeup.bell = lambda: NotedBell(bell(), naps)  # type: ignore[method-assign]
    return naps


def sleeps_soundly(runner: Runner, naps: list[int]) -> None:
    """It has asked all that it wants to know, its last beat has said that it sleeps, and maintenance sleeps as well."""

    def is_told() -> bool:
        pulse = runner._beats._known.get(runner.workers[0].id)
        return pulse is not None and pulse._state == "hibernating"

    eventually(lambda: len(naps) >= runner.workers[0].naps > 0 and is_told() and runner._keeper.is_asleep, "sleep")


def last_statement(url: str) -> Any:
    """When any client began its latest statement in this database, as the server knows; looking from another one.

    The server's counters would not do: what a session did is added up to ten seconds after it fell idle.
    """
    with psycopg.connect(url.rpartition("/")[0] + "/postgres", autocommit=True) as observer:
        found = observer.execute(
            "SELECT max(query_start) FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'",
            [url.rpartition("/")[2]],
        ).fetchone()
        assert found is not None
        return found[0]


def test_who_hibernates_asks_the_database_nothing(hf: Holdfast, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the consumer, not its beats, not maintenance, which knows when the clock will have something to do; and it is
    there when someone rings."""
    monkeypatch.setattr("holdfast.worker.heartbeat.BEAT_EVERY", 0.1)
    monkeypatch.setattr("holdfast.worker.maintenance.leader.LOOK_EVERY", 0.1)
    monkeypatch.setattr("holdfast.sqs.receiver.LONGEST_NAP", 0.1)  # It notices soon that everybody sleeps.
    hf.schedule("later", queue="q", every=3600)
    hf.saga("later", steps=[Wait("an hour", delay=3600)])
    hf.start_saga("later")
    seen = declare(hf, "q", empty="hibernate")
    meter, naps = Meter(hf), naps_of(hf)
    with hf.running() as runner:
        sleeps_soundly(runner, naps)
        meter.calls.clear()
        before = last_statement(url) if url.startswith("postgres") else None
        leave_time(2)
        assert meter.calls == []
        if url.startswith("postgres"):
            assert last_statement(url) == before
        hf.enqueue("q", 1)
        seen.wait(1)
        assert meter.calls != [], "it counts"
        if url.startswith("postgres"):
            assert last_statement(url) > before


@pytest.mark.parametrize("rung", ["once", "all the time"])
def test_who_has_slept_for_a_while_knows_what_its_queue_has_become(
    hf: Holdfast, connect: Connect, monkeypatch: pytest.MonkeyPatch, rung: str
) -> None:
    """Also if it was woken all the while, for what others have got."""
    monkeypatch.setattr("holdfast.worker.fetch.AS_BEFORE", 0.05)
    monkeypatch.setattr("holdfast.client.catalog.FRESH", 0.05)
    terms = Calls()

    @hf.consumer("q", empty="hibernate")
    def handler(message: Message, context: Context) -> None:
        lease = context.claim.lease
        terms.note(lease.until_us - lease.since_us)

    with hf.running() as runner:
        asleep(runner)
        other = connect()
        other.queue("q", lease=77)
        channel = internals(other).catalog.channel("q")
        for _ in range(20):
            spend(0.01)
            if rung == "all the time":
                internals(other).store.wakeup.ring([channel.id])
        other.enqueue("q", 1)
        assert terms.wait(1) == [77_000_000]


def test_who_is_told_to_stop_while_it_sleeps_claims_nothing_more(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.worker.fetch.AS_BEFORE", 3600.0)
    declare(hf, "q", empty="hibernate")
    meter = Meter(hf)
    with hf.running() as runner:
        asleep(runner)
        meter.calls.clear()
    assert "messages.claim" not in meter.calls


@pytest.mark.parametrize("empty", ["poll", "hibernate"])
def test_it_is_woken_by_an_enqueue_from_another_process(
    family: Family, hf: Holdfast, url: str, empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for nap in ("LONGEST_NAP", "SAFETY_NAP"):
        monkeypatch.setattr(f"holdfast.worker.worker.{nap}", 3600.0)  # Only a ring wakes it.
    seen = declare(hf, "q", empty=empty)
    sender = family.start("puppet", url=url, queue="q")
    sender.ask("send", value="first")
    with hf.running() as runner:
        seen.wait(1)
        eventually(lambda: runner.workers[0].state in ("idle", "hibernating"))
        for number in range(5):
            leave_time(0.15)  # It sleeps again, most likely.
            sender.ask("send", value=f"{number}")
            assert seen.wait(number + 2)[-1][0] == f"{number}"


@pytest.mark.parametrize("empty", ["poll", "hibernate"])
def test_it_looks_for_itself_if_nobody_rings(
    hf: Holdfast, connect: Connect, empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for nap in ("LONGEST_NAP", "SAFETY_NAP"):
        monkeypatch.setattr(f"holdfast.worker.worker.{nap}", 0.3)
    monkeypatch.setattr("holdfast.worker.maintenance.duties.wakeups.turn", lambda hf: 0)
    seen, other = declare(hf, "q", empty=empty), connect()
    swallow_rings(monkeypatch, other)
    with hf.running() as runner:
        eventually(lambda: runner.workers[0].state == ("idle" if empty == "poll" else "hibernating"), "it sleeps")
        for number in range(2):
            other.enqueue("q", number)
            seen.wait(number + 1)


@pytest.mark.parametrize("empty", ["poll", "hibernate"])
def test_a_clock_that_jumps_stops_nobody(url: str, empty: str) -> None:
    """T2: an hour back, two hours on, and back again, while the consumer sleeps and while a handler runs."""
    clock, begun, go_on = FakeClock(), Calls(), threading.Semaphore(0)
    with Holdfast(url, clock=clock) as hf:
        hf.queue("q", lease=20_000, max_attempts=1)

        @hf.consumer("q", empty=empty)
        def handler(message: Message) -> None:
            begun.note(message.body)
            go_on.acquire()

        with hf.running() as runner:
            for number, jump in enumerate([-3600, 7200, -3600, 3600]):
                eventually(lambda: runner.workers[0].state in ("idle", "hibernating"), "it sleeps")
                clock.advance(jump)
                sent = hf.enqueue("q", number)
                begun.wait(number + 1)
                clock.advance(-jump / 2)
                go_on.release()
                assert ended(hf, sent.id) == "succeeded"
    assert begun.seen == [0, 1, 2, 3], "once each"


def test_terminate_is_the_end_and_no_crash(hf: Holdfast) -> None:
    seen, reasons = declare(hf, "q", empty="terminate"), Calls()
    hf.on(ConsumerStopped, lambda event: reasons.note(event.reason))
    hf.enqueue_many("q", range(50))
    hf.run()
    assert len(seen.seen) == 50
    assert reasons.seen == ["empty"]
    assert hf.stats("q").queue_depth + hf.stats("q").processing == 0


def test_terminate_may_be_the_queues_own_wish(hf: Holdfast) -> None:
    hf.queue("q", empty="terminate")
    seen = declare(hf, "q")
    hf.enqueue("q", 1)
    hf.run()
    assert len(seen.seen) == 1


def test_terminate_waits_for_what_is_in_hand_and_not_for_what_is_due_later(hf: Holdfast) -> None:
    seen = declare(hf, "q", empty="terminate")
    hf.enqueue("q", "later", delay=3600)
    hf.enqueue("q", "now")
    hf.run()
    assert [body for body, _ in seen.seen] == ["now"]
    assert hf.stats("q").waiting == 1


def test_each_queue_has_its_own_wish(hf: Holdfast) -> None:
    """The one is left for good when it is empty, the other goes on."""
    seen = declare(hf, "a", "b", empty={"a": "terminate", "b": "poll"})
    hf.enqueue("a", 1)
    with hf.running() as runner:
        seen.wait(1)
        eventually(lambda: runner.workers[0].attachments.queues == ["b"])
        hf.enqueue("a", 2)
        hf.enqueue("b", 3)
        assert [body for body, _ in seen.wait(2)] == [1, 3]
    assert hf.stats("a").pending == 1


def test_a_queue_that_was_left_is_taken_from_again_once_someone_says_so(hf: Holdfast) -> None:
    """And left again, if it is empty and nobody has said otherwise."""
    seen = declare(hf, "a", "b", empty={"a": "terminate", "b": "poll"})
    with hf.running() as runner:
        eventually(lambda: runner.workers[0].attachments.queues == ["b"], "it is left")
        hf.enqueue("a", 1)
        hf.consumers.attach("handler", "a", weight=2)
        assert [body for body, _ in seen.wait(1)] == [1]
        eventually(lambda: runner.workers[0].attachments.queues == ["b"], "it is left again")
        hf.enqueue("a", 2)
        hf.consumers.attach("handler", "a", empty="poll")
        hf.enqueue("b", 3)
        assert sorted(body for body, _ in seen.wait(3)) == [1, 2, 3]
        hf.enqueue("a", 4)
        assert [body for body, _ in seen.wait(4)][3] == 4
        assert runner.workers[0].attachments.queues == ["a", "b"]


def test_one_that_ends_leaves_the_others_at_work(hf: Holdfast) -> None:
    seen, other = declare(hf, "q", empty="terminate"), Calls()
    hf.consumer("other", name="other")(lambda message: other.note(message.body))
    hf.enqueue("q", 1)
    running = threading.Thread(target=hf.run, daemon=True)
    running.start()
    seen.wait(1)
    eventually(lambda: internals(hf).consumers.runner and internals(hf).consumers.runner.workers[0].ended.is_set())
    hf.enqueue("other", 2)
    assert other.wait(1) == [2]
    hf.stop()
    running.join(PATIENCE)
    assert not running.is_alive()
