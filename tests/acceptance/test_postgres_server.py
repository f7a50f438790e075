import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psycopg
import pytest

from tests.servers import PostgresAddress, PostgresServer, StopMode

TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"


def test_a_started_server_takes_connections(postgres_server: PostgresAddress) -> None:
    with psycopg.connect(postgres_server.url()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert connection.execute("SHOW fsync").fetchone() == ("off",)
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


@pytest.mark.parametrize("turn", ["first", "second"])
def test_every_test_finds_an_empty_database(postgres_url: str, turn: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute(TABLES).fetchall() == []
        connection.execute("CREATE TABLE holdfast_probe (turn text)")


def test_an_abandoned_transaction_does_not_hold_up_the_next_test(
    postgres_database: str, request: pytest.FixtureRequest
) -> None:
    abandoned = psycopg.connect(postgres_database)
    abandoned.execute("CREATE TABLE holdfast_held (id int)")
    abandoned.commit()
    abandoned.execute("LOCK TABLE holdfast_held")

    url = request.getfixturevalue("postgres_url")  # As the next test would get it.

    with psycopg.connect(url) as connection:
        assert connection.execute(TABLES).fetchall() == []
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

    deadline = time.monotonic() + 10
    while is_alive(int(pid)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(int(pid))
    shutil.rmtree(folder)


def is_alive(pid: int) -> bool:
    """A zombie nobody has reaped yet counts as dead."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
