"""Two SQLite libraries behind one small face: apsw (the default) and the standard library's sqlite3.

POSIX file locks belong to the process, and the two libraries do not know of each other: one file opened through both
in one process loses its locks. So while a file is open through one engine, this process may not use another for it.

Other code of the process can do it all the same. When that code closes the file, its library believes to be the last
user, and deletes the write-ahead log; what we commit from then on goes into a file without a name, and is lost with the
process. So every connection remembers which file the log was (`hold_log`), and whoever has committed compares
(`Log.check`). A connection that has lost its log is never closed: SQLite would then write pages of the deleted log to
the database, over newer ones, and closing the file would drop the other library's locks.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol, Self
from urllib.parse import quote
from weakref import WeakSet

import apsw

from holdfast.errors import EngineConflict, InvalidInput
from holdfast.store.sqlite import inodes
from holdfast.topics.rules.routing import is_wanted

Row = tuple[Any, ...]
Parameters = Sequence[Any] | dict[str, Any]

Mode = Literal["rwc", "rw", "ro"]
"""What a connection may do: create, write, read, in SQLite's own letters."""

_FLAGS = {
    "rwc": apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE,
    "rw": apsw.SQLITE_OPEN_READWRITE,
    "ro": apsw.SQLITE_OPEN_READONLY,
}


class SqliteConnection(Protocol):
    """What a store needs of a library."""

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]: ...
    def many(self, sql: str, parameters: Iterable[Parameters]) -> None: ...
    def changes(self) -> int: ...
    def close(self) -> None: ...


class OwnConnection(SqliteConnection, Protocol):
    """One that we have opened. `driver` is the library's own."""

    driver: Any

    def lend(self) -> None:
        """It goes to others, and may be taken back."""

    def tidy(self) -> bool:
        """Takes away what whoever had it left behind; whether it is as new then."""

    def hold_log(self) -> int:
        """Opens the write-ahead log, and returns the number of its file (inode) from now on."""


class LibraryConnection(SqliteConnection, Protocol):
    """What each of the two libraries has to offer."""

    driver: Any

    def lend(self) -> None: ...
    def tidy(self) -> bool: ...


class ApswConnection:
    """apsw: carries its own, recent SQLite."""

    def __init__(self, path: str, mode: Mode) -> None:
        self.driver = self._connection = apsw.Connection(path, flags=_FLAGS[mode], statementcachesize=200)
        # Otherwise SQLite plans a statement anew whenever the value of a LIMIT changes.
        self._connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self._connection.create_scalar_function("regexp", is_wanted, 2, deterministic=True)
        self._execute = self._connection.execute

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        return self._execute(sql, parameters).fetchall()

    def many(self, sql: str, parameters: Iterable[Parameters]) -> None:
        self._connection.executemany(sql, parameters)

    def changes(self) -> int:
        return self._connection.changes()

    def lend(self) -> None:
        """It knows by itself what is still open."""

    def tidy(self) -> bool:
        driver = self._connection
        driver.row_trace = driver.exec_trace = driver.authorizer = None
        driver.cursor_factory = apsw.Cursor
        driver.set_busy_timeout(0)
        # A query that someone has not read to its end keeps the log of the file from being emptied.
        return driver.txn_state() == apsw.SQLITE_TXN_NONE and _is_alone(self.rows(_FILES))

    def close(self) -> None:
        self._connection.close()


class SteadyConnection(sqlite3.Connection):
    """Lent to others, whose habits must not end our transaction: `with` is a part of it that may fail alone."""

    def commit(self) -> None:
        raise InvalidInput("this transaction commits by itself when the command returns: leave out commit()")

    def rollback(self) -> None:
        raise InvalidInput("this transaction is rolled back when the command raises: raise something instead")

    def executescript(self, sql_script: str, /) -> sqlite3.Cursor:
        raise InvalidInput("executescript() would commit: call execute() for each statement")

    def __enter__(self) -> Self:
        self.execute("SAVEPOINT part")
        return self

    def __exit__(self, kind: object, *_: object) -> Literal[False]:
        if kind is not None:
            self.execute("ROLLBACK TO SAVEPOINT part")
        self.execute("RELEASE SAVEPOINT part")
        return False


