"""`conn=`: part of the caller's transaction on every store, through every kind of connection."""

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from holdfast import Holdfast, State
from holdfast.client.client import internals
from holdfast.errors import EngineConflict, IdempotencyConflict, InvalidInput, LeaseLost, StoreError, UnknownQueue
from tests.clock import FakeClock
from tests.steps import OpenClient, drain, listening, sleepers, state

pytestmark = [pytest.mark.both_engines, pytest.mark.of_queues]

Begin = Callable[[], Any]


def path_of(url: str) -> str:
    return url.removeprefix("sqlite:///").partition("?")[0]


@contextmanager
def of_the_driver(url: str) -> Iterator[Any]:
    """A connection of the store's own driver, in a transaction."""
    if url.startswith("postgresql"):
        connection: Any = psycopg.connect(url)
    elif "apsw" in url:
        connection = apsw.Connection(path_of(url))
        connection.set_busy_timeout(5_000)
        connection.execute("BEGIN IMMEDIATE")
    else:
        connection = sqlite3.connect(path_of(url))
    try:
        yield connection
    finally:
        connection.close()


def commit(connection: Any) -> None:
    connection.execute("COMMIT") if isinstance(connection, apsw.Connection) else connection.commit()


def roll_back(connection: Any) -> None:
    connection.execute("ROLLBACK") if isinstance(connection, apsw.Connection) else connection.rollback()


@pytest.fixture
def conn(url: str, hf: Holdfast) -> Iterator[Any]:
    """The caller's own connection. The queue is there before its transaction begins, as in most programs."""
    hf.queue("q")
    with of_the_driver(url) as connection:
        yield connection


def test_committed_with_the_callers_own_writes(hf: Holdfast, conn: Any) -> None:
    conn.execute("CREATE TABLE orders (id bigint)")
    conn.execute("INSERT INTO orders VALUES (42)")
    receipt = hf.enqueue("q", {"order": 42}, conn=conn)
    many = hf.enqueue_many("q", [1, 2], priority="low", conn=conn)
    assert [message.id for message in hf.queues.peek("q")] == []
    commit(conn)
    assert [message.id for message in hf.queues.peek("q")] == [receipt.id, many[0].id, many[1].id]
    assert drain(hf) == [{"order": 42}, 1, 2]
    assert conn.execute("SELECT id FROM orders").fetchall() == [(42,)]


@pytest.mark.parametrize("options", [{}, {"delay": 5}, {"ttl": 5}, {"key": "k"}, {"idempotency_key": "once"}], ids=str)
def test_rolled_back_leaves_no_trace(hf: Holdfast, conn: Any, options: dict[str, Any]) -> None:
    receipt = hf.enqueue("q", "work", conn=conn, **options)
    roll_back(conn)
    assert hf.status(receipt.id) is None
    assert hf.stats("q").pending == hf.stats("q").waiting == 0
    fresh = hf.enqueue("q", "work", **options)
    assert not fresh.duplicate
    assert fresh.id != receipt.id


def test_a_key_found_in_the_transaction_is_a_duplicate(hf: Holdfast, conn: Any) -> None:
    first = hf.enqueue("q", "work", idempotency_key="once", conn=conn)
    again = hf.enqueue("q", "work", idempotency_key="once", conn=conn)
    assert again.duplicate
    assert again.id == first.id
    with pytest.raises(IdempotencyConflict):
        hf.enqueue("q", "other", idempotency_key="once", conn=conn)
    hf.enqueue("q", "next", conn=conn)
    commit(conn)
    assert drain(hf) == ["work", "next"]


def test_a_winner_that_rolls_back_leaves_the_key_to_the_other(hf: Holdfast, conn: Any, rival: Holdfast) -> None:
    """P14: the second caller waits for the first one's transaction, and stores the message if that is gone."""
    hf.enqueue("q", "work", idempotency_key="once", conn=conn)
    with ThreadPoolExecutor() as pool:
        second = pool.submit(rival.enqueue, "q", "work", idempotency_key="once")
        with pytest.raises(TimeoutError):
            second.result(timeout=0.1)
        roll_back(conn)
        assert not second.result(timeout=10).duplicate
    assert drain(hf) == ["work"]


