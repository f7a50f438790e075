"""Where the databases of a run live: on a real disk, fully durable, fresh for every measurement."""

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import apsw
import psycopg

from tests.servers import PostgresServer

FOLDER = Path(__file__).resolve().parents[1] / ".bench"

POSTGRES_SETTINGS = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
}


class Place(Protocol):
    """One kind of database."""

    @property
    def store(self) -> str: ...
    @property
    def version(self) -> str:
        """Of the database."""

    def fresh(self) -> AbstractContextManager[str]:
        """The URL of a new, empty database; it is gone afterwards."""

    def settle(self, url: str) -> None:
        """After a bulk load: what the database's own upkeep would have done soon."""

    def restart(self) -> None:
        """As after a crash of the database's server, if it has one."""

    def cut(self) -> None:
        """Ends every connection to a database of the bench, from the side of the server, if there is one."""


class SqlitePlace:
    store = "sqlite"
    version = apsw.sqlite_lib_version()

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()

    @contextmanager
    def fresh(self) -> Iterator[str]:
        folder = self._folder / f"sqlite-{next(self._numbers)}"
        folder.mkdir()
        try:
            yield f"sqlite:///{folder / 'bench.db'}"
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def settle(self, url: str) -> None:
        """Nothing: closing the last connection has moved everything from the log into the file."""

    def restart(self) -> None:
        """Nothing: there is no server."""

    def cut(self) -> None:
        """Nothing: there are no connections."""


class PostgresPlace:
    store = "postgres"

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._numbers = itertools.count()
        with psycopg.connect(server.url()) as connection:
            self.version = str(connection.info.parameter_status("server_version"))

    @contextmanager
    def fresh(self) -> Iterator[str]:
        name = f"bench_{next(self._numbers)}"
        self._administer(f"CREATE DATABASE {name}")
        try:
            yield self._server.url(name)
        finally:
            self._administer(f"DROP DATABASE {name} WITH (FORCE)")

    def settle(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")

    def restart(self) -> None:
        self._server.restart("immediate")

    def cut(self) -> None:
        self._administer("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'bench%'")

    def _administer(self, statement: str) -> None:
        with psycopg.connect(self._server.url(), autocommit=True) as connection:
            connection.execute(statement)


@contextmanager
def run_folder(parent: Path = FOLDER) -> Iterator[Path]:
    """A folder for one run; readable for the account that PostgreSQL runs as. Git is told not to look."""
    if parent == FOLDER:
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / ".gitignore").write_text("*\n")
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def sqlite_place(folder: Path) -> Iterator[Place]:
    yield SqlitePlace(folder)


@contextmanager
def postgres_place(folder: Path) -> Iterator[Place]:
    with ExitStack() as closing:
        with _temporary_files_in(folder):
            server = closing.enter_context(PostgresServer(POSTGRES_SETTINGS))
        yield PostgresPlace(server)


@contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """The server puts its data where temporary files go; on some machines that is memory, so say where."""
    before, tempfile.tempdir = tempfile.tempdir, os.fspath(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


PLACES: dict[str, Callable[[Path], AbstractContextManager[Place]]] = {
    "sqlite": sqlite_place,
    "postgres": postgres_place,
}
