"""The only judge of what a PostgreSQL error means."""

from __future__ import annotations

import psycopg
from psycopg import errors

from holdfast.errors import HoldfastError, StoreCorrupt, StoreError, StoreFull, Unavailable

DriverError = (psycopg.Error,)


class ServerTimeout(psycopg.OperationalError):
    """The server did not answer in time. Ours, but it goes the way of the driver's errors."""


_AGAIN = (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable)
_AWAY = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.ConnectionException,
    errors.TooManyConnections,
    errors.IdleInTransactionSessionTimeout,
    errors.ReadOnlySqlTransaction,
)
_PASSING_REASONS = (
    "starting up",
    "shutting down",
    "recovery",
    "not yet accepting",
    "not accepting",
    "too many",
    "connection slots",
    "terminating connection",
    # A pooler's words for the same.
    "server login has been failing",
    "server login failed",
    "cannot connect to server",
    "server conn crashed",
    "server connection crashed",
    "wait_timeout",
    "no more connections allowed",
)
_KINDS: dict[type[BaseException], type[StoreError]] = {
    errors.DiskFull: StoreFull,
    errors.DataCorrupted: StoreCorrupt,
    errors.IndexCorrupted: StoreCorrupt,
}


def is_conflict(error: BaseException) -> bool:
    """Two transactions got in each other's way and the database undid this one: run it again."""
    return isinstance(error, _AGAIN)


def is_lock_wait(error: BaseException | None) -> bool:
    """The statement waited for a lock for longer than `lock_timeout`."""
    return isinstance(error, errors.LockNotAvailable)


def is_away(error: BaseException) -> bool:
    """The server is restarting, failing over or out of reach: try again until patience ends.

    An error without a code comes from the connection itself. If the server refused it with a reason that waiting will
    not cure, such as a wrong password, it is not away.
    """
    if isinstance(error, _AWAY):
        return True
    if isinstance(error, errors.ProtocolViolation):  # That is what a pooler calls its own errors.
        return any(reason in str(error) for reason in _PASSING_REASONS)
    if not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) or getattr(error, "sqlstate", None):
        return False
    text = str(error)
    return "FATAL" not in text or any(reason in text for reason in _PASSING_REASONS)


def is_doubtful(error: BaseException) -> bool:
    """An earlier try may have been committed: the answer got lost, or an id of ours turns out to be there already."""
    return is_away(error) or isinstance(error, errors.UniqueViolation)


def wants_a_closer_look(error: BaseException | None) -> bool:
    """A function of ours has done nothing, because it could not tell what is right."""
    return getattr(error, "sqlstate", None) == "HF001"


def translated(error: BaseException) -> HoldfastError:
    """The error of ours that says the same."""
    kind = next((ours for theirs, ours in _KINDS.items() if isinstance(error, theirs)), StoreError)
    if is_away(error) or isinstance(error, (errors.LockNotAvailable, errors.QueryCanceled)):
        kind = Unavailable
    default = (kind.__doc__ or "").strip()
    return kind(f"{default} ({type(error).__name__}: {_first_line(error)})")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["no details"])[0]
