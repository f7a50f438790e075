"""Behind PgBouncer in transaction mode: nothing relies on a session, and nothing is left in one."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import AsyncHoldfast, Holdfast, InvalidInput, Message
from holdfast.client.client import internals
from tests.poolers import MISSING, Pooler, is_there
from tests.servers import PostgresServer
from tests.waiting import eventually, leave_time

SETTINGS = (
    "enable_seqscan",
    "enable_bitmapscan",
    "plan_cache_mode",
    "synchronous_commit",
    "default_transaction_isolation",
)


@pytest.fixture
def hf(pooled_url: str) -> Iterator[Holdfast]:
    with Holdfast(pooled_url) as client:
        yield client


@pytest.fixture
def direct_url(pooler: Pooler, postgres_url: str) -> str:
    return pooler.url(postgres_url.rpartition("/")[2], direct=True)


def plain(url: str) -> str:
    return url.partition("?")[0]


def work_through(hf: Holdfast, count: int) -> list[Any]:
    """From ten threads at the same time, all of it; what was seen."""
    hf.enqueue_many("q", list(range(count)))
    seen: list[Any] = []
    gate = threading.Barrier(10)

    def drain() -> None:
        gate.wait()
        while claims := hf.claim("q", n=7):
            seen.extend(claim.message.body for claim in claims)
            hf.ack(claims)

    threads = [threading.Thread(target=drain) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


def test_everything_is_delivered_once_from_shared_sessions(hf: Holdfast, pooler: Pooler) -> None:
    assert sorted(work_through(hf, 500)) == list(range(500))
    shared = [server for server in pooler.show("servers") if server["database"] != "pgbouncer"]
    assert 1 < len(shared) <= 8, "ten threads had to share"


def test_no_session_is_left_other_than_it_was(hf: Holdfast, pooled_url: str) -> None:
    work_through(hf, 100)
    with Holdfast(pooled_url) as consumer:
        consumer.claim("q", wait=0.1)
    found = set()
    connections = [psycopg.connect(plain(pooled_url), autocommit=True, prepare_threshold=None) for _ in range(8)]
    for connection in connections:
        connection.execute("BEGIN")  # Holds a session, so that the next one gets another.
        found.add(tuple(connection.execute(f"SHOW {name}").fetchone()[0] for name in SETTINGS))  # type: ignore[index]
        assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM pg_listening_channels()").fetchone() == (0,)
    for connection in connections:
        connection.close()
    assert found == {("on", "on", "auto", "on", "read committed")}


def test_every_transaction_has_the_plans_and_the_isolation_that_it_needs(
    private_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the server's own defaults are others."""
    with psycopg.connect(private_postgres.url(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET default_transaction_isolation = 'serializable'")
        connection.execute("SELECT pg_reload_conf()")
    with Pooler(private_postgres.port) as pooler, Holdfast(pooler.url("postgres")) as hf:
        hf.queue("q")
        told = internals(hf).store.database.single(  # type: ignore[attr-defined]
            lambda tx: [
                tx._cursor.execute(f"SHOW {name}").fetchone()[0]
                for name in ("transaction_isolation", "enable_seqscan", "plan_cache_mode")
            ]
        )
        assert told == ["read committed", "off", "force_generic_plan"]
        assert sorted(work_through(hf, 100)) == list(range(100))


def test_a_sleeper_of_the_same_process_is_woken_at_once(hf: Holdfast) -> None:
    hf.queue("q")
    assert wait_in_thread(hf, lambda: hf.enqueue("q", 1)) == [1]


def test_a_sleeper_finds_what_it_cannot_hear_of(hf: Holdfast, pooled_url: str) -> None:
    hf.queue("q")
    with Holdfast(pooled_url) as other:
        assert wait_in_thread(hf, lambda: other.enqueue("q", 1)) == [1]


def test_with_a_direct_way_a_sleeper_hears(direct_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Holdfast(direct_url) as consumer, Holdfast(direct_url) as producer:
        consumer.queue("q")
        heard: list[str] = []
        consumer.claim("q", wait=0.01)
        listener: Any = internals(consumer).store.wakeup._listener  # type: ignore[attr-defined]
        before = listener.hear
        monkeypatch.setattr(listener, "hear", lambda payload: (heard.append(payload), before(payload)))
        assert wait_in_thread(consumer, lambda: producer.enqueue("q", 1)) == [1]
        eventually(lambda: heard, "it is told too, even if it was found by looking before")


def test_those_with_a_direct_way_hear_those_without(direct_url: str, pooled_url: str) -> None:
    with Holdfast(direct_url) as consumer, Holdfast(pooled_url) as producer:
        consumer.queue("q")
        assert wait_in_thread(consumer, lambda: producer.enqueue("q", 1)) == [1]


def test_an_enqueue_in_the_callers_transaction(hf: Holdfast, pooled_url: str) -> None:
    hf.queue("q")
    with psycopg.connect(plain(pooled_url), prepare_threshold=None) as connection:
        hf.enqueue("q", "kept", conn=connection)
        connection.commit()
        hf.enqueue("q", "undone", conn=connection)
        connection.rollback()
    assert [claim.message.body for claim in hf.claim("q", n=10)] == ["kept"]


async def through_asyncio(url: str) -> list[Any]:
    async with AsyncHoldfast(url) as hf:
        await hf.enqueue_many("q", [1, 2, 3])
        return [claim.message.body for claim in await hf.claim("q", n=10)]


def test_asyncio(pooled_url: str) -> None:
    import asyncio

    assert asyncio.run(through_asyncio(pooled_url)) == [1, 2, 3]


def test_a_consumer_at_work(hf: Holdfast) -> None:
    seen: list[int] = []
    done = threading.Event()

    @hf.consumer("q")
    def handle(message: Message) -> None:
        seen.append(message.body)
        if len(seen) == 50:
            done.set()

    with hf.running():
        hf.enqueue_many("q", list(range(50)))
        assert done.wait(120)
    assert sorted(seen) == list(range(50))


def test_work_goes_on_after_a_restart_of_the_server_behind_it(private_postgres: PostgresServer) -> None:
    with Pooler(private_postgres.port) as pooler, Holdfast(pooler.url("postgres")) as hf:
        hf.enqueue("q", 1)
        private_postgres.restart("immediate")
        hf.enqueue("q", 2)
        private_postgres.stop("fast")
        meanwhile = threading.Thread(target=hf.enqueue, args=("q", 3))
        meanwhile.start()
        leave_time(0.5)  # Long enough for the enqueue to find no server.
        private_postgres.start()
        meanwhile.join()
        assert [claim.message.body for claim in hf.claim("q", n=10)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("pooler=session", "pooler='session'"),
        ("direct=postgresql%3A%2F%2Fx%2Fy", "direct="),
        ("pooler=transaction&direct=mysql%3A%2F%2Fx", "direct="),
    ],
)
def test_options_that_make_no_sense_are_refused(query: str, text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        Holdfast(f"postgresql://app@db.example/app?{query}")


def test_without_a_pooler_it_is_said_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tests.poolers.shutil.which", lambda *_, **__: None)
    monkeypatch.setattr("tests.poolers.UNPACKED", tmp_path)
    monkeypatch.delenv("HOLDFAST_TEST_PGBOUNCER", raising=False)
    assert not is_there()
    assert "apt-get install pgbouncer" in MISSING


def wait_in_thread(hf: Holdfast, act: Callable[[], Any]) -> list[Any]:
    """What a sleeper gets after something was done."""
    got: list[Any] = []
    asleep = threading.Event()
    wait = internals(hf).claiming.nap

    def nap(*args: Any) -> bool:
        asleep.set()
        return wait(*args)

    internals(hf).claiming.nap = nap  # type: ignore[method-assign]
    sleeper = threading.Thread(target=lambda: got.extend(claim.message.body for claim in hf.claim("q", wait=30)))
    sleeper.start()
    assert asleep.wait(120)
    leave_time(0.05)
    act()
    sleeper.join()
    return got
