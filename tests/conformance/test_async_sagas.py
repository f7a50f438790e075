"""Sagas from asyncio: the same names, and a part of the caller's transaction."""

import asyncio
from pathlib import Path

import apsw

from holdfast import AsyncHoldfast, Step, Wait


def test_a_saga_from_asyncio(tmp_path: Path) -> None:
    asyncio.run(from_start_to_end(tmp_path))


def test_it_is_part_of_a_callers_transaction(tmp_path: Path) -> None:
    asyncio.run(in_a_transaction(tmp_path))


async def from_start_to_end(tmp_path: Path) -> None:
    async with AsyncHoldfast(f"sqlite:///{tmp_path}/work.db") as hf:
        assert await hf.saga("trip", steps=[Step("a", "does", undo="undoes"), Wait("b", signal="go")]) == 1
        assert await hf.start_saga("trip", {"to": "Rome"}, id="t1") == "t1"
        [claim] = await hf.claim("does")
        await claim.ack("done")
        assert await hf.signal("t1", "go", 7)
        found = await hf.saga_status("t1")
        assert found is not None
        assert (found.status, found.data) == ("completed", {"to": "Rome", "a": "done", "b": 7})
        await hf.start_saga("trip", id="t2")
        assert await hf.mark_saga_step_done("t2", "a")
        assert await hf.skip_saga_step("t2", "b", "no need")
        assert not await hf.cancel_saga("t2")
        assert not await hf.retry_saga("t2", "a")
        assert await hf.advance_sagas() == 0
        assert [saga.id for saga in await hf.sagas("completed")] == ["t1", "t2"]


async def in_a_transaction(tmp_path: Path) -> None:
    async with AsyncHoldfast(f"sqlite:///{tmp_path}/work.db") as hf:
        await hf.saga("trip", steps=[Step("a", "does")])
        connection = apsw.Connection(f"{tmp_path}/work.db")
        connection.execute("BEGIN IMMEDIATE")
        await hf.start_saga("trip", id="gone", conn=connection)
        connection.execute("ROLLBACK")
        connection.execute("BEGIN IMMEDIATE")
        await hf.start_saga("trip", id="there", conn=connection)
        connection.execute("COMMIT")
        connection.close()
        assert [saga.id for saga in await hf.sagas()] == ["there"]
