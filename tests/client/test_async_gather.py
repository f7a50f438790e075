"""Group commit for asyncio: what waits is handed over while others are being told."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from holdfast.client.async_group_commit import AsyncGather
from holdfast.client.group_commit import Gather
from holdfast.client.thread_pool import Threads

pytestmark = pytest.mark.unit

PATIENCE = 60


def test_the_next_calls_are_under_way_before_anyone_is_told() -> None:
    began = {"a": threading.Event(), "b": threading.Event()}
    told = list[object]()

    def apply(items: Sequence[str]) -> list[str]:
        for item in items:
            began[item].set()
        if "a" in items:
            assert b_waits.wait(PATIENCE)
        return [item.upper() for item in items]

    def tell_a(outcome: object) -> None:
        told.append((outcome, began["b"].wait(PATIENCE)))

    async def both() -> None:
        gather = AsyncGather(Gather(apply), threads)
        gather.put(["a"], tell_a)
        await asyncio.to_thread(began["a"].wait, PATIENCE)
        over = asyncio.get_running_loop().create_future()
        gather.put(["b"], over.set_result)
        b_waits.set()
        told.append(await over)

    b_waits, threads = threading.Event(), Threads()
    asyncio.run(both())
    threads.close()
    assert told == [(["A"], True), ["B"]]


def test_a_call_that_comes_while_others_are_told_is_not_forgotten() -> None:
    async def both() -> list[str]:
        gather = AsyncGather(Gather(lambda items: list(items)), threads)
        over: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        gather.put(["a"], lambda _: gather.put(["b"], over.set_result))  # type: ignore[arg-type]
        return await asyncio.wait_for(over, PATIENCE)

    threads = Threads()
    assert asyncio.run(both()) == ["b"]
    threads.close()


def test_what_goes_wrong_is_told_to_everyone_and_the_next_are_served() -> None:
    def apply(items: Sequence[str]) -> list[str]:
        if "bad" in items:
            raise ValueError("bad")
        return list(items)

    async def each() -> list[object]:
        gather = AsyncGather(Gather(apply), threads)
        calls = [gather.call([item]) for item in ("bad", "good")]
        return await asyncio.gather(*calls, return_exceptions=True)

    threads = Threads()
    problem, good = asyncio.run(each())
    threads.close()
    assert isinstance(problem, ValueError)
    assert good == ["good"]
