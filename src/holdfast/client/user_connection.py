"""From what a caller has (a driver's connection, or SQLAlchemy's connection or session) to the driver's connection."""

from __future__ import annotations

from inspect import iscoroutinefunction
from typing import Any

from holdfast.errors import InvalidInput


def driver_connection(conn: Any) -> Any:
    """The driver's connection. SQLAlchemy is made to know that a transaction has begun, or it would not commit it."""
    if not is_sqlalchemy(conn):
        return conn
    if hasattr(conn, "run_sync"):
        raise InvalidInput("conn= of SQLAlchemy's asyncio needs the asyncio client: AsyncHoldfast(url)")
    connection = conn.connection() if callable(conn.connection) else conn
    if not connection.in_transaction():
        connection.begin()
    return connection.connection.driver_connection


async def async_driver_connection(conn: Any) -> Any:
    """The same for SQLAlchemy's asyncio connection and session; anything else is as above."""
    if not (is_sqlalchemy(conn) and hasattr(conn, "run_sync")):
        return driver_connection(conn)
    connection = await conn.connection() if hasattr(conn, "sync_session") else conn
    if not connection.in_transaction():
        await connection.begin()
    return connection.sync_connection.connection.driver_connection


def is_sqlalchemy(conn: Any) -> bool:
    """Without importing it: whoever hands over such an object has."""
    return any(kind.__module__.startswith("sqlalchemy.") for kind in type(conn).__mro__)


def is_awaited(connection: Any) -> bool:
    """Whether a driver's connection has to be awaited."""
    return iscoroutinefunction(getattr(connection, "commit", None))
