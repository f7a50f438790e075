"""`context.enqueue` takes what `hf.enqueue` takes, wherever the handler runs."""

import inspect
from typing import Any

import pytest

from holdfast import Holdfast, Message, State
from holdfast.worker.context import Context
from holdfast.worker.executors.asyncio import AsyncContext
from holdfast.worker.executors.process_child import CellContext
from tests.worker import cells
from tests.worker.steps import ended

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]


@pytest.mark.parametrize("kind", [Context, AsyncContext, CellContext])
def test_it_has_the_arguments_of_the_client(kind: Any) -> None:
    of_client = inspect.signature(Holdfast.enqueue)
    without = [one for name, one in of_client.parameters.items() if name != "conn"]
    assert inspect.signature(kind.enqueue) == of_client.replace(parameters=without)


async def promise(message: Message, context: Any) -> None:
    """As `cells.promise`."""
    await context.enqueue("parts", 1, **cells.PROMISES)


@pytest.mark.parametrize("kind", ["def", "async def", "process"])
def test_budget_and_commitments_arrive(hf: Holdfast, kind: str) -> None:
    hf.queue("q", max_attempts=1)
    isolation = "process" if kind == "process" else "thread"
    hf.consumer("q", isolation=isolation)(promise if kind == "async def" else cells.promise)
    sent = hf.enqueue("q", 1)
    hf.enqueue("wanted", 1, **cells.PROMISES)
    with hf.running():
        assert ended(hf, sent.id) is State.SUCCEEDED
    [found], [wanted] = hf.queues.peek("parts"), hf.queues.peek("wanted")
    assert found.headers == wanted.headers
    assert len(found.headers) == 2, "budget and commitments travel there"


@pytest.mark.parametrize("kind", ["def", "async def", "process"])
def test_a_body_has_to_fit_the_message_type(hf: Holdfast, kind: str) -> None:
    hf.queue("q", max_attempts=1)
    hf.queue("parts", message_type=str)
    isolation = "process" if kind == "process" else "thread"
    hf.consumer("q", isolation=isolation)(promise if kind == "async def" else cells.promise)
    sent = hf.enqueue("q", 1)
    with hf.running():
        assert ended(hf, sent.id) is State.DEAD
    [letter] = hf.dead_letters.list("q")
    assert "does not fit the message type of 'parts': Expected `str`, got `int`" in letter.error
    assert hf.queues.peek("parts") == []
