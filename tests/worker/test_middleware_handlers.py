"""Functions around handlers, and around what follows from them: in which order, and how they refuse."""

import functools
from typing import Any

import pytest

from holdfast import Context, Holdfast, InvalidInput, Message, Outgoing, State
from tests.waiting import eventually
from tests.worker.stamps import async_stamp, stamp
from tests.worker.steps import Calls, ended

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]


def consume(hf: Holdfast, kind: str, handle: Any) -> None:
    """A consumer of `q`. `handle` gets the message and a `context.enqueue` that gives back what it gives."""
    if kind == "def":

        @hf.consumer("q", name="handler")
        def plain(message: Message, context: Context) -> None:
            handle(message, context)

    else:

        @hf.consumer("q", name="handler")
        async def awaited(message: Message, context: Any) -> None:
            given = handle(message, context)
            if given is not None:
                await given


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_around_what_follows(hf: Holdfast, kind: str) -> None:
    hf.around_enqueue(stamp("def"))
    hf.around_enqueue(async_stamp("async def"))
    consume(hf, kind, lambda message, context: context.enqueue("next", message.body, headers={"mine": 1}))
    hf.enqueue("q", 1)
    with hf.running():
        [follower] = eventually(lambda: hf.queues.peek("next"))
    assert follower.headers == {"mine": 1, "by": [kind]}


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_was_refused_does_not_follow_even_if_the_handler_goes_on(hf: Holdfast, kind: str, when: str) -> None:
    problems = Calls()

    @hf.around_enqueue
    def refuse(outgoing: Outgoing, proceed: Any) -> Any:
        if outgoing.queue == "q":
            return proceed()
        given = proceed() if when == "after" else None
        raise PermissionError(f"not {given}")

    @hf.around_enqueue
    async def refuse_awaited(outgoing: Outgoing, proceed: Any) -> Any:
        given = await proceed() if when == "after" else None
        raise PermissionError(f"not {given}")

    def go_on(message: Message, context: Context) -> None:
        try:
            context.enqueue("next", 1)
        except PermissionError as problem:
            problems.note(problem)

    async def go_on_awaited(message: Message, context: Any) -> None:
        try:
            await context.enqueue("next", 1)
        except PermissionError as problem:
            problems.note(problem)

    consume(hf, kind, go_on if kind == "def" else go_on_awaited)
    sent = hf.enqueue("q", 1)
    with hf.running():
        assert ended(hf, sent.id) is State.SUCCEEDED
    assert len(problems.seen) == 1
    assert hf.stats("next").queue_depth == 0


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_change_that_is_refused_fails_the_attempt(hf: Holdfast, kind: str) -> None:
    hf.queue("q", max_attempts=1)
    sent = hf.enqueue("q", 1)

    def spoil(outgoing: Outgoing, proceed: Any) -> Any:
        outgoing.headers = {"a": object()}
        return proceed()

    async def spoil_awaited(outgoing: Outgoing, proceed: Any) -> Any:
        return await spoil(outgoing, proceed)

    hf.around_enqueue(spoil)
    hf.around_enqueue(spoil_awaited)
    consume(hf, kind, lambda message, context: context.enqueue("next", 1))
    with hf.running():
        assert ended(hf, sent.id) is State.DEAD
    assert "headers" in hf.dead_letters.list("q")[0].error
    assert "next" not in hf.queues.list()


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_around_a_handler_the_clients_come_first(hf: Holdfast, kind: str) -> None:
    calls = Calls()

    def around(name: str) -> Any:
        def plain(context: Context, proceed: Any) -> Any:
            calls.note(f"{name} begins {context.message.body}")
            try:
                return proceed()
            finally:
                calls.note(f"{name} ends")

        async def awaited(context: Context, proceed: Any) -> Any:
            calls.note(f"{name} begins {context.message.body}")
            try:
                return await proceed()
            finally:
                calls.note(f"{name} ends")

        return plain if kind == "def" else awaited

    hf.around_execute(around("first"))
    hf.around_execute(around("second"))
    options: dict[str, Any] = {"name": "handler", "middleware": [around("own")]}
    if kind == "def":
        hf.consumer("q", **options)(lambda message: calls.note("handler"))
    else:

        @hf.consumer("q", **options)
        async def handle(message: Message) -> None:
            calls.note("handler")

    sent = hf.enqueue("q", 1)
    with hf.running():
        assert ended(hf, sent.id) is State.SUCCEEDED
    begun = ["first begins 1", "second begins 1", "own begins 1"]
    assert calls.seen == [*begun, "handler", "own ends", "second ends", "first ends"]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_handler_is_refused_by_raising_and_its_result_may_be_changed(hf: Holdfast, kind: str) -> None:
    hf.queue("q", max_attempts=1)

    def decide(context: Context, proceed: Any) -> Any:
        if context.message.body == "refused":
            raise PermissionError("not this one")
        return proceed()

    def plain(context: Context, proceed: Any) -> Any:
        return {"instead of": decide(context, proceed)}

    async def awaited(context: Context, proceed: Any) -> Any:
        return {"instead of": await decide(context, proceed)}

    hf.around_execute(plain if kind == "def" else awaited)
    if kind == "def":
        hf.consumer("q", name="handler")(lambda message: message.body)
    else:

        @hf.consumer("q", name="handler")
        async def handle(message: Message) -> Any:
            return message.body

    refused, allowed = hf.enqueue_many("q", ["refused", "allowed"])
    with hf.running():
        assert ended(hf, refused.id) is State.DEAD
        assert ended(hf, allowed.id) is State.SUCCEEDED
    status = hf.status(allowed.id)
    assert status is not None
    assert status.result == {"instead of": "allowed"}
    assert "not this one" in hf.dead_letters.list("q")[0].error


def test_what_nobody_would_await_is_refused_when_it_is_declared(one: Holdfast) -> None:
    """An `async def` around a `def` would never run, nor the handler, and the message would count as done."""

    async def awaited(context: Context, proceed: Any) -> Any:
        return await proceed()

    class Awaited:
        async def __call__(self, context: Context, proceed: Any) -> Any:
            return await proceed()

    for middleware in (awaited, functools.partial(awaited), Awaited()):
        with pytest.raises(InvalidInput, match="middleware of a `def` handler must be `def` functions"):
            one.consumer("q", middleware=[middleware])(lambda message: None)

    @one.consumer("q", middleware=[awaited, lambda context, proceed: proceed()])
    async def handler(message: Message) -> str:
        return "done"

    sent = one.enqueue("q", 1)
    with one.running():
        assert ended(one, sent.id) == State.SUCCEEDED
