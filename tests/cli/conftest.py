"""What the tests of a doctor have in common."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.cli.commands import holdfast as run
from tests.cli.looking import Look
from tests.servers import PostgresServer


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
        answer = run("doctor", "--json", "--db", url, folder=tmp_path)
        assert answer.stderr == ""
        return answer.returncode, [json.loads(line) for line in answer.stdout.splitlines()]

    return look_at
