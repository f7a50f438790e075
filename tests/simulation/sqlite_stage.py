"""Simulations on SQLite: a file in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from holdfast.store.sqlite import SqliteStore
from tests.simulation.faults import PATIENCE, Faults
from tests.simulation.stage import Stage

MEMORY = Path("/dev/shm")
Content = dict[str, list[tuple[Any, ...]]]


class SqliteStage(Stage):
    """Nobody proves durability here, so nothing needs a disk."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(
            prefix="holdfast-simulation-", dir=MEMORY if MEMORY.is_dir() else None
        )
        self._path = str(Path(self._folder.name, "work.db"))
        super().__init__(f"sqlite:///{self._path}")
        self._connection = apsw.Connection(self._path)
        self.open()
        self._beginning = self.content()

    def content(self) -> Content:
        """Every row of every table."""
        names = self.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name LIKE 'sqlite%', name")
        return {name: self.rows(f"SELECT * FROM {name}") for (name,) in names}

    def restore(self, content: Content | None = None) -> None:
        """Also what was there at another time."""
        with self._connection:
            for table, rows in (content or self._beginning).items():
                self._connection.execute(f"DELETE FROM {table}")
                if rows:
                    marks = ", ".join("?" * len(rows[0]))
                    self._connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql).fetchall()

    def close(self) -> None:
        super().close()
        self._connection.close()
        self._folder.cleanup()

    def open_store(self) -> SqliteStore:
        store = SqliteStore(self._path, clock=self.clock, patience=PATIENCE)
        open_connection = store.database._open

        def open_in_no_time(*more: str) -> Watched:
            """Connections stay open for the next seeds: whether one has to be opened may change no story."""
            now = self.clock.now
            connection = open_connection(*more)
            self.clock.now = now
            return Watched(connection, lambda: self.faults)

        store.database._open = open_in_no_time  # type: ignore[method-assign,assignment]
        return store


class Watched:
    """A connection of the SQLite store that asks before each statement."""

    def __init__(self, connection: Any, faults: Callable[[], Faults | None]) -> None:
        self.driver = connection.driver
        self.changes = connection.changes
        self.close = connection.close
        self._connection = connection
        self._faults = faults

    def rows(self, sql: str, parameters: Any = ()) -> list[Any]:
        return self._watched(sql, lambda: self._connection.rows(sql, parameters))

    def many(self, sql: str, parameters: Any) -> None:
        self._watched(sql, lambda: self._connection.many(sql, parameters))

    def _watched(self, sql: str, run: Callable[[], Any]) -> Any:
        faults = self._faults()
        if faults is None or sql.startswith(("ROLLBACK", "PRAGMA")):
            return run()
        if sql.startswith("INSERT INTO temp."):  # A transaction by itself.
            return faults.begin(
                lambda: faults.commit(run, lambda: apsw.exception_for(apsw.SQLITE_IOERR)),
                lambda: apsw.exception_for(apsw.SQLITE_BUSY),
            )
        if sql.startswith("BEGIN"):
            return faults.begin(run, lambda: apsw.exception_for(apsw.SQLITE_BUSY))
        if sql == "COMMIT":
            return faults.commit(run, lambda: apsw.exception_for(apsw.SQLITE_IOERR))
        return faults.within(run, lambda: apsw.exception_for(apsw.SQLITE_IOERR))
