"""When a handler may start: not while its queue is paused, detached or out of budget, whatever was claimed ahead."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AsyncHoldfast, Holdfast, Message
from holdfast.client.client import internals
from holdfast.worker.call import how_to_call
from holdfast.worker.consumer import Consumer
from holdfast.worker.context import Context
from holdfast.worker.gate import UNDER_WAY
from holdfast.worker.outcomes import BudgetSpent
from tests.client_names import method_of
from tests.waiting import eventually, spend
from tests.worker.faults import Cable
from tests.worker.steps import PATIENCE, Calls

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]

Connect = Callable[..., Holdfast]

CHANGES = {
    "pause": (lambda hf: hf.queues.pause("q"), lambda hf: hf.queues.resume("q")),
    "detach": (lambda hf: hf.consumers.detach("handler", "q"), lambda hf: hf.consumers.attach("handler", "q")),
}


@pytest.fixture(params=CHANGES)
def change(request: pytest.FixtureRequest) -> Any:
    """A way to stop a queue, and the way to go on."""
    return CHANGES[request.param]


class Started:
    """The starts of a handler, and whether one came after it was forbidden."""

    def __init__(self) -> None:
        self.forbidden = False
        self.calls = Calls()
        self.late: list[Any] = []

    def note(self, message: Message, forbidden: bool) -> None:
        """`forbidden` was read by the handler itself, before it called anything: once its first line is reached, it may
        be stopped at the next call, and then it has started nevertheless."""
        if forbidden:
            self.late.append(message.body)
        self.calls.note(message.body)


def all_released(hf: Holdfast, total: int, started: Started) -> None:
    """Everything that was not started waits again, and as if it had never been claimed."""
    eventually(lambda: hf.stats("q").pending == total - len(started.calls.seen), "claimed messages are released")


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("seconds", [0.0, 0.002])
def test_nothing_starts_in_the_same_client_once_the_call_has_returned(
    hf: Holdfast, change: Any, concurrency: int, seconds: float
) -> None:
    stop, go_on = change
    started, total = Started(), 1500

    @hf.consumer("q", name="handler", concurrency=concurrency)
    def handler(message: Message) -> None:
        forbidden = started.forbidden
        started.note(message, forbidden)
        if seconds:
            spend(seconds)

    hf.enqueue_many("q", range(total))
    with hf.running():
        for count in (150, 300, 600):
            started.calls.wait(count)
            stop(hf)
            started.forbidden = True
            all_released(hf, total, started)
            assert started.late == []
            started.forbidden = False
            go_on(hf)
        started.calls.wait(total)
    assert sorted(started.calls.seen) == list(range(total)), "each once: nothing was lost, no attempt was spent"


def test_async_handlers_stop_as_well(url: str, change: Any) -> None:
    started = Started()
    verbs = {"pause": ("queues.pause", "q"), "detach": ("consumers.detach", "handler", "q")}
    verb, *arguments = verbs["pause" if change is CHANGES["pause"] else "detach"]

    async def main() -> None:
        async with AsyncHoldfast(url) as hf:

            @hf.consumer("q", name="handler", concurrency=4)
            async def handler(message: Message) -> None:
                started.note(message, started.forbidden)
                await asyncio.sleep(0.001)

            await hf.enqueue_many("q", range(2000))
            async with hf.running():
                await asyncio.to_thread(started.calls.wait, 200)
                await method_of(hf, verb)(*arguments)
                started.forbidden = True
                while (await hf.stats("q")).pending != 2000 - len(started.calls.seen):
                    await asyncio.sleep(0.01)
                assert started.late == []

    asyncio.run(main())


class Doorway:
    """Holds hands up that have passed the gate, one step before the handler."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.go_on = threading.Event(), threading.Event()
        monkeypatch.setattr("holdfast.worker.worker.how_to_call", self._how_to_call)

    def _how_to_call(self, hf: Holdfast, consumer: Consumer) -> Any:
        call = how_to_call(hf, consumer)

        def stand(context: Context) -> Any:
            self.entered.set()
            assert self.go_on.wait(PATIENCE)
            return call(context)

        async def stand_on_the_loop(context: Context) -> Any:
            return await stand(context)

        return stand_on_the_loop if consumer.is_async else stand


