"""Joining a transaction on the caller's own connection to the same file, through the same SQLite library."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from typing import Any

import apsw

from holdfast.errors import EngineConflict, InvalidInput
from holdfast.store.engine.settle import settle
from holdfast.store.join import NO_TRANSACTION, OTHER_DATABASE, JoinedTransaction, check_schema
from holdfast.store.migrate import Migrator
from holdfast.store.sqlite.connection import SqliteDatabase, SqliteTransaction
from holdfast.store.sqlite.engines import Parameters, Row, SqliteConnection
from holdfast.store.sqlite.statements import QUERIES


class SqliteUserConnections:
    """Connections of others, each checked: is it this file, and is there our schema?"""

    def __init__(self, database: SqliteDatabase, schema: Migrator) -> None:
        self._database = database
        self._schema = schema

    def __call__(self, conn: object) -> JoinedTransaction:
        connection = self._borrowed(conn)
        if not _is_same(connection, self._database.path):
            raise InvalidInput(OTHER_DATABASE)
        self._database.check_log()
        tx = SqliteTransaction(connection, self._database.now(connection))
        check_schema(tx, self._schema)
        return JoinedTransaction(tx, settle, _note)

    def _borrowed(self, conn: object) -> SqliteConnection:
        if not isinstance(conn, apsw.Connection | sqlite3.Connection):
            raise InvalidInput(
                "conn= on SQLite takes an apsw or sqlite3 connection, or what SQLAlchemy wraps around one, "
                f"not {type(conn)}"
            )
        engine = "apsw" if isinstance(conn, apsw.Connection) else "stdlib"
        if engine != self._database.engine:
            raise EngineConflict(
                f"conn= is a connection of {'apsw' if engine == 'apsw' else 'sqlite3'}, but this client has "
                f"{self._database.path} open through the other SQLite library, and two would break its locks: "
                f"open the client with ?engine={engine} in its URL"
            )
        return BorrowedApsw(conn) if isinstance(conn, apsw.Connection) else BorrowedStdlib(conn)


class BorrowedApsw:
    """The caller's apsw connection, without its row trace."""

    def __init__(self, connection: apsw.Connection) -> None:
        if not connection.in_transaction:
            raise InvalidInput(NO_TRANSACTION)
        self._connection = connection
        self._cursor = connection.cursor()
        self._cursor.row_trace = lambda _, row: row

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        return self._cursor.execute(sql, parameters).fetchall()

    def many(self, sql: str, parameters: Iterable[Parameters]) -> None:
        self._cursor.executemany(sql, parameters)

    def changes(self) -> int:
        return self._connection.changes()

    def close(self) -> None:
        """It is not ours."""


class BorrowedStdlib:
    """The caller's sqlite3 connection, without its row factory."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        if not connection.in_transaction:
            _begin(connection)
        self._cursor: Any = connection.cursor()
        self._cursor.row_factory = None

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        return self._cursor.execute(sql, parameters).fetchall()  # type: ignore[no-any-return]

    def many(self, sql: str, parameters: Iterable[Parameters]) -> None:
        self._cursor.executemany(sql, parameters)

    def changes(self) -> int:
        return max(self._cursor.rowcount, 0)  # type: ignore[no-any-return]

    def close(self) -> None:
        """It is not ours."""


def _begin(connection: sqlite3.Connection) -> None:
    """sqlite3 begins by itself before the first write, as the caller expects; at once, so that it cannot fail later."""
    if connection.isolation_level is None or getattr(connection, "autocommit", None) is True:
        raise InvalidInput(NO_TRANSACTION)
    connection.execute("BEGIN IMMEDIATE")


def _is_same(connection: SqliteConnection, path: str) -> bool:
    files = {name: file for _, name, file in connection.rows(QUERIES["schema.files"])}
    return bool(files["main"]) and os.path.samefile(files["main"], path)


def _note(tx: SqliteTransaction) -> None:
    for channel in sorted(tx.rings):
        tx.run("wakeup.note", channel=channel)
