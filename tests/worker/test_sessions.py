"""The text that an `async def` handler keeps with its message: asked for and stored beside the loop."""

import asyncio
import threading
from typing import Any

import pytest

from holdfast import Holdfast, InvalidInput, Message, Retry, State
from holdfast.client.client import internals
from tests.worker.steps import Calls, ended

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]


def test_it_is_kept_and_does_not_block_the_loop(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    hf.queue("q", backoff=0, max_attempts=2)
    seen, asked, on_loop = Calls(), Calls(), Calls()

    def told(verb: str) -> Any:
        call = getattr(internals(hf).store.efforts, verb)
        return lambda *arguments: (asked.note((verb, threading.get_ident())), call(*arguments))[1]

    for verb in ("session", "remember"):
        monkeypatch.setattr(internals(hf).store.efforts, verb, told(verb))

    @hf.consumer("q")
    async def handler(message: Message, context: Any) -> None:
        on_loop.note(threading.get_ident())
        seen.note(await context.get_session())
        if context.attempt == 1:
            await context.set_session("conversation 7")
            raise Retry
        await context.set_session(None)
        seen.note(await context.get_session())

    sent = hf.enqueue("q", 1)
    with hf.running():
        assert ended(hf, sent.id) is State.SUCCEEDED
    assert seen.seen == [None, "conversation 7", None]
    assert [verb for verb, _ in asked.seen] == ["session", "remember", "session", "remember", "session"]
    assert {thread for _, thread in asked.seen}.isdisjoint(on_loop.seen)


def test_the_property_is_refused_on_the_loop_and_works_beside_it(one: Holdfast) -> None:
    """Whoever gives the context to a function in a thread blocks nobody."""
    seen = Calls()

    def beside(context: Any) -> str | None:
        context.session = "conversation 7"
        return context.session

    @one.consumer("q")
    async def handler(message: Message, context: Any) -> None:
        with pytest.raises(InvalidInput, match=r"await context\.get_session\(\)"):
            seen.note(context.session)
        with pytest.raises(InvalidInput, match=r"await context\.set_session\(text\)"):
            context.session = "no"
        seen.note(await asyncio.to_thread(beside, context))

    one.enqueue("q", 1)
    with one.running():
        assert seen.wait(1) == ["conversation 7"]
