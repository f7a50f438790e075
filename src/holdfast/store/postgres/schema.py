"""Migrations on PostgreSQL: an advisory lock keeps a second process out."""

from __future__ import annotations

from holdfast.store.postgres.connection import Database, PostgresTransaction
from holdfast.store.sqlfile import statements


class PostgresSchema:
    """The database's structure."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def schema_version(self) -> int:
        """The last migration's number, 0 for an empty database."""
        return self._database.read(_version)

    def apply(self, number: int, name: str, script: str) -> bool:
        """Runs one migration unless someone else has."""

        def work(tx: PostgresTransaction) -> bool:
            tx.one("schema.hold")
            tx.run("schema.prepare")
            if _version(tx) >= number:
                return False
            for statement in statements(script):
                tx.execute(statement)
            tx.run("schema.record", number=number, name=name)
            return True

        return self._database.write(work)


def _version(tx: PostgresTransaction) -> int:
    if tx.one("schema.exists") is None:
        return 0
    found = tx.one("schema.version")
    return found[0] if found else 0
