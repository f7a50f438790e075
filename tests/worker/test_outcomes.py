"""What a handler returns or raises is how its message ends."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import Cancel, DeadLetter, Holdfast, Message, Retry, Snooze, State
from holdfast.worker.consumer import Consumer
from holdfast.worker.context import Context
from tests.waiting import eventually
from tests.worker.steps import Calls, ended

pytestmark = [
    pytest.mark.behind_pooler,
    pytest.mark.on_postgres,
    pytest.mark.through_sqs,
    pytest.mark.of_queues,
    pytest.mark.above_the_stores,
]


@pytest.fixture(params=["def", "async def"])
def declare(request: pytest.FixtureRequest, hf: Holdfast) -> Any:
    """Makes a consumer of a function, as it is or as a coroutine."""

    def consumer(function: Any, **options: Any) -> Consumer:
        if request.param == "def":

            def plain(message: Message, context: Context) -> Any:
                return function(message, context)

            return hf.consumer("q", name="handler", **options)(plain)

        async def awaited(message: Message, context: Context) -> Any:
            await asyncio.sleep(0)
            return function(message, context)

        return hf.consumer("q", name="handler", **options)(awaited)

    return consumer


def test_what_it_returns_is_the_result(hf: Holdfast, declare: Any) -> None:
    declare(lambda message, context: {"twice": message.body * 2})
    sent = hf.enqueue("q", 21)
    with hf.running():
        assert ended(hf, sent.id) is State.SUCCEEDED
    status = hf.status(sent.id)
    assert status is not None
    assert status.result == {"twice": 42}


@pytest.mark.parametrize("result", [None, "done"])
def test_what_it_has_read_is_not_kept_and_can_be_read_again(hf: Holdfast, declare: Any, result: str | None) -> None:
    """Of thousands that are handled at once, and are settled together later, the bodies would fill the memory twice."""
    bodies: list[tuple[Message, Any]] = []

    def read(message: Message, context: Context) -> str | None:
        assert message.body is message.body
        bodies.append((message, message.body))
        return result

    declare(read)
    sent = hf.enqueue("q", {"n": [1, 2]})
    with hf.running():
        assert ended(hf, sent.id) is State.SUCCEEDED
    [(message, body)] = bodies
    assert message.body == body == {"n": [1, 2]}
    assert message.body is not body


def test_what_it_raises_is_tried_again_until_it_is_dead(hf: Holdfast, declare: Any) -> None:
    hf.queue("q", max_attempts=3, backoff=0)
    calls = Calls()

    def fail(message: Message, context: Context) -> None:
        calls.note(context.attempt)
        raise RuntimeError("no luck")

    declare(fail)
    sent = hf.enqueue("q", 1)
    with hf.running():
        assert ended(hf, sent.id) is State.DEAD
    assert calls.seen == [1, 2, 3]
    [letter] = hf.dead_letters.list("q")
    assert "RuntimeError: no luck" in letter.error
    assert [failure.attempt for failure in letter.history] == [1, 2, 3]


def test_a_body_that_does_not_fit_the_message_type_never_reaches_a_handler(hf: Holdfast, declare: Any) -> None:
    calls = Calls()
    declare(lambda message, context: calls.note(message.body))
    misfit = hf.enqueue("q", "text")
    hf.queue("q", message_type=int)
    sent = hf.enqueue("q", 7)
    with hf.running():
        assert ended(hf, sent.id) is State.SUCCEEDED
        assert ended(hf, misfit.id) is State.DEAD
    assert calls.seen == [7]
    [letter] = hf.dead_letters.list("q")
    assert "Expected `int`, got `str`" in letter.error


def test_retry_says_when(hf: Holdfast, declare: Any) -> None:
    hf.queue("q", backoff=3600)
    calls = Calls()

    def once_more(message: Message, context: Context) -> None:
        calls.note(context.attempt)
        if context.attempt == 1:
            raise Retry(0.05, reason="not yet")

    declare(once_more)
    sent = hf.enqueue("q", 1)
    with hf.running():
        assert ended(hf, sent.id) is State.SUCCEEDED
    assert calls.seen == [1, 2]


def test_a_snooze_spends_no_attempt(hf: Holdfast, declare: Any) -> None:
    hf.queue("q", max_attempts=1)
    calls = Calls()

    def later(message: Message, context: Context) -> None:
        calls.note(context.attempt)
        if len(calls.seen) == 1:
            raise Snooze(0.05)
        if len(calls.seen) == 2:
            raise Snooze(datetime.now(UTC) + timedelta(seconds=0.05))

    declare(later)
    sent = hf.enqueue("q", 1)
    with hf.running():
        assert ended(hf, sent.id) is State.SUCCEEDED
    assert calls.seen == [1, 1, 1]


@pytest.mark.parametrize("way", ["lane", "row"])
def test_cancel_ends_it_without_a_dead_letter(hf: Holdfast, declare: Any, way: str) -> None:
    def unwanted(message: Message, context: Context) -> None:
        raise Cancel("nobody wants it")

    declare(unwanted)
    sent = hf.enqueue("q", 1, delay=0 if way == "lane" else 0.001)
    with hf.running():
        assert ended(hf, sent.id) is State.CANCELED
    [line] = hf.status(sent.id).history  # type: ignore[union-attr]
    assert (line.attempt, line.error, line.at_us > 0) == (1, "nobody wants it", True)
    assert hf.dead_letters.list("q") == []
    assert hf.stats("q").queue_depth == 0
    assert hf.stats("q").in_flight_count == 0


def test_the_reason_of_a_cancel_follows_what_failed_before(hf: Holdfast, declare: Any) -> None:
    hf.queue("q", backoff=0)

    def at_last(message: Message, context: Context) -> None:
        raise Retry(reason="not yet") if context.attempt == 1 else Cancel("nobody wants it")

    declare(at_last)
    sent = hf.enqueue("q", 1)
    with hf.running():
        assert ended(hf, sent.id) is State.CANCELED
    history = hf.status(sent.id).history  # type: ignore[union-attr]
    assert [(line.attempt, line.error) for line in history] == [(1, "not yet"), (2, "nobody wants it")]


def test_dead_letter_ends_it_now(hf: Holdfast, declare: Any) -> None:
    def never(message: Message, context: Context) -> None:
        raise DeadLetter("no such address")

    declare(never)
    sent = hf.enqueue("q", 1)
    with hf.running():
        assert ended(hf, sent.id) is State.DEAD
    [letter] = hf.dead_letters.list("q")
    assert (letter.error, letter.attempts) == ("no such address", 1)


def test_errors_that_are_permanent_are_not_tried_again(hf: Holdfast, declare: Any) -> None:
    def broken(message: Message, context: Context) -> None:
        raise {1: ValueError, 2: KeyError}[message.body]("bad")

    hf.queue("q", backoff=3600)
    declare(broken, permanent=(ValueError,))
    dead, again = hf.enqueue_many("q", [1, 2])
    with hf.running():
        assert ended(hf, dead.id) is State.DEAD
        eventually(lambda: hf.stats("q").waiting == 1)
    status = hf.status(again.id)
    assert status is not None
    assert status.state is State.PENDING


class Wordless:
    """Cannot be told in words."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("reason", [Wordless(), "a\ud800b\0"], ids=["raises", "no text"])
