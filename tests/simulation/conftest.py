"""The stages of the simulations of one test process."""

import os
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from tests.servers import PostgresAddress
from tests.simulation.postgres_stage import PostgresStage
from tests.simulation.sqlite_stage import SqliteStage


@pytest.fixture(scope="session")
def stage() -> Iterator[SqliteStage]:
    with closing(SqliteStage()) as stage:
        yield stage


@pytest.fixture(scope="session")
def postgres_stage(postgres_server: PostgresAddress) -> Iterator[PostgresStage]:
    """In a database of its own: other tests empty theirs."""
    name = f"simulation_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    with closing(PostgresStage(postgres_server.url(name))) as stage:
        yield stage
