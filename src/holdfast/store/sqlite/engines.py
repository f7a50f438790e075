"""Two SQLite libraries behind one small face: apsw (the default) and the standard library's sqlite3.

POSIX file locks belong to the process, and the two libraries do not know of each other: one file opened through both
in one process loses its locks. So while a file is open through one engine, this process may not use another for it.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol
from urllib.parse import quote

import apsw

from holdfast.errors import EngineConflict, InvalidInput

Row = tuple[Any, ...]
Parameters = Sequence[Any] | dict[str, Any]

Mode = Literal["rwc", "rw", "ro"]
"""What a connection may do: create, write, read, in SQLite's own letters."""

_FLAGS = {
    "rwc": apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE,
    "rw": apsw.SQLITE_OPEN_READWRITE,
    "ro": apsw.SQLITE_OPEN_READONLY,
}


class Connection(Protocol):
    """What a store needs of a library."""

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]: ...
    def many(self, sql: str, parameters: Iterable[Parameters]) -> None: ...
    def changes(self) -> int: ...
    def close(self) -> None: ...


class ApswConnection:
    """apsw: carries its own, recent SQLite."""

    def __init__(self, path: str, mode: Mode) -> None:
        self._connection = apsw.Connection(path, flags=_FLAGS[mode], statementcachesize=200)
        # Otherwise SQLite plans a statement anew whenever the value of a LIMIT changes.
        self._connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self._execute = self._connection.execute

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        return self._execute(sql, parameters).fetchall()

    def many(self, sql: str, parameters: Iterable[Parameters]) -> None:
        self._connection.executemany(sql, parameters)

    def changes(self) -> int:
        return self._connection.changes()

    def close(self) -> None:
        self._connection.close()


class StdlibConnection:
    """sqlite3: for programs whose own code has the same file open through it."""

    def __init__(self, path: str, mode: Mode) -> None:
        is_usual = mode == "rwc"
        self._connection = sqlite3.connect(
            path if is_usual else f"file://{quote(os.path.abspath(path))}?mode={mode}",
            uri=not is_usual,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=200,
        )
        self._changes = 0

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        cursor = self._connection.execute(sql, parameters)
        found = cursor.fetchall()
        self._changes = cursor.rowcount
        return found

    def many(self, sql: str, parameters: Iterable[Parameters]) -> None:
        self._connection.executemany(sql, parameters)

    def changes(self) -> int:
        return max(self._changes, 0)

    def close(self) -> None:
        self._connection.close()


ENGINES: dict[str, type[ApswConnection] | type[StdlibConnection]] = {"apsw": ApswConnection, "stdlib": StdlibConnection}

_open: dict[tuple[int, int], tuple[str, int]] = {}
_opening = threading.Lock()


def connect(path: str, engine: str, mode: Mode = "rwc") -> Connection:
    """Opens a file through the one engine that this process uses for it as long as it is open."""
    if engine not in ENGINES:
        raise InvalidInput(f"engine must be one of {', '.join(ENGINES)}, not {engine!r}")
    with _opening:
        if mode == "rwc":
            _create(path)
        file = _identity(path)
        chosen, connections = _open.get(file, (engine, 0))
        if chosen != engine:
            raise EngineConflict(
                f"{path} is already open in this process through engine {chosen!r}; "
                f"opening it through {engine!r} as well would break its locks. Use one engine per file and process."
            )
        connection = ENGINES[engine](path, mode)
        _open[file] = (engine, connections + 1)
    return _Counted(connection, file)


class _Counted:
    """A connection that counts as open until it is closed."""

    def __init__(self, connection: Connection, file: tuple[int, int]) -> None:
        self._connection = connection
        self._file = file
        self.rows = connection.rows
        self.many = connection.many
        self.changes = connection.changes

    def close(self) -> None:
        self._connection.close()
        with _opening:
            engine, connections = _open.pop(self._file)
            if connections > 1:
                _open[self._file] = (engine, connections - 1)


def _identity(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _create(path: str) -> None:
    """A new database is readable by its owner only.

    It gets its name by a link, because closing a descriptor of a file that SQLite has open would drop all locks on it.
    """
    if os.path.exists(path):
        return
    try:
        descriptor, nameless = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".holdfast-")
        os.close(descriptor)
        try:
            os.link(nameless, path)
        finally:
            os.unlink(nameless)
    except FileExistsError:
        pass
    except OSError as problem:
        raise InvalidInput(f"cannot create the database {path}: {problem.strerror}") from None
