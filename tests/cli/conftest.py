"""What the tests of commands have in common: a database, and running a command on it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cli.commands import holdfast
from tests.cli.looking import Look
from tests.servers import PostgresServer


@pytest.fixture(params=["sqlite", "postgres"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/work.db"


@pytest.fixture
def run(db: str, tmp_path: Path) -> Any:
    """Runs a command that must succeed; its lines."""

    def run_command(*args: str) -> list[str]:
        answer = holdfast(*args, folder=tmp_path, HOLDFAST_DB=db)
        assert (answer.returncode, answer.stderr) == (0, ""), answer.stderr
        return answer.stdout.splitlines()

    return run_command


@pytest.fixture(scope="module")
def safe_server() -> Iterator[PostgresServer]:
    """The one that the tests share does without fsync, which a doctor has to complain about."""
    with PostgresServer({"fsync": "on", "full_page_writes": "on", "max_prepared_transactions": "5"}) as server:
        yield server


@pytest.fixture
def safe_url(safe_server: PostgresServer) -> str:
    with psycopg.connect(safe_server.url(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return safe_server.url()


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """Runs the command in a process of its own; its exit code and findings."""

    def look_at(url: str) -> tuple[int, list[dict[str, Any]]]:
        answer = holdfast("doctor", "--json", "--db", url, folder=tmp_path)
        assert answer.stderr == ""
        return answer.returncode, [json.loads(line) for line in answer.stdout.splitlines()]

    return look_at