def test_a_reason_that_cannot_be_told_ends_the_message_and_not_the_worker(
    hf: Holdfast, declare: Any, reason: Any
) -> None:
    hf.queue("q", max_attempts=1)

    def hopeless(message: Message, context: Context) -> None:
        if message.body == "bad":
            raise DeadLetter(reason)

    declare(hopeless)
    bad, good = hf.enqueue("q", "bad"), hf.enqueue("q", "good")
    with hf.running():
        assert ended(hf, bad.id) is State.DEAD
        assert ended(hf, good.id) is State.SUCCEEDED


def test_a_result_that_is_no_json_is_a_failure(hf: Holdfast, declare: Any) -> None:
    hf.queue("q", max_attempts=1)
    declare(lambda message, context: object())
    sent = hf.enqueue("q", 1)
    with hf.running():
        assert ended(hf, sent.id) is State.DEAD
    assert "result" in hf.dead_letters.list("q")[0].error


def test_what_follows_arrives_with_the_ack(hf: Holdfast) -> None:
    @hf.consumer("q", name="plain")
    def split(message: Message, context: Context) -> None:
        for part in message.body:
            context.enqueue("parts", part, priority="high", key="k")

    @hf.consumer("aq", name="awaited")
    async def split_too(message: Message, context: Any) -> None:
        for part in message.body:
            await context.enqueue("parts", part)

    hf.enqueue("q", [1, 2])
    hf.enqueue("aq", [3])
    with hf.running():
        eventually(lambda: hf.stats("parts").pending == 3)
    assert sorted(message.body for message in hf.queues.peek("parts")) == [1, 2, 3]
    assert {message.key for message in hf.queues.peek("parts")} == {"k", None}


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_what_follows_a_failure_never_was(hf: Holdfast, kind: str) -> None:
    hf.queue("q", max_attempts=2, backoff=0)

    def split(message: Message, context: Context) -> None:
        context.enqueue("parts", context.attempt)
        if context.attempt == 1:
            raise RuntimeError("after the enqueue")

    async def split_too(message: Message, context: Any) -> None:
        await context.enqueue("parts", context.attempt)
        if context.attempt == 1:
            raise RuntimeError("after the enqueue")

    hf.consumer("q", name="handler")(split if kind == "def" else split_too)
    sent = hf.enqueue("q", 1)
    with hf.running():
        assert ended(hf, sent.id) is State.SUCCEEDED
    assert [message.body for message in hf.queues.peek("parts")] == [2]


