"""A connection to the server for code that is not ours, with a transaction that ends as that code does."""

from __future__ import annotations

import asyncio
import select
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import psycopg
from psycopg import IsolationLevel
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from holdfast.store import fork_safety
from holdfast.store.interrupt_shield import shielded
from holdfast.store.postgres.connection import PostgresDatabase
from holdfast.store.postgres.errors import DriverError, translated
from holdfast.store.postgres.join import PostgresUserConnections

KEPT = 8
"""Connections that wait for their next use; opening one takes longer than most commands do."""

AS_NEW = "DISCARD ALL"
"""Whatever a user has set in the session, locked, listened to or made for a while goes with him."""

Connection = psycopg.Connection[Any]
AsyncConnection = psycopg.AsyncConnection[Any]


class PostgresConnectionLoans(fork_safety.Guarded):
    """Who gets one finds it as new. One that broke is not lent again, whether it was in use or waited for that."""

    def __init__(self, database: PostgresDatabase, joining: PostgresUserConnections) -> None:
        self._database = database
        self._joining = joining
        self._idle: list[Connection] = []
        self._on_loops: dict[asyncio.AbstractEventLoop, list[AsyncConnection]] = {}
        self._lock = threading.Lock()
        fork_safety.guard(self)

    @contextmanager
    def __call__(self) -> Iterator[Any]:
        """Commits when the block ends well; anything raised in it undoes what it wrote."""
        connection = self._take() or self._database.connect_for_others()
        theirs = False
        try:
            connection.isolation_level = IsolationLevel.READ_COMMITTED
            self._joining.trust(connection)
            with connection.transaction():
                theirs = True
                yield connection
                theirs = False
        except DriverError as problem:
            if theirs:
                raise
            raise translated(problem) from problem
        finally:
            self._end(connection)

    @asynccontextmanager
    async def awaited(self) -> AsyncIterator[Any]:
        """The same on an event loop."""
        connection = self._take_on_loop() or await self._database.connect_for_others_on_loop()
        theirs = False
        try:
            await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
            self._joining.trust(connection)
            async with connection.transaction():
                theirs = True
                yield connection
                theirs = False
        except DriverError as problem:
            if theirs:
                raise
            raise translated(problem) from problem
        finally:
            await self._end_on_loop(connection)

    def close(self) -> None:
        """Closes those that wait."""
        with self._lock:
            idle, self._idle = self._idle, []
            on_loops, self._on_loops = self._on_loops, {}
        for connection in idle:
            connection.close()
        for loop in on_loops:
            _finish(on_loops[loop])

    def after_fork_in_child(self) -> None:
        """The sockets belong to the parent."""
        self._idle, self._on_loops = [], {}
        self._lock = threading.Lock()

    # --- in a thread --------------------------------------------------------------------------------------------------

    def _take(self) -> Connection | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if _is_quiet(connection):
                return connection
            connection.close()

    @shielded
    def _end(self, connection: Connection) -> None:
        with suppress(*DriverError):
            if connection.info.transaction_status is TransactionStatus.IDLE:
                connection.execute(AS_NEW)
                _forget_habits(connection)
                with self._lock:
                    if len(self._idle) < KEPT:
                        self._idle.append(connection)
                        return
        connection.close()

    # --- on a loop: a connection belongs to the one that it was opened on ---------------------------------------------

    def _take_on_loop(self) -> AsyncConnection | None:
        with self._lock:
            for loop in [loop for loop in self._on_loops if loop.is_closed()]:
                _finish(self._on_loops.pop(loop))
            idle = self._on_loops.get(asyncio.get_running_loop(), [])
            while idle:
                connection = idle.pop()
                if _is_quiet(connection):
                    return connection
                _finish([connection])
        return None

    async def _end_on_loop(self, connection: AsyncConnection) -> None:
        kept = False
        try:
            with suppress(*DriverError):
                if connection.info.transaction_status is TransactionStatus.IDLE:
                    await connection.execute(AS_NEW)
                    _forget_habits(connection)
                    kept = self._keep_on_loop(connection)
        finally:  # Also if the task is cancelled a second time.
            if not kept:
                _finish([connection])

    def _keep_on_loop(self, connection: AsyncConnection) -> bool:
        with self._lock:
            idle = self._on_loops.setdefault(asyncio.get_running_loop(), [])
            if len(idle) >= KEPT:
                return False
            idle.append(connection)
            return True


def _is_quiet(connection: Connection | AsyncConnection) -> bool:
    """Whether the server has said nothing to a connection that waits: all that it could say is that this is over."""
    if connection.closed:
        return False
    look = select.poll()
    look.register(connection.fileno(), select.POLLIN)
    return not look.poll(0)


def _forget_habits(connection: Connection | AsyncConnection) -> None:
    """What is set in the driver, not in the session."""
    connection.row_factory = tuple_row
    connection.cursor_factory = psycopg.Cursor if isinstance(connection, psycopg.Connection) else psycopg.AsyncCursor
    connection.prepare_threshold = None


def _finish(connections: list[AsyncConnection]) -> None:
    """Closes them from wherever this is: nothing of theirs is under way."""
    for connection in connections:
        connection.pgconn.finish()
