"""Harm to users of a PostgreSQL server: sessions that end without a word."""

from __future__ import annotations

from holdfast.store.postgres.connection import PostgresDatabase


class PostgresFaults:
    """What a role may do to its own sessions."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def fill(self, full: bool) -> bool:
        return False

    def end_sessions(self, named: str) -> int:
        return len(self._database.glance(lambda tx: tx.all("faults.end_sessions", named=named)))

    def unheard(self) -> int:
        return self._database.unheard

    def size(self) -> int:
        found = self._database.glance(lambda tx: tx.one("health.server"))
        return 0 if found is None else int(found[2])