def test_what_follows_does_not_fit_so_the_attempt_failed(hf: Holdfast) -> None:
    hf.queue("q", max_attempts=1)
    hf.queue("parts", max_depth=1)

    @hf.consumer("q")
    def split(message: Message, context: Context) -> None:
        for part in message.body:
            context.enqueue("parts", part)

    too_many, fits = hf.enqueue("q", [1, 2]), hf.enqueue("q", [3])
    with hf.running():
        assert ended(hf, too_many.id) is State.DEAD
        assert ended(hf, fits.id) is State.SUCCEEDED
    assert "max_depth" in hf.dead_letters.list("q")[0].error
    assert [message.body for message in hf.queues.peek("parts")] == [3]


@pytest.mark.not_through_sqs("three thousand, likewise")
def test_many_fast_messages_are_all_done_once(hf: Holdfast, declare: Any) -> None:
    calls = Calls()
    declare(lambda message, context: calls.note(message.body), concurrency=4)
    hf.enqueue_many("q", range(3000))
    with hf.running():
        seen = calls.wait(3000)
        eventually(lambda: hf.stats("q").in_flight_count == 0)
    assert sorted(seen) == list(range(3000))
    assert hf.stats("q").queue_depth == 0


def test_one_poison_in_a_run_dies_alone(hf: Holdfast, declare: Any) -> None:
    hf.queue("q", max_attempts=2, backoff=0)
    calls = Calls()

    def mostly(message: Message, context: Context) -> None:
        calls.note(message.body)
        if message.body == 77:
            raise RuntimeError("poison")

    declare(mostly)
    receipts = hf.enqueue_many("q", range(200))
    with hf.running():
        assert ended(hf, receipts[77].id) is State.DEAD
        eventually(lambda: len(set(calls.seen)) == 200 and hf.stats("q").in_flight_count == 0)
    assert sorted(calls.seen) == sorted([*range(200), 77])
    assert [letter.message.body for letter in hf.dead_letters.list("q")] == [77]
