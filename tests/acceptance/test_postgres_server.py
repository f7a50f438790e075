import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psycopg
import pytest

from holdfast import Holdfast
from tests.ready import PostgresDatabase
from tests.servers import PostgresAddress, PostgresServer, StopMode
from tests.waiting import eventually

TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"


def test_a_started_server_takes_connections(postgres_server: PostgresAddress) -> None:
    with psycopg.connect(postgres_server.url()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert connection.execute("SHOW fsync").fetchone() == ("off",)
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


@pytest.mark.parametrize("turn", ["first", "second"])
def test_a_test_may_have_an_empty_database(empty_postgres_url: str, turn: str) -> None:
    with psycopg.connect(empty_postgres_url) as connection:
        assert connection.execute(TABLES).fetchall() == []
        connection.execute("CREATE TABLE holdfast_probe (turn text)")


CHANGES = [
    "CREATE TABLE more (id int)",
    "CREATE SCHEMA more",
    "DROP TABLE holdfast_message CASCADE",
    "ALTER TABLE holdfast_message ADD COLUMN more int",
    "ALTER TABLE holdfast_message SET (fillfactor = 50)",
    "CREATE INDEX more ON holdfast_leader (until)",
    "GRANT SELECT ON holdfast_message TO PUBLIC",
    "CREATE OR REPLACE FUNCTION more() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "DELETE FROM holdfast_migration",
    "DROP SCHEMA public CASCADE",
]


@pytest.mark.parametrize("change", CHANGES)
def test_every_test_finds_the_database_as_migrations_make_it(postgres_database: PostgresDatabase, change: str) -> None:
    postgres_database.make_ready()
    before = outline(postgres_database.url)
    with psycopg.connect(postgres_database.url) as connection:
        connection.execute(change.encode())
    assert outline(postgres_database.url) != before

    postgres_database.make_ready()

    assert outline(postgres_database.url) == before


def outline(url: str) -> str:
    """All that there is, as SQL would name it, and what was migrated."""
    with psycopg.connect(url) as connection:
        names = connection.execute(
            "SELECT nspname, relname, reloptions, relacl::text, relnatts FROM pg_class"
            " RIGHT JOIN pg_namespace ON pg_namespace.oid = relnamespace"
            r" WHERE nspname NOT LIKE 'pg\_%' AND nspname <> 'information_schema' ORDER BY 1, 2"
        ).fetchall()
        functions = connection.execute(
            "SELECT proname FROM pg_proc WHERE pronamespace = to_regnamespace('public') ORDER BY 1"
        ).fetchall()
        migrated = ("public", "holdfast_migration") in {(schema, name) for schema, name, *_ in names}
        versions = connection.execute("SELECT number, name FROM holdfast_migration").fetchall() if migrated else []
    return repr((names, functions, versions))


@pytest.mark.parametrize("messages", [1, 2_000], ids=["few", "many"])
def test_every_test_finds_no_rows_and_the_first_numbers(postgres_database: PostgresDatabase, messages: int) -> None:
    postgres_database.make_ready()
    rows = {}
    for turn in ("before", "after"):
        with Holdfast(postgres_database.url) as hf:
            rows[turn] = [contents(postgres_database.url)]
            hf.queue("q")
            hf.enqueue_many("q", range(messages))
            with psycopg.connect(postgres_database.url) as connection:
                rows[turn].append(connection.execute("SELECT min(id) FROM holdfast_channel").fetchall())
        postgres_database.make_ready()
    assert rows["after"] == rows["before"]


def contents(url: str) -> dict[str, int]:
    """How many rows each table has."""
    with psycopg.connect(url) as connection:
        names = [name for (name,) in connection.execute(TABLES)]
        return {name: connection.execute(f"SELECT count(*) FROM {name}".encode()).fetchone()[0] for name in names}


def test_an_abandoned_transaction_does_not_hold_up_the_next_test(
    postgres_database: PostgresDatabase, request: pytest.FixtureRequest
) -> None:
    postgres_database.make_ready()
    abandoned = psycopg.connect(postgres_database.url)
    abandoned.execute("INSERT INTO holdfast_leader VALUES ('default', 'duty', 'worker', 1)")
    abandoned.commit()
    abandoned.execute("LOCK TABLE holdfast_leader")

    url = request.getfixturevalue("postgres_url")  # As the next test would get it.

    assert contents(url)["holdfast_leader"] == 0
    with pytest.raises(psycopg.OperationalError):
        abandoned.execute("SELECT 1")


@pytest.mark.parametrize("private_postgres", [{"fsync": "on"}], indirect=True)
@pytest.mark.parametrize("mode", ["immediate", "fast", "kill"])
def test_committed_rows_outlive_a_restart(private_postgres: PostgresServer, mode: StopMode) -> None:
    with psycopg.connect(private_postgres.url(), autocommit=True) as connection:
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
        connection.execute("CREATE TABLE kept (id int)")
        connection.execute("INSERT INTO kept VALUES (7)")
    before = private_postgres.pid

    private_postgres.restart(mode)

    assert private_postgres.pid != before
    with psycopg.connect(private_postgres.url()) as connection:
        assert connection.execute("SELECT id FROM kept").fetchone() == (7,)


def test_a_server_does_not_outlive_a_killed_owner() -> None:
    program = """
        import time
        from tests.servers import PostgresServer
        with PostgresServer() as server:
            print(server.pid, server.folder, flush=True)
            time.sleep(600)
    """
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    pid, folder = owner.stdout.readline().split()
    assert is_alive(int(pid))

    owner.send_signal(signal.SIGKILL)
    owner.communicate()

    eventually(lambda: not is_alive(int(pid)), "the server has ended with its owner")
    shutil.rmtree(folder)


def is_alive(pid: int) -> bool:
    """A zombie nobody has reaped yet counts as dead."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
