"""Databases for the tests: one PostgreSQL serves a whole run, and every xdist worker has its own database in it."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from xdist.workermanage import WorkerController

from tests.mounts import Mount
from tests.servers import PostgresAddress, PostgresDesk, PostgresServer, ask_desk

DESK = pytest.StashKey[PostgresDesk]()

STORES = ["sqlite-apsw", "sqlite-stdlib", "postgres"]


def pytest_configure_node(node: WorkerController) -> None:
    """In the xdist controller: give each worker the way to the shared server."""
    stash = node.config.stash
    if DESK not in stash:
        stash[DESK] = PostgresDesk()
    node.workerinput["postgres_desk"] = stash[DESK].port


def pytest_unconfigure(config: pytest.Config) -> None:
    desk = config.stash.get(DESK, None)
    if desk is not None:
        desk.close()


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Iterator[PostgresAddress]:
    """The shared server. It is never skipped: without it the run fails."""
    worker: Mapping[str, int] | None = getattr(request.config, "workerinput", None)
    if worker is not None:
        yield ask_desk(worker["postgres_desk"])
        return
    with PostgresServer() as server:
        yield server.address


@pytest.fixture(scope="session")
def postgres_database(postgres_server: PostgresAddress) -> str:
    name = f"holdfast_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres_server.url(name)


@pytest.fixture
def postgres_url(postgres_database: str) -> str:
    """The URL of a database that is empty when the test begins."""
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute("SET lock_timeout = '20s'; SET client_min_messages = warning")
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return postgres_database


@pytest.fixture
def start_postgres() -> Iterator[Callable[..., PostgresServer]]:
    """Start servers of the test's own: `start_postgres({"fsync": "on"})`."""
    with ExitStack() as servers:
        yield lambda settings=None, version=None: servers.enter_context(PostgresServer(settings, version))


@pytest.fixture
def private_postgres(start_postgres: Callable[..., PostgresServer], request: pytest.FixtureRequest) -> PostgresServer:
    """A server that the test may stop, restart or kill; settings by `parametrize(..., indirect=True)`."""
    return start_postgres(getattr(request, "param", None))


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mount:
    """Makes this process believe that a folder is on another kind of file system."""
    mounts = tmp_path / "mountinfo"
    monkeypatch.setattr("holdfast.store.sqlite.filesystem.MOUNTS", str(mounts))
    return Mount(mounts)


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    return tmp_path / "work.db"


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest) -> str:
    """Every store in turn: a test that takes this runs on all of them."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    engine = request.param.removeprefix("sqlite-")
    return f"sqlite:///{request.getfixturevalue('sqlite_path')}?engine={engine}"


@pytest.fixture
def nervous() -> Iterator[None]:
    """Threads change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