@pytest.mark.parametrize("kind", ["def", "async def", "object"])
def test_a_start_on_its_way_is_waited_for_however_long_it_takes(
    hf: Holdfast, connect: Connect, change: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system has stopped the thread between the look at the gate and the handler."""
    stop, _ = change
    doorway, order, other = Doorway(monkeypatch), Calls(), connect()

    def plain(message: Message) -> None:
        order.note("started")

    async def awaited(message: Message) -> None:
        order.note("started")

    class Handling:
        def __call__(self, message: Message) -> None:
            order.note("started")

    hf.consumer("q", name="handler")({"def": plain, "async def": awaited, "object": Handling()}[kind])
    hf.enqueue("q", 1)
    with hf.running() as runner:
        assert doorway.entered.wait(PATIENCE)
        entered = time.monotonic()
        pausing = threading.Thread(target=lambda: (stop(hf), order.note("returned")))
        pausing.start()
        eventually(
            lambda: (
                runner.workers[0].gate.is_unknown
                or other.queues.is_paused("q")
                or other.consumers.attachments("handler")
            )
        )
        eventually(lambda: time.monotonic() > entered + 3 * UNDER_WAY)
        doorway.go_on.set()
        pausing.join(PATIENCE)
    assert order.seen == ["started", "returned"]


def test_a_handler_that_runs_is_not_waited_for(hf: Holdfast, change: Any) -> None:
    stop, _ = change
    inside, finish, order = threading.Event(), threading.Event(), Calls()

    @hf.consumer("q", name="handler")
    def handler(message: Message) -> None:
        inside.set()
        finish.wait(PATIENCE)
        order.note("ended")

    hf.enqueue("q", 1)
    with hf.running():
        assert inside.wait(PATIENCE)
        stop(hf)
        order.note("returned")
        finish.set()
        order.wait(2)
    assert order.seen == ["returned", "ended"]


def test_a_handler_may_pause_its_own_queue(hf: Holdfast) -> None:
    started = Started()

    @hf.consumer("q", name="handler")
    def handler(message: Message) -> None:
        started.note(message, started.forbidden)
        if message.body == 700:
            hf.queues.pause("q")
            started.forbidden = True

    hf.enqueue_many("q", range(1500))
    with hf.running():
        started.calls.wait(701)
        all_released(hf, 1500, started)
    assert started.calls.seen[-1] == 700


def test_other_clients_stop_within_a_second(hf: Holdfast, connect: Connect, change: Any) -> None:
    """Hundreds of messages lie ready, since handlers were quick; then each takes 20 ms, so that a second is 50.

    By the worker's own clock: one that is stopped by a busy machine starts fewer.
    """
    stop, _ = change
    other, started = connect(), Started()

    @hf.consumer("q", name="handler")
    def handler(message: Message) -> None:
        started.note(message, started.forbidden)
        if message.body >= 2000:
            spend(0.02)

    hf.enqueue_many("q", range(6000))
    with hf.running():
        started.calls.wait(2001)
        stop(other)
        before = len(started.calls.seen)
        all_released(hf, 6000, started)
        assert len(started.calls.seen) <= before + 60


def test_who_cannot_ask_the_database_starts_nothing(hf: Holdfast, connect: Connect) -> None:
    """The handler that runs goes on; what lies ready behind it is not started, until the database is there again."""
    started, inside, finish, total = Started(), threading.Event(), threading.Event(), 3000
    cable = Cable(hf)
    cable.lay(internals(hf).store.crew, "attachments")
    cable.lay(internals(hf).store.channels, "paused")

    @hf.consumer("q", name="handler", lease=60)
    def handler(message: Message) -> None:
        started.note(message, started.forbidden)
        if message.body == 2500:
            inside.set()
            finish.wait(PATIENCE)

    hf.enqueue_many("q", range(total))
    with hf.running() as runner:
        assert inside.wait(PATIENCE)
        cable.cut.set()
        gate = runner.workers[0].gate
        eventually(lambda: cable.tried & {"attachments", "paused"}, "nobody still has an answer on its way")
        eventually(lambda: time.monotonic() > gate._deadline, "the last answer is too old")
        count = len(started.calls.seen)
        finish.set()
        eventually(lambda: cable.tries >= 3, "it asks")
        assert len(started.calls.seen) == count
        cable.cut.clear()
        started.calls.wait(total)
    assert sorted(started.calls.seen) == list(range(total))


# --- budgets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolated", [False, True], ids=["one client", "two clients"])
def test_a_message_starts_only_while_the_budget_is_not_spent(hf: Holdfast, connect: Connect, isolated: bool) -> None:
    """With each start, what was spent before it."""
    hf.queue("q", budget=150)
    hf.enqueue_many("q", range(300))
    seen = Calls()
    clients = [hf, connect()] if isolated else [hf]

    def declare(client: Holdfast) -> None:
        @client.consumer("q", name="handler")
        def handler(message: Message, context: Context) -> None:
            seen.note(client.queues.budget("q"))
            context.spend(60)

    for client in clients:
        declare(client)
    runners = [client.running() for client in clients]
    for runner in runners:
        runner.start()
    eventually(lambda: hf.queues.is_paused("q") and hf.stats("q").processing == 0, "the budget is spent")
    for runner in runners:
        runner.stop()
    assert len(seen.seen) <= 3 + len(clients) - 1, "who started beside the last one could not know"
    assert min(seen.seen) == 0
    assert hf.queues.budget("q") == 60 * len(seen.seen)
    # The report that went over the budget ended its attempt, and so did those after it: they wait again.
    assert hf.stats("q").pending == 300 - 2
    assert {claim.attempt for claim in _claim_all(hf)} == {1}


def _claim_all(hf: Holdfast) -> list[Any]:
    hf.queues.reset_budget("q")
    hf.queues.resume("q")
    return eventually(lambda: hf.claim("q", n=1000))


def test_a_budget_that_is_spent_exactly_starts_nothing_more(hf: Holdfast) -> None:
    hf.queue("q", budget=120)
    hf.enqueue_many("q", range(50))
    spent = Calls()

    @hf.consumer("q")
    def handler(message: Message, context: Context) -> None:
        try:
            context.spend(60)
        except BudgetSpent:
            spent.note("over")
            raise
        spent.note(message.body)

    with hf.running():
        spent.wait(2)
        eventually(lambda: hf.stats("q").processing == 0)
        hf.queues.resume("q")
        eventually(lambda: hf.stats("q").pending == 48, "what was claimed meanwhile is released")
        hf.queue("q", budget=180)
        assert spent.wait(3) == [0, 1, 2], "once there is more, it goes on"
        eventually(lambda: hf.stats("q").processing == 0)
    assert (len(spent.seen), hf.queues.budget("q")) == (3, 180)


# --- what others see --------------------------------------------------------------------------------------------------


def test_consumers_shows_what_is_attached_now(hf: Holdfast, connect: Connect) -> None:
    """Beats are seconds apart; and an idle consumer may be asleep."""
    other, beaten = connect(), lambda: [one.queues for one in hf.consumers.list()]

    @hf.consumer("a", "b", name="handler")
    def handler(message: Message) -> None:
        return None

    other.queue("c")
    other.queue("gpu", requires={"gpu": "yes"})
    with hf.running():
        eventually(lambda: beaten() == [["a", "b"]])
        other.consumers.detach("handler", "a")
        assert beaten() == [["b"]]
        other.consumers.attach("handler", "c")
        assert beaten() == [["b", "c"]]
        other.consumers.attach("handler", "gpu")
        assert beaten() == [["b", "c"]], "it lacks the label"
        other.consumers.attach("handler", "a")
        assert sorted(beaten()[0]) == ["a", "b", "c"]
