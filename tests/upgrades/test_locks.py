"""On PostgreSQL, a migration holds up the queues only for a moment at a time, whatever it waits for."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest

from holdfast import Holdfast, Unavailable
from holdfast.client.client import internals
from holdfast.store.migrate import Migration
from tests.upgrades.releases import make_newer
from tests.waiting import eventually

ALTER: Migration = (5, "005_column", "ALTER TABLE holdfast_message ADD COLUMN later bigint;\n")
ONLINE: Migration = (
    5,
    "005_index",
    "-- without transaction\n"
    "DROP INDEX CONCURRENTLY IF EXISTS holdfast_message_later;\n"
    "CREATE INDEX CONCURRENTLY holdfast_message_later ON holdfast_message (enqueued_at);\n",
)
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'holdfast_message'::regclass"
BUILDING = "SELECT count(*) FROM pg_stat_progress_create_index WHERE datname = current_database()"
BEGUN = "SELECT count(*) FROM pg_index WHERE indexrelid = to_regclass('holdfast_message_later')"
"""It is reported as being built a moment before it is in the catalog."""
BUILDERS = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'CREATE INDEX CONCURRENTLY%'"
VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('holdfast_message_later')"

KILLED = """
import sys
from holdfast import Holdfast
from holdfast.client.client import internals
from tests.upgrades.releases import make_newer
from tests.upgrades.test_locks import ONLINE
with Holdfast(sys.argv[1]) as hf:
    internals(make_newer(hf, ONLINE)).store.schema.migrate()
"""


@pytest.fixture
def server(postgres_url: str) -> Iterator[psycopg.Connection]:
    """A look at the database from outside."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def newer(postgres_url: str) -> Iterator[Callable[..., Holdfast]]:
    """Opens clients of a release with more migrations: `newer(ALTER, patience=5)`."""
    with ExitStack() as clients:
        yield lambda *more, **settings: make_newer(
            clients.enter_context(Holdfast(settings.pop("url", postgres_url), **settings)), *more
        )


@pytest.fixture
def reader(postgres_url: str) -> Iterator[psycopg.Connection]:
    """A transaction that somebody has left open after reading our table."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute("SELECT count(*) FROM holdfast_message")
        yield connection


def until(server: psycopg.Connection, query: str) -> None:
    eventually(lambda: server.execute(query).fetchone() != (0,), query)


def test_the_queues_go_on_while_a_migration_waits(
    postgres_url: str, server: psycopg.Connection, newer: Callable[..., Holdfast], reader: psycopg.Connection
) -> None:
    """The statement waits for the reader, and everyone who comes later would wait behind the statement."""
    with Holdfast(postgres_url, patience=20) as hf, ThreadPoolExecutor(1) as threads:
        hf.queue("q")
        migrating = threads.submit(internals(newer(ALTER, patience=300)).store.schema.migrate)
        try:
            for number in range(3):
                until(server, WAITING)
                hf.enqueue("q", number)
                hf.claim("q")[0].ack()
            assert not migrating.done()
        finally:
            reader.rollback()
        assert migrating.result(60) == ["005_column"]


def test_a_migration_that_gets_no_lock_says_what_to_do(
    server: psycopg.Connection, newer: Callable[..., Holdfast], reader: psycopg.Connection
) -> None:
    schema = internals(newer(ALTER, patience=2)).store.schema
    text = r"^migration 005_column was not run: other transactions .*`holdfast doctor`.* run `holdfast migrate` again$"
    with pytest.raises(Unavailable, match=text):
        schema.migrate()
    reader.rollback()
    assert schema.migrate() == ["005_column"]


def test_a_migration_that_another_process_keeps_busy_says_so(
    server: psycopg.Connection, newer: Callable[..., Holdfast]
) -> None:
    schema = internals(newer(ALTER, patience=1)).store.schema
    with server.transaction():
        server.execute("SELECT pg_advisory_xact_lock(hashtextextended('holdfast_migration', 0))")
        with pytest.raises(Unavailable, match="005_column was not run: another process is migrating"):
            schema.migrate()
    assert schema.migrate() == ["005_column"]


@pytest.mark.parametrize("pooled", [False, True])
def test_an_index_is_built_without_a_transaction(
    request: pytest.FixtureRequest, server: psycopg.Connection, newer: Callable[..., Holdfast], pooled: bool
) -> None:
    settings = {"url": request.getfixturevalue("pooled_url")} if pooled else {}
    schema = internals(newer(ONLINE, **settings)).store.schema
    assert schema.migrate() == ["005_index"]
    assert server.execute(VALID).fetchone() == (True,)
    assert schema.migrate() == []


def test_the_queues_go_on_while_an_index_waits_and_only_one_process_builds_it(
    postgres_url: str, server: psycopg.Connection, newer: Callable[..., Holdfast], reader: psycopg.Connection
) -> None:
    writer = psycopg.connect(postgres_url)
    writer.execute("LOCK TABLE holdfast_message IN ROW EXCLUSIVE MODE")
    with Holdfast(postgres_url) as hf, ThreadPoolExecutor(2) as threads:
        hf.queue("q")
        building = [threads.submit(internals(newer(ONLINE, patience=300)).store.schema.migrate) for _ in range(2)]
        try:
            until(server, BUILDING)
            hf.enqueue("q", 1)
            hf.claim("q")[0].ack()
            assert not any(one.done() for one in building)
        finally:
            writer.close()
            reader.close()
        assert sorted(one.result(60) for one in building) == [[], ["005_index"]]
    assert server.execute(VALID).fetchone() == (True,)


def test_an_index_whose_builder_was_killed_is_built_anew(
    postgres_url: str, server: psycopg.Connection, newer: Callable[..., Holdfast]
) -> None:
    writer = psycopg.connect(postgres_url)
    writer.execute("LOCK TABLE holdfast_message IN ROW EXCLUSIVE MODE")
    process = subprocess.Popen([sys.executable, "-c", KILLED, postgres_url])
    until(server, BEGUN)
    process.send_signal(signal.SIGKILL)
    process.wait()
    server.execute(f"SELECT pg_terminate_backend(pid) {BUILDERS}")
    eventually(lambda: server.execute(f"SELECT count(*) {BUILDERS}").fetchone() == (0,), "its session has ended")
    writer.close()
    assert server.execute(VALID).fetchone() == (False,)
    assert internals(newer(ONLINE)).store.schema.migrate() == ["005_index"]
    assert server.execute(VALID).fetchone() == (True,)
