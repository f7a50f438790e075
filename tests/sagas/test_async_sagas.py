"""Sagas from asyncio: the same names, and a part of the caller's transaction."""

import asyncio

import pytest

from holdfast import AsyncHoldfast, Step, Wait
from tests.client.test_conn import commit, of_the_driver, roll_back

pytestmark = pytest.mark.of_queues


def test_a_saga_from_asyncio(url: str) -> None:
    asyncio.run(from_start_to_end(url))


def test_it_is_part_of_a_callers_transaction(url: str) -> None:
    asyncio.run(in_a_transaction(url))


async def from_start_to_end(url: str) -> None:
    async with AsyncHoldfast(url) as hf:
        assert await hf.saga("trip", steps=[Step("a", "does", undo="undoes"), Wait("b", signal="go")]) == 1
        assert await hf.start_saga("trip", {"to": "Rome"}, id="t1") == "t1"
        [claim] = await hf.claim("does")
        await claim.ack("done")
        assert await hf.signal("t1", "go", 7)
        found = await hf.sagas.get("t1")
        assert found is not None
        assert (found.status, found.data) == ("completed", {"to": "Rome", "a": "done", "b": 7})
        await hf.start_saga("trip", id="t2")
        assert await hf.sagas.mark_done("t2", "a")
        assert await hf.sagas.skip("t2", "b", "no need")
        assert not await hf.sagas.cancel("t2")
        assert not await hf.sagas.retry("t2", "a")
        assert await hf.sagas.advance() == 0
        assert [saga.id for saga in await hf.sagas.list("completed")] == ["t1", "t2"]


async def in_a_transaction(url: str) -> None:
    async with AsyncHoldfast(url) as hf:
        await hf.saga("trip", steps=[Step("a", "does")])
        with of_the_driver(url) as conn:
            await hf.start_saga("trip", id="gone", conn=conn)
            roll_back(conn)
        with of_the_driver(url) as conn:
            await hf.start_saga("trip", id="there", conn=conn)
            commit(conn)
        assert [saga.id for saga in await hf.sagas.list()] == ["there"]
