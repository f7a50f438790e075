"""The only judge of what a SQLite error means, for both libraries."""

from __future__ import annotations

import sqlite3

import apsw

from holdfast.errors import HoldfastError, StoreCorrupt, StoreError, StoreFull

DriverError = (apsw.Error, sqlite3.Error)

_CODES = {
    apsw.SQLITE_FULL: StoreFull,
    apsw.SQLITE_CORRUPT: StoreCorrupt,
    apsw.SQLITE_NOTADB: StoreCorrupt,
}


def is_busy(error: BaseException) -> bool:
    """Another process is writing: try again."""
    return _code(error) in (apsw.SQLITE_BUSY, apsw.SQLITE_LOCKED)


def wants_a_closer_look(error: BaseException | None) -> bool:
    """What was to be done in one statement has to be done step by step."""
    return _extended(error) == apsw.SQLITE_CONSTRAINT_TRIGGER


def translated(error: BaseException) -> HoldfastError:
    """The error of ours that says the same."""
    code = _code(error)
    if _extended(error) == apsw.SQLITE_IOERR_SHMSIZE or (code == apsw.SQLITE_IOERR and "full" in str(error).lower()):
        code = apsw.SQLITE_FULL
    kind = _CODES.get(code, StoreError)
    default = (kind.__doc__ or "").strip()
    return kind(f"{default} ({error})")


def _code(error: BaseException) -> int:
    if isinstance(error, apsw.Error):
        return getattr(error, "result", 0) & 0xFF
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def _extended(error: BaseException | None) -> int | None:
    return getattr(error, "extendedresult", None) or getattr(error, "sqlite_errorcode", None)
