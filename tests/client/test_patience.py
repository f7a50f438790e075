"""Every call returns within the client's patience, whatever blocks it, and calls work again afterwards."""

import asyncio
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import apsw
import psycopg
import pytest

from holdfast import AsyncHoldfast, Holdfast, Unavailable
from holdfast.store.postgres.connection import _ENDINGS
from tests.steps import OpenClient
from tests.waiting import eventually

pytestmark = [pytest.mark.behind_pooler, pytest.mark.both_engines, pytest.mark.of_queues]

PATIENCE = 1.0

LONGEST = 120.0
"""Seconds after which a call counts as hanging. What blocks it goes on for longer than that."""

MANY = 25
"""Calls at the same time: more than a client has connections, or an asyncio client threads."""

OUR_TABLES = "SELECT string_agg(quote_ident(tablename), ', ') FROM pg_tables WHERE tablename LIKE 'holdfast%'"


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Another session holds every table; on SQLite, the write lock."""
    if url.startswith("postgresql"):
        with psycopg.connect(url.partition("?")[0], prepare_threshold=None) as rival:
            (tables,) = rival.execute(OUR_TABLES).fetchone() or ("",)
            rival.execute(f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE")
            yield
            rival.rollback()
        return
    path = url.removeprefix("sqlite:///").partition("?")[0]
    connect: Any = sqlite3.connect if "engine=stdlib" in url else apsw.Connection
    writer = connect(path)
    writer.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        writer.execute("ROLLBACK")
        writer.close()


def outcomes(calls: Sequence[Callable[[], object]]) -> list[BaseException | None]:
    """What each of them raises, all called at the same time. One that hangs fails the test."""
    raised: dict[int, BaseException | None] = {}

    def make(number: int, call: Callable[[], object]) -> None:
        try:
            call()
            raised[number] = None
        except BaseException as problem:
            raised[number] = problem

    threads = [threading.Thread(target=make, args=one, daemon=True) for one in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST)
    assert len(raised) == len(calls), "hanging: " + str(sorted(set(range(len(calls))) - set(raised)))
    return [raised[number] for number in range(len(calls))]


def are_unavailable(found: Sequence[BaseException | None]) -> bool:
    return all(isinstance(problem, Unavailable) for problem in found)


def test_calls_end_within_patience_and_work_again(client: OpenClient, url: str) -> None:
    hf = client(patience=PATIENCE)
    hf.queue("q", history="1h")
    hf.enqueue_many("q", range(10))
    held = hf.claim("q", n=3)
    calls: list[Callable[[], object]] = [
        lambda: hf.enqueue("q", "lane"),
        lambda: hf.enqueue("q", "row", delay=60),
        lambda: hf.enqueue("q", "once", idempotency_key="k"),
        lambda: hf.enqueue("new", "declared on first use"),
        lambda: hf.claim("q"),
        lambda: hf.claim("q", wait=1000),
        lambda: hf.ack(held[0]),
        lambda: hf.nack(held[1]),
        lambda: hf.extend(held[2], 60),
        lambda: hf.queues.pause("q"),
        lambda: hf.queues.purge("q"),
        lambda: hf.queue("q", lease=60),
    ]
    with locked(url):
        assert are_unavailable(outcomes(calls))

    hf.ack(held[0])
    hf.nack(held[1])
    hf.extend(held[2], 60)
    hf.enqueue("q", "after")
    assert hf.claim("q")
    assert hf.stats("q").processing == 2


def test_calls_that_wait_for_each_other_end_within_patience(client: OpenClient, url: str) -> None:
    hf = client(patience=PATIENCE)
    hf.enqueue("q", 1)
    with locked(url):
        assert are_unavailable(outcomes([lambda: hf.enqueue("q", 2)] * MANY))
        assert are_unavailable(outcomes([lambda: hf.queues.pause("q")] * MANY))
    again = lambda: outcomes([lambda: hf.enqueue("q", 2)] * MANY) == [None] * MANY  # noqa: E731
    eventually(again, "a second is enough for all of them, once the machine has time")


def test_awaited_calls_end_within_patience(url: str) -> None:
    async def calls() -> None:
        async with AsyncHoldfast(url, patience=PATIENCE) as hf:
            await hf.enqueue_many("q", range(2))
            (held,) = await hf.claim("q")
            with locked(url):
                for call in (lambda: hf.enqueue("q", 2), lambda: hf.queues.pause("q"), lambda: hf.ack(held)):
                    together = asyncio.gather(*(call() for _ in range(MANY)), return_exceptions=True)
                    assert are_unavailable(await asyncio.wait_for(together, LONGEST))
            await hf.ack(held)
            assert len(await hf.claim("q")) == 1

    asyncio.run(calls())


@pytest.mark.parametrize("url", ["postgres", "postgres-pooled"], indirect=True)
def test_reads_end_within_patience_too(client: OpenClient, url: str) -> None:
    """On SQLite nobody can keep a reader waiting."""
    hf = client(patience=PATIENCE)
    receipt = hf.enqueue("q", 1)
    with locked(url):
        assert are_unavailable(outcomes([lambda: hf.stats("q")] * MANY))
        assert are_unavailable(outcomes([lambda: hf.status(receipt.id), lambda: hf.queues.peek("q"), hf.queues.list]))
    assert hf.stats("q").pending == 1


@pytest.mark.parametrize("url", ["postgres", "postgres-pooled"], indirect=True)
def test_what_was_given_up_does_not_happen_later(client: OpenClient, url: str) -> None:
    """The server is told: nothing waits for the lock any more, so nothing is done when it is free."""
    hf = client(patience=PATIENCE)
    hf.enqueue("q", "before")
    with locked(url), psycopg.connect(url.partition("?")[0], autocommit=True) as watcher:
        assert are_unavailable(outcomes([lambda: hf.enqueue("q", "given up"), lambda: hf.claim("q")]))
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        over = threading.Event()
        for _ in range(int(LONGEST * 100)):
            if watcher.execute(waiting).fetchone() == (0,):
                break
            over.wait(0.01)
        else:
            raise AssertionError("the server still works on it")
    assert [claim.message.body for claim in hf.claim("q", n=10)] == ["before"]


@pytest.mark.parametrize("url", ["postgres", "postgres-pooled"], indirect=True)
def test_a_transaction_of_the_caller_s_is_exempt(url: str) -> None:
    """It waits for a lock for longer than the client would."""
    direct = url.partition("?")[0]
    with (
        Holdfast(url, patience=2) as hf,
        psycopg.connect(direct) as conn,
        psycopg.connect(direct, prepare_threshold=None) as rival,
    ):
        hf.queue("q")
        rival.execute("LOCK TABLE holdfast_message IN SHARE MODE")
        released = threading.Timer(3, rival.rollback)
        released.start()
        hf.enqueue("q", 1, conn=conn)
        conn.commit()
        released.join()
        assert hf.stats("q").pending == 1


def test_a_server_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_ENDINGS, "connect_timeout", 3600)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        hf = Holdfast(f"postgresql://nobody@127.0.0.1:{port}/x?sslmode=disable", patience=0.5)
        assert are_unavailable(outcomes([lambda: hf.enqueue("q", 1), hf.queues.list]))
