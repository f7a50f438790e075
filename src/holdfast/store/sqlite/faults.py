"""Harm to one SQLite file: a disk that is full."""

from __future__ import annotations

import os

from holdfast.store.sqlite.connection import SqliteDatabase

_NO_MORE_PAGES = "PRAGMA max_page_count = 1"
"""SQLite does not go below what there is."""

_MOST_PAGES = "PRAGMA max_page_count = 1073741823"


class SqliteFaults:
    """The limit is that of one connection: other processes notice nothing."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def fill(self, full: bool) -> bool:
        self._database.write(lambda tx: tx.execute(_NO_MORE_PAGES if full else _MOST_PAGES))
        return True

    def end_sessions(self, named: str) -> int:
        return 0

    def unheard(self) -> int:
        return 0

    def size(self) -> int:
        return os.stat(self._database.path).st_size