class StdlibConnection:
    """sqlite3: for programs whose own code has the same file open through it."""

    def __init__(self, path: str, mode: Mode) -> None:
        is_usual = mode == "rwc"
        self.driver = self._connection = sqlite3.connect(
            path if is_usual else f"file://{quote(os.path.abspath(path))}?mode={mode}",
            uri=not is_usual,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=200,
            factory=SteadyConnection,
        )
        self._connection.create_function("regexp", 2, is_wanted, deterministic=True)
        self._changes = 0
        self._cursors: WeakSet[sqlite3.Cursor] = WeakSet()

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        cursor = self._connection.execute(sql, parameters)
        found = cursor.fetchall()
        self._changes = cursor.rowcount
        return found

    def many(self, sql: str, parameters: Iterable[Parameters]) -> None:
        self._connection.executemany(sql, parameters)

    def changes(self) -> int:
        return max(self._changes, 0)

    def lend(self) -> None:
        make = self._connection.cursor

        def cursor(*arguments: Any, **options: Any) -> Any:
            made = make(*arguments, **options)
            self._cursors.add(made)
            return made

        lent: Any = self._connection
        lent.cursor = cursor
        lent.execute = lambda *arguments: cursor().execute(*arguments)
        lent.executemany = lambda *arguments: cursor().executemany(*arguments)

    def tidy(self) -> bool:
        driver = self._connection
        while self._cursors:  # Nothing tells whether one of them is in the middle of a query.
            self._cursors.pop().close()
        driver.row_factory, driver.text_factory, driver.isolation_level = None, str, None
        driver.set_authorizer(None)
        driver.set_trace_callback(None)
        return not driver.in_transaction and _is_alone(self.rows(_FILES))

    def close(self) -> None:
        self._connection.close()


def _is_alone(files: list[Row]) -> bool:
    """Whether nothing but the file itself is open: no other one beside it, no table for a while."""
    return len(files) == 1


ENGINES: dict[str, type[ApswConnection] | type[StdlibConnection]] = {"apsw": ApswConnection, "stdlib": StdlibConnection}

_FILES = "PRAGMA database_list"

_opening = threading.Lock()
"""For opening and closing, so that nobody opens a file while SQLite deletes its log. Never held across a fork."""


class _File:
    """A file that this process has open: through which engine, by which connections of that library, and which file
    its log is. As long as any of them has opened the log (`holders`), SQLite keeps it. A client that nobody has closed
    ends with its last reference, and its connections are closed by that."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.connections: WeakSet[Any] = WeakSet()
        self.holders: WeakSet[Any] = WeakSet()
        self.log: int | None = None


_open: dict[tuple[int, int], _File] = {}


def _after_fork_in_child() -> None:
    global _opening
    _opening = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def connect(path: str, engine: str, mode: Mode = "rwc") -> OwnConnection:
    """Opens a file through the one engine that this process uses for it as long as it is open."""
    if engine not in ENGINES:
        raise InvalidInput(f"engine must be one of {', '.join(ENGINES)}, not {engine!r}")
    with _opening:
        if mode == "rwc":
            _create(path)
        identity = _identity(path)
        for unused in [one for one, file in _open.items() if not file.connections]:
            del _open[unused]
        file = _open.get(identity) or _File(engine)
        if file.engine != engine:
            raise EngineConflict(
                f"{path} is already open in this process through engine {file.engine!r}; "
                f"opening it through {engine!r} as well would break its locks. Use one engine per file and process."
            )
        real = os.path.realpath(path)
        if file.holders and log_number(real) != file.log:
            raise lost_log(path, engine)
        connection = ENGINES[engine](path, mode)
        file.connections.add(connection.driver)
        _open[identity] = file
    return _Counted(connection, real, identity, file)


def log_number(path: str) -> int | None:
    """The number of the file (inode) that a database's path leads to as its log. A file that is open keeps its own."""
    found = inodes.look(os.fsencode(path + "-wal"))
    return found and found[0]


def lost_log(path: str, engine: str) -> EngineConflict:
    """The error for a log that was deleted or replaced while this process had it open."""
    other, url = ("sqlite3", "with ?engine=stdlib") if engine == "apsw" else ("apsw", "without ?engine=stdlib")
    return EngineConflict(
        f"the write-ahead log of {path} was deleted or replaced while Holdfast had it open; most likely other code in "
        f"this process opened and closed the file through another SQLite library, such as {other}. This process can no "
        f"longer use the file: its last call may be lost, and nothing after that is stored. Restart it, and either "
        f"open Holdfast {url} or give Holdfast a file of its own"
    )


class _Counted:
    """A connection that counts as open until it is closed."""

    def __init__(self, connection: LibraryConnection, path: str, identity: tuple[int, int], file: _File) -> None:
        self._connection = connection
        self._path = path
        self._identity = identity
        self._file = file
        self.driver = connection.driver
        self.rows = connection.rows
        self.many = connection.many
        self.changes = connection.changes
        self.lend = connection.lend
        self.tidy = connection.tidy

    def hold_log(self) -> int:
        self._connection.rows("PRAGMA schema_version")  # SQLite opens the log when it first reads.
        with _opening:
            found, file = log_number(self._path), self._file
            if not file.holders:
                file.log = found
            if found is None or found != file.log:
                raise lost_log(self._path, file.engine)
            file.holders.add(self.driver)
        return found

    def close(self) -> None:
        with _opening:
            if self.driver in self._file.holders and self._has_lost_log():
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.driver))  # Not even at the end of the process.
                return
            self._connection.close()
            self._file.holders.discard(self.driver)
            self._file.connections.discard(self.driver)

    def _has_lost_log(self) -> bool:
        """Whether only the log is another one. If the database itself is, SQLite leaves both alone."""
        try:
            return _identity(self._path) == self._identity and log_number(self._path) != self._file.log
        except OSError:
            return False


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
