"""One file: a connection that writes and one that reads, their pragmas, and transactions that cannot be half done.

Writers always begin IMMEDIATE: a read that turns into a write would fail at once under a second writer. Waiting for
the write lock is done here, in short steps, because SQLite's own busy timeout sleeps far longer than a commit takes.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from holdfast.errors import StoreError, StoreFull, Unavailable
from holdfast.sagas.steps import instances
from holdfast.sagas.steps.step_ends import Happening
from holdfast.store import fork_safety, patience
from holdfast.store.engine import counters
from holdfast.store.interrupt_shield import shielded
from holdfast.store.sqlite import claim
from holdfast.store.sqlite.engines import OwnConnection, Row, SqliteConnection, connect
from holdfast.store.sqlite.errors import DriverError, is_busy, translated
from holdfast.store.sqlite.filesystem import refuse_network
from holdfast.store.sqlite.statements import QUERIES
from holdfast.store.sqlite.wakeup import SqliteWakeup
from holdfast.store.sqlite.wal import RESERVE, WalFile

Result = TypeVar("Result")
Argument = TypeVar("Argument")
Clock = Callable[[], int]

_TO_WRITE = "BEGIN IMMEDIATE"

_OF_THE_FILE = "PRAGMA journal_mode = WAL"

_OF_THE_LOG = ("PRAGMA wal_autocheckpoint = {}", "PRAGMA journal_size_limit = {}")

_OF_A_CONNECTION = (
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = OFF",
    "PRAGMA secure_delete = OFF",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA wal_autocheckpoint = 10000",
    "PRAGMA journal_size_limit = 44040192",
)

_CHECKPOINT = "PRAGMA wal_checkpoint(RESTART)"
_FREE_PAGES, _PAGES, _PAGE = "PRAGMA freelist_count", "PRAGMA page_count", "PRAGMA page_size"


class SqliteTransaction:
    """Named queries on an open transaction, with the clock read once at its start."""

    __slots__ = ("_connection", "_now", "ended_keys", "endings", "overdue", "rings", "tallies")

    again = False  # A commit to a file has happened or has not; there is no answer to get lost.
    insert = claim.insert

    def __init__(self, connection: SqliteConnection, now: int) -> None:
        self._connection = connection
        self._now = now
        self.rings: set[int] = set()
        self.tallies: dict[int, dict[str, int]] = {}
        self.endings: list[Happening] = []
        self.ended_keys: set[tuple[int, str]] = set()
        self.overdue: set[int] = set()

    def all(self, query: str, **parameters: Any) -> list[Row]:
        parameters["now"] = self._now
        return self._connection.rows(QUERIES[query], parameters)

    def one(self, query: str, **parameters: Any) -> Row | None:
        parameters["now"] = self._now
        found = self._connection.rows(QUERIES[query], parameters)
        return found[0] if found else None

    def run(self, query: str, **parameters: Any) -> int:
        parameters["now"] = self._now
        self._connection.rows(QUERIES[query], parameters)
        return self._connection.changes()

    def each(self, query: str, parameters: Sequence[dict[str, Any]]) -> list[Row | None]:
        return [self.one(query, **one) for one in parameters]

    def many(self, query: str, parameters: Sequence[Sequence[Any]]) -> None:
        """The fast lane for bulk inserts: positional parameters, nothing returned."""
        self._connection.many(QUERIES[query], parameters)

    def execute(self, statement: str) -> None:
        """A statement of a migration."""
        self._connection.rows(statement)

    def clock(self) -> int:
        return self._now


class SqliteDatabase(fork_safety.Guarded):
    """The file, shared by all threads of this process."""

    def __init__(self, path: str, engine: str, clock: Clock | None, patience: float, network: bool = False) -> None:
        self.path = path
        self.engine = engine
        self.wakeup = SqliteWakeup(path, self)
        self._log = WalFile(path, engine)
        self._clock = clock
        self._patience = patience
        self._network = network
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._writer: SqliteConnection | None = None
        self._reader: SqliteConnection | None = None
        fork_safety.guard(self)

    @shielded
    def write(self, work: Callable[[SqliteTransaction], Result]) -> Result:
        """Runs `work` in a transaction of its own; all of it happens, durably, or nothing.

        On a full disk it may use the reserve, so it must not be work that stores new messages: see `accept`.
        """
        deadline = self._hold(self._writing)
        try:
            connection = self._open_writer()
            try:
                transaction, result = self._attempt(connection, _TO_WRITE, work, deadline)
            except StoreFull:
                self._use_reserve(connection)
                transaction, result = self._attempt(connection, _TO_WRITE, work, deadline)
        finally:
            self._writing.release()
        if transaction.rings:
            self.wakeup.ring(sorted(transaction.rings))
        self._log.check()
        return result

    def write_at_length(self, work: Callable[[SqliteTransaction], Result]) -> Result:
        """The same: here patience bounds the wait for the write lock, never the work."""
        return self.write(work)

    def accept(self, work: Callable[[SqliteTransaction], Result]) -> Result:
        """Runs `work` that stores new messages, as `write` does, but leaves the reserve to others."""
        return self._accept(work, single=False)

    def single(self, work: Callable[[SqliteTransaction], Result]) -> Result:
        """The same for one statement: a transaction by itself, which reads the clock."""
        return self._accept(work, single=True)

    @shielded
    def _accept(self, work: Callable[[SqliteTransaction], Result], single: bool) -> Result:
        deadline = self._hold(self._writing)
        try:
            connection = self._open_writer()
            if self._log.is_tight:
                transaction, result = self._accept_sparingly(connection, work, deadline)
            elif self._log.is_short or not single:
                transaction, result = self._attempt(connection, _TO_WRITE, work, deadline)
            else:
                transaction = SqliteTransaction(connection, 0 if self._clock is None else self._clock())
                result = self._when_free(work, transaction, deadline)
        finally:
            self._writing.release()
        if transaction.rings:
            self.wakeup.ring(sorted(transaction.rings))
        self._log.check()
        return result

    @shielded
    def open_transaction(self, connection: OwnConnection | None = None) -> OwnConnection:
        """A connection of its own, or this one, inside a transaction that may write; whoever asks ends both."""
        if connection is None:
            connection = self._open()
            connection.lend()
        try:
            self._begin(connection, _TO_WRITE)
        except BaseException:
            connection.close()
            raise
        return connection

    def set_up(self, connection: OwnConnection) -> None:
        """The pragmas that each of our connections has."""
        self._set_up(connection, _OF_A_CONNECTION)

    @shielded
    def read(self, work: Callable[[SqliteTransaction], Result]) -> Result:
        """Runs `work` on one consistent picture of the database."""
        deadline = self._hold(self._reading)
        try:
            result = self._read_again_while_busy(self._open_reader(), work, deadline)
        finally:
            self._reading.release()
        self._log.check()
        return result

    def check_log(self) -> None:
        """For whoever has committed on a connection of their own: raises if that is lost with this process."""
        self._log.check()

    def glance(self, work: Callable[[SqliteTransaction], Result]) -> Result:
        """The same, for a single statement."""
        return self.read(work)

    @shielded
    def version(self) -> int:
        """Another number whenever anyone else has committed."""
        with self._reading:
            return self._open_reader().rows(QUERIES["wakeup.version"])[0][0]  # type: ignore[no-any-return]

    def rings(self) -> dict[int, int]:
        """How often each channel was rung from inside a transaction."""
        return self.read(lambda tx: dict(tx.all("wakeup.counts")))

    def now(self, connection: SqliteConnection) -> int:
        """The clock, as one of our connections or a borrowed one reads it."""
        if self._clock is not None:
            return self._clock()
        return connection.rows(QUERIES["clock.now"])[0][0]  # type: ignore[no-any-return]

    @shielded
    def inspect(self, work: Callable[[SqliteTransaction], Result]) -> Result:
        """Runs `work` on a connection of its own, set up as the others are, that leaves no trace: no file, no mode."""
        try:
            # One that may only read leaves an empty log where there was none; one that may write tidies up a crash's.
            connection = connect(self.path, self.engine, "ro" if os.path.exists(self.path + "-wal") else "rw")
        except DriverError as problem:
            raise translated(problem) from problem
        try:
            self._set_up(connection, _OF_A_CONNECTION)
            return self._read_again_while_busy(connection, work, patience.deadline(self._patience))
        finally:
            connection.close()

    @shielded
    def close(self) -> None:
        """Closes both connections; the next use opens them again."""
        with self._writing, self._reading:
            self._drop()
        self.wakeup.close()

    def before_fork(self) -> None:
        """SQLite's file locks do not survive a fork, so nothing is open while one happens."""
        self._writing.acquire()
        self._reading.acquire()
        self._drop()
        self.wakeup.close()

    def after_fork_in_parent(self) -> None:
        """Lets the waiting threads go on."""
        self._reading.release()
        self._writing.release()

    def after_fork_in_child(self) -> None:
        """The child starts clean."""
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self.wakeup.after_fork_in_child()

    def _hold(self, lock: threading.Lock) -> float:
        """Waits for another thread of this process to finish; that counts as waiting for the database does. Returns
        when patience ends."""
        deadline = patience.deadline(self._patience)
        if not lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise Unavailable(
                f"other threads of this client used {self.path} for {self._patience:g} s; nothing was asked of it"
            )
        return deadline

    def _attempt(
        self, connection: SqliteConnection, begin: str, work: Callable[[SqliteTransaction], Result], deadline: float
    ) -> tuple[SqliteTransaction, Result]:
        self._when_free(connection.rows, begin, deadline)
        try:
            if self._log.is_short and begin is _TO_WRITE:
                self._log.lengthen()
            transaction = SqliteTransaction(connection, self.now(connection))
            result = work(transaction)
            instances.move_on(transaction)
            counters.write(transaction)
            connection.rows("COMMIT")
        except BaseException as problem:
            _roll_back(connection)
            if isinstance(problem, DriverError):
                raise translated(problem) from problem
            raise
        return transaction, result

    def _use_reserve(self, connection: SqliteConnection) -> None:
        """Makes room on a full disk: what the reserve took is enough to write the log back to the database, so that
        the next commit starts the log anew, inside the length it has."""
        self._log.reserve.release()
        self._keep_log_short(connection)
        with suppress(*DriverError):  # If not all of it fits, the log itself can grow by as much.
            connection.rows(_CHECKPOINT)

    def _accept_sparingly(
        self, connection: SqliteConnection, work: Callable[[SqliteTransaction], Result], deadline: float
    ) -> tuple[SqliteTransaction, Result]:
        """On a disk that is nearly full, new messages are stored only if all messages can still be claimed and ended:
        there is a reserve, and the log fits into the database."""
        if not (self._log.reserve.hold() or self._free(connection) >= RESERVE):
            raise StoreFull(f"{StoreFull.__doc__} (the rest is reserved for claims, acks and clean-up)")

        def and_check(tx: SqliteTransaction) -> Result:
            result = work(tx)
            pages, size = (connection.rows(pragma)[0][0] for pragma in (_PAGES, _PAGE))
            growth = pages * size - os.stat(self.path).st_size
            if 2 * growth > self._log.reserve.room():  # Once in the log, once in the database.
                raise StoreFull(f"{StoreFull.__doc__} (no room to move these messages from the log to the database)")
            return result

        try:
            return self._attempt(connection, _TO_WRITE, and_check, deadline)
        except StoreFull:
            try:
                connection.rows(_CHECKPOINT)
            except DriverError as problem:
                raise translated(problem) from problem
            return self._attempt(connection, _TO_WRITE, and_check, deadline)

    def _free(self, connection: SqliteConnection) -> int:
        """Bytes of the database that are in no use, which are as good as a reserve."""
        return int(connection.rows(_FREE_PAGES)[0][0] * connection.rows(_PAGE)[0][0])

    def _keep_log_short(self, connection: SqliteConnection) -> None:
        self._log.is_tight = True
        self._set_up(connection, self._of_the_log())

    def _of_the_log(self) -> list[str]:
        pages, size = self._log.bounds
        return [_OF_THE_LOG[0].format(pages), _OF_THE_LOG[1].format(size)]

    def _read_again_while_busy(
        self, connection: SqliteConnection, work: Callable[[SqliteTransaction], Result], deadline: float
    ) -> Result:
        """A reader that comes while another process recovers or resets the log is told to come again."""
        while True:
            try:
                return self._attempt(connection, "BEGIN", work, deadline)[1]
            except StoreError as problem:
                if problem.__cause__ is None or not is_busy(problem.__cause__) or time.monotonic() > deadline:
                    raise
            time.sleep(0.002)

    def _begin(self, connection: SqliteConnection, begin: str) -> None:
        self._when_free(connection.rows, begin, patience.deadline(self._patience))

    def _when_free(self, call: Callable[[Argument], Result], argument: Argument, deadline: float) -> Result:
        """Tries a statement that begins a transaction until nobody else is writing."""
        pause = 0.0002
        while True:
            try:
                return call(argument)
            except DriverError as problem:
                if not is_busy(problem):
                    raise translated(problem) from problem
                if time.monotonic() > deadline:
                    raise Unavailable(
                        f"{self.path} stayed locked for {self._patience:g} s: another program holds its write lock"
                    ) from problem
            time.sleep(pause * (0.5 + random.random()))  # noqa: S311
            pause = min(pause * 1.5, 0.005)

    def _open_writer(self) -> SqliteConnection:
        self._log.refuse_if_lost()
        if self._writer is None:
            self._writer = self._open(
                QUERIES["arrivals.view"], QUERIES["arrivals.trigger_of_one"], QUERIES["arrivals.trigger"]
            )
        now = time.monotonic()
        if now > self._log.next_look and self._log.look_at_disk(now):
            self._set_up(self._writer, self._of_the_log())
        return self._writer

    def _open_reader(self) -> SqliteConnection:
        self._log.refuse_if_lost()
        if self._reader is None:
            self._reader = self._open()
        return self._reader

    def _open(self, *more: str) -> OwnConnection:
        try:
            return self._open_once(*more)
        except StoreFull:  # SQLite has a file to create before anything can be read.
            self._log.reserve.release()
            return self._open_once(*more)

    def _open_once(self, *more: str) -> OwnConnection:
        if not self._network:
            refuse_network(self.path)
        connection = connect(self.path, self.engine)
        try:
            self._set_up(connection, (_OF_THE_FILE, *_OF_A_CONNECTION, *more))
            self._log.hold(self._when_free(lambda _: connection.hold_log(), None, patience.deadline(self._patience)))
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_up(self, connection: SqliteConnection, pragmas: Sequence[str]) -> None:
        for pragma in pragmas:
            self._begin(connection, pragma)

    def _drop(self) -> None:
        self._log.let_go()
        for connection in (self._writer, self._reader):
            if connection is not None:
                connection.close()
                self._log.leave()
        self._writer = self._reader = None


def _roll_back(connection: SqliteConnection) -> None:
    # When the disk is full SQLite has already rolled back by itself.
    with suppress(*DriverError):
        connection.rows("ROLLBACK")
