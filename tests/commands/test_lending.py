"""Connections that are lent to commands: used again, found as new, and replaced when they break."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.client.client import internals

pytestmark = [pytest.mark.both_engines, pytest.mark.of_queues]

SQLITE = "sqlite"


@pytest.fixture
def lend(hf: Holdfast) -> Callable[[], Any]:
    hf.queue("q")
    with internals(hf).store.lend() as conn:
        conn.execute("CREATE TABLE effect (what TEXT)")
    return internals(hf).store.lend


def is_sqlite(hf: Holdfast) -> bool:
    return hf.settings.url.startswith(SQLITE)


def effects(lend: Callable[[], Any]) -> list[str]:
    with lend() as conn:
        return [what for (what,) in conn.execute("SELECT what FROM effect ORDER BY what").fetchall()]


def test_one_that_went_well_is_used_again(lend: Callable[[], Any]) -> None:
    with lend() as first:
        first.execute("INSERT INTO effect VALUES ('a')")
    with lend() as second:
        assert second is first
    assert effects(lend) == ["a"]


def test_after_a_failure_nothing_of_it_is_left(lend: Callable[[], Any]) -> None:
    def write(then: Callable[[Any], object]) -> None:
        with lend() as conn:
            conn.execute("INSERT INTO effect VALUES ('a')")
            then(conn)

    def interrupt(conn: Any) -> None:
        raise KeyboardInterrupt

    for then, problem in (
        (lambda conn: 1 / 0, ZeroDivisionError),
        (interrupt, KeyboardInterrupt),
        (lambda conn: conn.execute("SELECT * FROM nowhere"), Exception),
    ):
        with pytest.raises(problem):
            write(then)
    assert effects(lend) == []


def test_what_was_set_on_it_goes_with_its_user(hf: Holdfast, lend: Callable[[], Any]) -> None:
    leave, look = (LEAVE_SQLITE, LOOK_SQLITE) if is_sqlite(hf) else (LEAVE_POSTGRES, LOOK_POSTGRES)
    with lend() as conn:
        usual = [conn.execute(one).fetchall() for one in look]
    with lend() as conn:
        for one in leave:
            conn.execute(one)
        if not is_sqlite(hf):
            conn.row_factory = lambda cursor: lambda row: "odd"
            conn.prepare_threshold = 1
        elif hf.settings.url.endswith("stdlib"):
            conn.row_factory = lambda cursor, row: "odd"
        else:
            conn.row_trace = lambda cursor, row: "odd"
    for _ in range(2):
        with lend() as conn:
            assert [conn.execute(one).fetchall() for one in look] == usual
            conn.execute("CREATE TEMP TABLE passing (a INT)")


LOOK_SQLITE = ["PRAGMA synchronous", "PRAGMA secure_delete", "PRAGMA database_list"]
LEAVE_SQLITE = ["CREATE TEMP TABLE passing (a INT)", "PRAGMA secure_delete = ON"]
LOOK_POSTGRES = [
    "SHOW work_mem",
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
    "SELECT 1",
]
LEAVE_POSTGRES = [
    "CREATE TEMP TABLE passing (a INT)",
    "SET work_mem = '77MB'",
    "SELECT pg_advisory_lock(4711)",
    "PREPARE mine AS SELECT 1",
]


def test_a_query_that_was_not_read_to_its_end_holds_nothing_up(hf: Holdfast, lend: Callable[[], Any]) -> None:
    with lend() as conn:
        for _ in range(100):
            conn.execute("INSERT INTO effect VALUES ('x')")
    with lend() as conn:
        unread = conn.execute("SELECT what FROM effect")
        assert next(iter(unread)) is not None
    if is_sqlite(hf):
        hf.enqueue("q", 1)
        assert internals(hf).store.database.write(lambda tx: True)  # type: ignore[attr-defined]
        with lend() as conn:
            assert conn.execute("SELECT count(*) FROM effect").fetchall() == [(100,)]
    del unread
    assert len(effects(lend)) == 100


def test_one_that_broke_while_it_waited_is_replaced(hf: Holdfast, lend: Callable[[], Any]) -> None:
    with lend() as conn:
        driver = conn
    if is_sqlite(hf):
        driver.close()
    else:
        pid = driver.info.backend_pid
        internals(hf).store.database.read(lambda tx: tx.execute(f"SELECT pg_terminate_backend({pid}, 10000)"))  # type: ignore[attr-defined]
    with lend() as conn:
        conn.execute("INSERT INTO effect VALUES ('a')")
        assert conn is not driver
    assert effects(lend) == ["a"]


def test_close_closes_those_that_wait(hf: Holdfast, lend: Callable[[], Any]) -> None:
    with lend() as conn:
        driver = conn
    hf.close()
    if is_sqlite(hf):
        with pytest.raises(Exception, match=r"(?i)closed"):
            driver.execute("SELECT 1")
    else:
        assert driver.closed


def test_many_threads_share_them(lend: Callable[[], Any]) -> None:
    def write(number: int) -> None:
        for turn in range(5):
            with lend() as conn:
                conn.execute(f"INSERT INTO effect VALUES ('{number}-{turn}')")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert effects(lend) == sorted(f"{number}-{turn}" for number in range(12) for turn in range(5))


def test_on_a_loop_they_are_used_again_as_well(hf: Holdfast, lend: Callable[[], Any]) -> None:
    async def write(what: str, failure: type[BaseException] | None = None) -> Any:
        async with internals(hf).store.lend.awaited() as conn:
            found = conn.execute(f"INSERT INTO effect VALUES ('{what}')")
            if asyncio.iscoroutine(found):
                await found
            if failure is not None:
                raise failure
            return conn

    async def story() -> list[bool]:
        first = await write("a")
        second = await write("b")
        with pytest.raises(ValueError):  # noqa: PT011
            await write("c", ValueError)
        await asyncio.gather(*(write(f"d{number}") for number in range(6)))
        return [first is second]

    assert asyncio.run(story()) == [True]
    assert asyncio.run(story()) == [True]  # A loop of its own has connections of its own.
    assert effects(lend) == sorted(2 * ["a", "b", *(f"d{number}" for number in range(6))])
