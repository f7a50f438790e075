"""Databases for the tests: one PostgreSQL serves a whole run, and every xdist worker has its own database in it."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

import psycopg
import pytest
from xdist.workermanage import WorkerController

from tests import seeds
from tests.long import VARIABLE as LONG
from tests.long import is_long_run
from tests.mounts import Mount
from tests.poolers import Pooler
from tests.ready import MEMORY, PostgresDatabase, make_ready_file, use_memory
from tests.servers import PostgresAddress, PostgresDesk, PostgresServer, ask_desk
from tests.spreading import spread
from tests.stores import STORES, further_stores, left_to_long_runs
from tests.through_sqs import FOR_CHILDREN, SEAM, deliver_through_sqs

__all__ = ["STORES"]

if use_memory():
    tempfile.tempdir = os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # A run in the background: processes of tests would be deaf too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

DESK = pytest.StashKey[PostgresDesk]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run what only repeats: more stores, seeds and seconds")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--long"):
        os.environ[LONG] = "yes"
    seeds.install(config)


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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only a long run repeats, and stand the tests that mostly wait evenly among the other files."""
    if not is_long_run():
        left_out = left_to_long_runs(items)
        config.hook.pytest_deselected(items=left_out)
        kept = set(items).difference(left_out)
        items[:] = [item for item in items if item in kept]
    waiting = [item for item in items if item.get_closest_marker("spread")]
    others = [item for item in items if not item.get_closest_marker("spread")]
    files = [list(some) for _, some in groupby(others, key=lambda item: item.path)]
    if waiting and files:
        items[:] = spread(waiting, files)


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Some tests are marked to run on more stores than the others, unless they choose their stores themselves."""
    further = further_stores(metafunc.definition)
    chosen = any("url" in str(mark.args[0]) for mark in metafunc.definition.iter_markers("parametrize"))
    if further and "url" in metafunc.fixturenames and not chosen:
        metafunc.definition.add_marker(pytest.mark.parametrize("url", [*STORES, *further], indirect=True))


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
def postgres_database(postgres_server: PostgresAddress) -> PostgresDatabase:
    name = f"holdfast_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return PostgresDatabase(postgres_server.url(name))


@pytest.fixture
def postgres_url(postgres_database: PostgresDatabase) -> str:
    """The URL of a database that has our tables, and nothing in them, when the test begins."""
    postgres_database.make_ready()
    return postgres_database.url


@pytest.fixture
def empty_postgres_url(postgres_database: PostgresDatabase) -> str:
    """The URL of a database that has nothing in it when the test begins."""
    postgres_database.make_empty()
    return postgres_database.url


@pytest.fixture(scope="session")
def pooler(postgres_server: PostgresAddress) -> Iterator[Pooler]:
    """Between the tests and the shared server. Only where dev.py could not fetch it, its tests are skipped."""
    with Pooler(postgres_server.port) as pooler:
        yield pooler


@pytest.fixture
def pooled_url(pooler: Pooler, postgres_url: str) -> str:
    """The empty database, behind a pooler in transaction mode."""
    return pooler.url(postgres_url.rpartition("/")[2])


@pytest.fixture
def delivered_by_moto(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every client of this process, and of `tests.acceptance.workers`, delivers through an SQS that is empty when the
    test begins."""
    from tests.sqs import emulator

    emulator.reset()
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(FOR_CHILDREN, "yes")
    monkeypatch.setattr(SEAM, deliver_through_sqs)


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


@pytest.fixture(scope="session")
def ready_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_ready_file(tmp_path_factory.mktemp("ready") / "ready.db")


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest) -> str:
    """Every store in turn: a test that takes this runs on all of them. They have our tables, and nothing in them."""
    return url_of(request, request.param)


def url_of(request: pytest.FixtureRequest, store: str) -> str:
    """A database of one of `STORES`, or of those of `further_stores`, with our tables and nothing in them."""
    if store == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    if store == "postgres-pooled":
        return str(request.getfixturevalue("pooled_url"))
    if store.endswith("-sqs"):
        request.getfixturevalue("delivered_by_moto")
        return url_of(request, {"sqlite-sqs": "sqlite-apsw", "postgres-sqs": "postgres"}[store])
    path = request.getfixturevalue("sqlite_path")
    shutil.copy(request.getfixturevalue("ready_file"), path)
    return f"sqlite:///{path}?engine={store.removeprefix('sqlite-')}"


@pytest.fixture(params=STORES)
def empty_url(request: pytest.FixtureRequest) -> str:
    """Every store in turn, as somebody finds it who never used it."""
    if request.param == "postgres":
        return str(request.getfixturevalue("empty_postgres_url"))
    return f"sqlite:///{request.getfixturevalue('sqlite_path')}?engine={request.param.removeprefix('sqlite-')}"


@pytest.fixture
def nervous() -> Iterator[None]:
    """Threads change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
