"""L10: of fifty messages that were claimed together, the third makes trouble that no handler should make.

The others are handled, or handed back at once with no attempt spent.
"""

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import DeadLetter, Holdfast, Message, State
from holdfast.client.client import internals
from holdfast.events import MessageSucceeded
from holdfast.worker.worker import Worker
from tests.waiting import eventually
from tests.worker.steps import PATIENCE, Calls, ended

pytestmark = [
    pytest.mark.not_through_sqs("is about what was claimed together, by the fifty; SQS delivers by tens"),
    pytest.mark.above_the_stores,
]

BATCH, THIRD = 50, 3


class Fatal(BaseException):
    """What nobody expects."""


class Unspeakable:
    """Ends whoever wants to know what it is."""

    def __str__(self) -> str:
        raise SystemExit("no words")


@pytest.fixture(autouse=True)
def far_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are claimed at once, for one hand; what lies ready is not handed back because that one is slow."""
    monkeypatch.setattr("holdfast.worker.fetch.Fetching._ahead", lambda fetching: BATCH - 1)
    monkeypatch.setattr("holdfast.worker.worker.HOARDED", 3600.0)


@pytest.fixture
def sent(one: Holdfast) -> list[str]:
    """The ids of the messages; nobody gets them a second time soon."""
    one.queue("q", lease="1h", backoff=3600)
    return [receipt.id for receipt in one.enqueue_many("q", range(1, BATCH + 1), headers={"a": 1})]


def attempts(hf: Holdfast, ids: list[str]) -> dict[State, set[int]]:
    """Of messages in each state."""
    found: dict[State, set[int]] = {}
    for id in ids:
        status = hf.status(id)
        assert status is not None
        found.setdefault(status.state, set()).add(status.attempts)
    return found


def work_off(hf: Holdfast, sent: list[str], calls: Calls) -> None:
    """All but the third are done, by one claim."""
    others = [id for number, id in enumerate(sent, 1) if number != THIRD]
    with hf.running() as runner:
        for id in others:
            assert ended(hf, id) is State.SUCCEEDED
        assert not runner.workers[0].ended.is_set()
    assert attempts(hf, others) == {State.SUCCEEDED: {1}}
    assert sorted(calls.seen) == [number for number in range(1, BATCH + 1) if number != THIRD]


def raises(problem: BaseException) -> Callable[[], None]:
    def trouble() -> None:
        raise problem

    return trouble


TROUBLE = {
    "exit": raises(SystemExit(3)),
    "ctrl-c": raises(KeyboardInterrupt()),
    "fatal": raises(Fatal()),
    "generator": raises(GeneratorExit()),
    "unspeakable": raises(DeadLetter(Unspeakable())),  # type: ignore[arg-type]
}


def declare(hf: Holdfast, kind: str, calls: Calls, trouble: Callable[[], None], **options: Any) -> None:
    """A handler that gets into trouble at the third message."""

    def plain(message: Message) -> None:
        if message.body == THIRD:
            trouble()
        calls.note(message.body)

    async def awaited(message: Message) -> None:
        plain(message)

    hf.consumer("q", name="handler", **options)(plain if kind == "def" else awaited)


@pytest.mark.parametrize("trouble", TROUBLE)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_whatever_a_handler_raises_the_others_are_handled(
    one: Holdfast, sent: list[str], kind: str, trouble: str
) -> None:
    calls = Calls()
    declare(one, kind, calls, TROUBLE[trouble])
    work_off(one, sent, calls)


@pytest.mark.parametrize("trouble", TROUBLE)
def test_whatever_is_raised_around_it_the_others_are_handled(one: Holdfast, sent: list[str], trouble: str) -> None:
    """The third never gets to its handler."""
    calls = Calls()

    def around(context: Any, proceed: Callable[[], Any]) -> Any:
        if context.message.id == sent[THIRD - 1]:
            TROUBLE[trouble]()
        return proceed()

    declare(one, "def", calls, lambda: calls.note("never"), middleware=[around])
    work_off(one, sent, calls)


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("column", ["body", "headers"])
@pytest.mark.parametrize("garbage", ["CAST('{' AS BLOB)", "x'ff00'", "7", "'{'"], ids=["half", "bytes", "7", "text"])
def test_what_cannot_be_read_keeps_nobody_from_the_others(
    one: Holdfast, sent: list[str], kind: str, column: str, garbage: str
) -> None:
    """Written by someone else, or half of it lost; no handler is called with headers that cannot be read."""
    with internals(one).store.lend() as conn:
        conn.execute(f"UPDATE holdfast_message SET {column} = {garbage} WHERE body = CAST('{THIRD}' AS BLOB)")
    calls = Calls()
    declare(one, kind, calls, lambda: None)
    work_off(one, sent, calls)
    assert attempts(one, [sent[THIRD - 1]]) == {State.PENDING: {1}}


class Failing:
    """A consumer that waits at the third message, with 47 behind it, until the test is over."""

    def __init__(self, hf: Holdfast, kind: str) -> None:
        self.hf = hf
        self.entered, self.open = threading.Event(), threading.Event()
        hf.queue("q", lease="1h", backoff=3600)
        self.sent = [receipt.id for receipt in hf.enqueue_many("q", range(1, BATCH + 1))]
        hf.consumer("q", name="handler", concurrency=1)(self.plain if kind == "def" else self.awaited)
        self.runner = hf.running()

    def __enter__(self) -> Worker:
        self.runner.start()
        assert self.entered.wait(PATIENCE)
        [worker] = self.runner.workers
        worker.wake()
        return worker

    def __exit__(self, *_: object) -> None:
        self.open.set()
        self.runner.stop()

    def plain(self, message: Message) -> None:
        if message.body == THIRD:
            self.entered.set()
            assert self.open.wait(PATIENCE)

    async def awaited(self, message: Message) -> None:
        await asyncio.to_thread(self.plain, message)

    def assert_handed_back(self, worker: Worker) -> None:
        """The last 47, at once: others can have them as if they had never been claimed. What was done is stored."""
        eventually(worker.ended.is_set, "the consumer has failed")
        assert attempts(self.hf, self.sent[: THIRD - 1]) == {State.SUCCEEDED: {1}}
        claims = self.hf.claim("q", n=BATCH)
        assert [claim.message.id for claim in claims] == self.sent[THIRD:]
        assert {claim.attempt for claim in claims} == {1}


def test_a_listener_that_ends_its_thread_strands_nothing(hf: Holdfast) -> None:
    """It is called by the thread that claims, which ends the consumer."""
    failing = Failing(hf, "async def")

    def leave(event: MessageSucceeded) -> None:
        assert failing.entered.wait(PATIENCE)
        sys.exit("it has heard enough")

    hf.on(MessageSucceeded, leave)
    with failing as worker:
        failing.assert_handed_back(worker)


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_consumer_that_fails_strands_nothing(hf: Holdfast, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Whatever it was doing."""
    failing = Failing(hf, kind)
    with failing as worker:
        monkeypatch.setattr(worker, "_turn", lambda bell: raises(Fatal())())
        worker.wake()
        failing.assert_handed_back(worker)