def test_ack_commits_with_the_work(hf: Holdfast, conn: Any) -> None:
    roll_back(conn)
    done = [receipt.id for receipt in hf.enqueue_many("q", range(3))]
    claims = hf.claim("q", n=3)
    begin(conn)
    hf.ack(claims[:2], conn=conn)
    claims[2].ack({"sent": True}, conn=conn)
    commit(conn)
    assert [state(hf, one) for one in done] == [State.SUCCEEDED] * 3
    found = hf.status(done[2])
    assert found is not None
    assert found.result == {"sent": True}


def test_ack_rolled_back_leaves_the_claim(hf: Holdfast, conn: Any) -> None:
    roll_back(conn)
    done = hf.enqueue("q", "work").id
    (claim,) = hf.claim("q")
    begin(conn)
    claim.ack("result", conn=conn)
    roll_back(conn)
    assert state(hf, done) is State.PROCESSING
    claim.ack()
    assert state(hf, done) is State.SUCCEEDED


def test_ack_of_a_row_in_a_transaction(hf: Holdfast, conn: Any, clock: FakeClock) -> None:
    roll_back(conn)
    hf.enqueue_many("q", [1, 2], delay=1)
    clock.advance(1)
    claims = hf.claim("q", n=2)
    begin(conn)
    hf.ack(claims, conn=conn)
    commit(conn)
    assert [state(hf, claim.message.id) for claim in claims] == [State.SUCCEEDED] * 2


def test_a_lost_lease_is_refused_and_the_transaction_goes_on(
    hf: Holdfast, conn: Any, rival: Holdfast, clock: FakeClock
) -> None:
    roll_back(conn)
    hf.enqueue("q", "work")
    (claim,) = hf.claim("q")
    clock.advance(31)
    (again,) = rival.claim("q")
    begin(conn)
    with pytest.raises(LeaseLost):
        hf.ack(claim, conn=conn)
    hf.enqueue("q", "still usable", conn=conn)
    commit(conn)
    again.ack()
    assert drain(hf) == ["still usable"]


def test_a_rolled_back_ack_does_not_hide_a_lost_lease(
    hf: Holdfast, conn: Any, rival: Holdfast, clock: FakeClock
) -> None:
    roll_back(conn)
    hf.enqueue("q", "work")
    (claim,) = hf.claim("q")
    begin(conn)
    claim.ack(conn=conn)
    roll_back(conn)
    clock.advance(31)
    (again,) = rival.claim("q")
    with pytest.raises(LeaseLost):
        claim.ack()
    again.ack()


def test_a_queue_that_comes_to_life_in_a_transaction_goes_with_it(hf: Holdfast, conn: Any) -> None:
    hf.enqueue("new", "work", conn=conn)
    roll_back(conn)
    assert hf.queues.list() == ["q"]
    begin(conn)
    hf.enqueue("new", "work", conn=conn)
    commit(conn)
    assert drain(hf, "new") == ["work"]


def test_a_strict_client_refuses_an_undeclared_queue(client: OpenClient, conn: Any) -> None:
    with pytest.raises(UnknownQueue):
        client(strict=True).enqueue("typo", "work", conn=conn)


def test_a_sleeper_hears_of_a_commit_and_of_no_rollback(hf: Holdfast, url: str, conn: Any) -> None:
    """The wake-up is part of the transaction, whoever commits it."""
    channel = internals(hf).catalog.channel("q")
    roll_back(conn)
    with internals(hf).bells.borrowed() as bell:
        listening(bell, channel.id)
        begin(conn)
        hf.enqueue("q", "gone", conn=conn)
        assert not bell.wait([channel.id], 0.1)
        roll_back(conn)
        assert not bell.wait([channel.id], 0.1)
        begin(conn)
        hf.enqueue("q", "stays", conn=conn)
        commit(conn)
        assert bell.wait([channel.id], 100)
        assert not bell.wait([channel.id], 0.1)


