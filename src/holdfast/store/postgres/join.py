"""Joining a transaction on the caller's psycopg connection, or on an asyncio one from a thread beside its loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar
from weakref import WeakSet

import psycopg
from psycopg.pq import Format, TransactionStatus
from psycopg.rows import tuple_row

from holdfast.errors import InvalidInput, StoreError
from holdfast.store.join import NO_TRANSACTION, OTHER_DATABASE, JoinedTransaction, OnLoop, check_schema
from holdfast.store.migrate import Migrator
from holdfast.store.postgres import claim
from holdfast.store.postgres.adapt import adapt
from holdfast.store.postgres.connection import DatabaseCursor, PostgresDatabase, PostgresTransaction, Row
from holdfast.store.postgres.wakeup import notify

Result = TypeVar("Result")
AnyConnection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]


class PostgresUserConnections:
    """Connections of others, each looked at once: is there our schema, and is it the database of our URL?"""

    def __init__(self, database: PostgresDatabase, schema: Migrator) -> None:
        self._database = database
        self._schema = schema
        self._identity: Row | None = None
        self._known: WeakSet[AnyConnection] = WeakSet()

    def __call__(self, conn: object) -> JoinedTransaction:
        connection = conn.connection if isinstance(conn, OnLoop) else conn
        if not isinstance(connection, psycopg.Connection | psycopg.AsyncConnection):
            raise InvalidInput(
                "conn= on PostgreSQL takes a psycopg connection, or what SQLAlchemy wraps around one, "
                f"not {type(connection)}"
            )
        if connection.autocommit and connection.info.transaction_status is TransactionStatus.IDLE:
            raise InvalidInput(NO_TRANSACTION)
        tx = PostgresTransaction(self._cursor(connection, conn), self._database.clock, prepare=None)
        if connection not in self._known:
            self._check(tx)
            self._known.add(connection)
        return JoinedTransaction(tx, claim.settle, notify)

    def trust(self, connection: AnyConnection) -> None:
        """It comes from this client's URL: there is nothing to look at."""
        self._known.add(connection)

    def _cursor(self, connection: AnyConnection, conn: object) -> DatabaseCursor:
        """A cursor that does not know the caller's row factory, but our types."""
        if isinstance(connection, psycopg.Connection):
            cursor = psycopg.Cursor(connection, row_factory=tuple_row)
            cursor.format = Format.BINARY
            adapt(cursor.adapters)
            return cursor
        if not isinstance(conn, OnLoop):
            raise InvalidInput("an asyncio connection needs the asyncio client: AsyncHoldfast(url)")
        awaited = psycopg.AsyncCursor(connection, row_factory=tuple_row)
        awaited.format = Format.BINARY
        adapt(awaited.adapters)
        return LoopCursor(awaited, conn)

    def _check(self, tx: PostgresTransaction) -> None:
        check_schema(tx, self._schema)
        if self._identity is None:
            self._identity = self._database.glance(lambda own: own.one("schema.identity"))
        if tx.one("schema.identity") != self._identity:
            raise InvalidInput(OTHER_DATABASE)


class LoopCursor:
    """An asyncio cursor, used from a thread: each call waits for the loop to have done it."""

    def __init__(self, cursor: psycopg.AsyncCursor[Row], place: OnLoop) -> None:
        self._cursor = cursor
        self._place = place

    @property
    def rowcount(self) -> int:
        return self._cursor.rowcount

    def execute(
        self, query: Any, parameters: Any = None, *, prepare: bool | None = None, binary: bool | None = None
    ) -> None:
        self._wait(self._cursor.execute(query, parameters, prepare=prepare, binary=binary))

    def executemany(self, query: Any, parameters: Any, *, returning: bool = False) -> None:
        self._wait(self._cursor.executemany(query, parameters, returning=returning))

    def fetchall(self) -> list[Row]:
        return self._wait(self._cursor.fetchall())

    def fetchone(self) -> Row | None:
        return self._wait(self._cursor.fetchone())

    def nextset(self) -> bool | None:
        return self._cursor.nextset()

    def _wait(self, step: Coroutine[Any, Any, Result]) -> Result:
        """A step that nobody waits for any more must not begin: the caller may have rolled back by now."""
        if self._place.given_up.is_set():
            step.close()
            raise StoreError("the call was cancelled")
        return asyncio.run_coroutine_threadsafe(step, self._place.loop).result()
