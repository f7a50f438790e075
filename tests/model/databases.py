"""Where a store under test keeps its data: made empty for every example, crashed at will, and read behind its back."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import apsw
import psycopg

from tests.ready import CLEAR

Tables = dict[str, list[str]]


class Database(Protocol):
    windows: bool
    """Whether its lanes are read by snapshots (see Model)."""

    @property
    def url(self) -> str: ...
    def crash(self) -> None:
        """From now on `url` leads to what a process that died just now would have left behind."""

    def tables(self) -> Tables:
        """Every row of every table, as text."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a query finds."""

    def transaction(self, commits: bool) -> AbstractContextManager[Any]:
        """A connection of a user's own, whose transaction is committed or rolled back at the end."""

    def close(self) -> None: ...


class SqliteFile:
    """A new file per example."""

    windows = False

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._folder = tempfile.TemporaryDirectory(prefix="holdfast-model-")
        self._crashes = 0
        self._reader: Any = None

    @property
    def path(self) -> Path:
        return Path(self._folder.name, f"{self._crashes}.db")

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}?engine={self._engine}"

    def crash(self) -> None:
        """The file and its log are copied as they lie there, without a checkpoint or a goodbye."""
        self._close_reader()
        left_behind = self.path
        self._crashes += 1
        for ending in ("", "-wal"):
            if Path(f"{left_behind}{ending}").exists():
                shutil.copy(f"{left_behind}{ending}", f"{self.path}{ending}")

    def tables(self) -> Tables:
        names = self.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'holdfast%'")
        return {name: sorted(map(repr, self.rows(f"SELECT * FROM {name}"))) for (name,) in names}

    @contextmanager
    def transaction(self, commits: bool) -> Iterator[Any]:
        connection: Any = apsw.Connection(str(self.path)) if self._engine == "apsw" else _autocommitting(self.path)
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT" if commits else "ROLLBACK")
        finally:
            connection.close()

    def close(self) -> None:
        if self.path.exists():
            self.tables()
            assert self.rows("PRAGMA integrity_check") == [("ok",)]
        self._close_reader()
        self._folder.cleanup()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        if self._reader is None:
            connect = sqlite3.connect if self._engine == "stdlib" else apsw.Connection
            self._reader = connect(str(self.path))
        return list(self._reader.execute(sql).fetchall())

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class PostgresDatabase:
    """One database for a whole run; its tables are emptied before every example."""

    windows = True

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = psycopg.connect(url, autocommit=True)
        self._all = ""
        self._none: Tables = {}
        self._connection.execute(CLEAR)

    def crash(self) -> None:
        """Every other session is cut off, as the server does with those of a dead process."""
        self._connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )

    def tables(self) -> Tables:
        """All in one query: this is asked before and after nearly everything."""
        if not self._all:
            names = [name for (name,) in self.rows("SELECT tablename FROM pg_tables WHERE tablename LIKE 'holdfast%'")]
            self._all = " UNION ALL ".join(f"SELECT '{name}', one::text FROM {name} one" for name in names)
            self._none = {name: [] for name in names}
        found = {name: list(rows) for name, rows in self._none.items()}
        for name, row in self.rows(self._all):
            found[name].append(row)
        return {name: sorted(rows) for name, rows in found.items()}

    @contextmanager
    def transaction(self, commits: bool) -> Iterator[Any]:
        with psycopg.connect(self.url) as connection:
            yield connection
            if not commits:
                connection.rollback()

    def close(self) -> None:
        self._connection.close()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql).fetchall()  # type: ignore[call-overload,no-any-return]


def _autocommitting(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def database(kind: str, postgres_url: str | None = None) -> Database:
    """`kind` is one of tests.conftest.STORES."""
    if kind == "postgres":
        assert postgres_url is not None, "the postgres store needs a server"
        return PostgresDatabase(postgres_url)
    return SqliteFile(kind.removeprefix("sqlite-"))