def test_a_waiting_claim_gets_what_a_transaction_brought(hf: Holdfast, conn: Any) -> None:
    roll_back(conn)
    asleep = sleepers(hf)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(hf.claim, "q", wait=30)
        asleep.acquire()
        begin(conn)
        hf.enqueue("q", "work", conn=conn)
        commit(conn)
        assert [claim.message.body for claim in waiting.result(timeout=30)] == ["work"]


def test_a_row_factory_of_the_callers_is_left_alone(hf: Holdfast, conn: Any) -> None:
    if isinstance(conn, psycopg.Connection):
        conn.row_factory = psycopg.rows.dict_row
    elif isinstance(conn, sqlite3.Connection):
        conn.row_factory = sqlite3.Row
    else:
        conn.row_trace = lambda cursor, row: {"all": row}
    hf.enqueue("q", "work", key="k", idempotency_key="once", conn=conn)
    assert hf.enqueue("q", "work", key="k", idempotency_key="once", conn=conn).duplicate
    assert not isinstance(conn.execute("SELECT 1").fetchone(), tuple)
    commit(conn)
    assert drain(hf) == ["work"]


def test_autocommit_without_a_transaction_is_refused(hf: Holdfast, url: str, conn: Any) -> None:
    roll_back(conn)
    if isinstance(conn, psycopg.Connection):
        conn.autocommit = True
    elif isinstance(conn, sqlite3.Connection):
        conn.isolation_level = None
    with pytest.raises(InvalidInput, match="open transaction"):
        hf.enqueue("q", "work", conn=conn)
    assert hf.stats("q").pending == 0


def test_another_database_is_refused(hf: Holdfast, url: str, tmp_path: Path) -> None:
    hf.queue("q")
    if url.startswith("postgresql"):
        with psycopg.connect(url) as connection, Holdfast(f"{url}?options=-csearch_path%3Dother") as second:
            connection.execute("CREATE SCHEMA other")
            connection.commit()
            second.queue("q")
            connection.execute("SET search_path = other")
            with pytest.raises(InvalidInput, match="another database"):
                hf.enqueue("q", "work", conn=connection)
        return
    with Holdfast(url.replace("work.db", "other.db")) as second:
        second.queue("q")
    with of_the_driver(url.replace("work.db", "other.db")) as connection, pytest.raises(InvalidInput, match="another"):
        hf.enqueue("q", "work", conn=connection)


def test_without_our_tables_it_says_what_to_do_and_leaves_the_transaction_usable(empty_url: str) -> None:
    with of_the_driver(empty_url) as connection, Holdfast(empty_url) as hf:
        with pytest.raises(StoreError, match="holdfast migrate"):
            hf.enqueue("q", "work", conn=connection)
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("thing", ["a text", 7, object()], ids=["text", "number", "object"])
def test_what_is_no_connection_is_refused(hf: Holdfast, thing: object) -> None:
    with pytest.raises(InvalidInput, match="conn="):
        hf.enqueue("q", "work", conn=thing)


def test_the_other_sqlite_library_is_refused(hf: Holdfast, url: str, sqlite_path: Path) -> None:
    if url.startswith("postgresql"):
        return
    hf.queue("q")
    other: Any = sqlite3.connect(":memory:") if "apsw" in url else apsw.Connection(":memory:")
    with pytest.raises(EngineConflict, match=r"\?engine="):
        hf.enqueue("q", "work", conn=other)


def begin(conn: Any) -> None:
    if isinstance(conn, apsw.Connection):
        conn.execute("BEGIN IMMEDIATE")
