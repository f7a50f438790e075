"""A connection to the file for code that is not ours, with a transaction that ends as that code does."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, NamedTuple

from holdfast.errors import StoreError, Unavailable
from holdfast.store import fork_safety
from holdfast.store.interrupt_shield import shielded
from holdfast.store.sqlite.connection import SqliteDatabase
from holdfast.store.sqlite.engines import OwnConnection
from holdfast.store.sqlite.errors import DriverError, translated

KEPT = 8
"""Connections that wait for their next use; opening one takes longer than most commands do."""


LONGEST_TURN = 0.25
"""Seconds."""


class Turn:
    """Threads of one process wait for each other here: at the file itself, waiting is looking again and again.

    It is no more than that. Who waits for too long tries the file, whose lock is the one that counts; and a turn is
    over with its object, should an interruption keep whoever had it from saying so.
    """

    def __init__(self, turns: threading.Lock) -> None:
        self._turns = turns if turns.acquire(timeout=LONGEST_TURN) else None

    def end(self) -> None:
        """The next one, please."""
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.release()

    __del__ = end


class Lent(NamedTuple):
    """A connection inside of a transaction, and its turn."""

    connection: OwnConnection
    turn: Turn


class SqliteConnectionLoans(fork_safety.Guarded):
    """Who gets one finds it as new: one that was left in another state, or in a failure, is not lent again."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._idle: list[OwnConnection] = []
        self._lock = threading.Lock()
        self._turns = threading.Lock()
        fork_safety.guard(self)

    @contextmanager
    def __call__(self) -> Iterator[Any]:
        """Commits when the block ends well; anything raised in it undoes what it wrote."""
        lent, passed = self._begin(), False
        try:
            yield lent.connection.driver
            self._commit(lent.connection)
            passed = True
        finally:
            self._end(lent, passed)

    @asynccontextmanager
    async def awaited(self) -> AsyncIterator[Any]:
        """The same on an event loop, which does not wait for the file's lock nor for the disk."""
        from holdfast.store.in_thread import in_thread

        lent, passed = await in_thread(self._begin, undo=lambda lent: self._end(lent, False)), False
        try:
            yield lent.connection.driver
            await in_thread(lambda: self._commit(lent.connection))
            passed = True
        finally:
            self._end(lent, passed)

    def close(self) -> None:
        """Closes those that wait; what is lent is closed by its end if nobody lends it again."""
        with self._lock:
            self._drop()

    def before_fork(self) -> None:
        """SQLite's file locks do not survive a fork."""
        self._lock.acquire()
        self._drop()

    def after_fork_in_parent(self) -> None:
        """Lets the waiting threads go on."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """The child starts clean."""
        self._lock = threading.Lock()
        self._turns = threading.Lock()

    @shielded
    def _begin(self) -> Lent:
        turn = Turn(self._turns)
        try:
            return Lent(self._open(), turn)
        except BaseException:
            turn.end()
            raise

    def _open(self) -> OwnConnection:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        try:
            return self._database.open_transaction(connection)
        except Unavailable:
            raise
        except StoreError:
            if connection is None:
                raise
            return self._open()  # Someone has kept it, and closed it.

    @shielded
    def _commit(self, connection: OwnConnection) -> None:
        try:
            connection.rows("COMMIT")
        except DriverError as problem:
            raise translated(problem) from problem
        self._database.check_log()

    @shielded
    def _end(self, lent: Lent, passed: bool) -> None:
        if passed:
            lent.turn.end()
        if passed and self._is_as_new(lent.connection):
            with self._lock:
                if len(self._idle) < KEPT:
                    self._idle.append(lent.connection)
                    return
        _close(lent.connection)
        lent.turn.end()

    def _is_as_new(self, connection: OwnConnection) -> bool:
        with suppress(*DriverError):
            if connection.tidy():
                self._database.set_up(connection)
                return True
        return False

    def _drop(self) -> None:
        while self._idle:
            _close(self._idle.pop())


@shielded
def _close(connection: OwnConnection) -> None:
    """What is not committed is rolled back by that."""
    with suppress(*DriverError):
        connection.close()
