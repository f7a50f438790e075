"""Migrations on SQLite: the file's write lock keeps a second process out."""

from __future__ import annotations

from holdfast.store.migrate import Applied, applied, digest_of, schema_version
from holdfast.store.sql import statements
from holdfast.store.sqlite.connection import SqliteDatabase, SqliteTransaction


class SqliteSchema:
    """The file's structure."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def schema_version(self) -> int:
        """The last migration's number, 0 for an empty file."""
        return self._database.read(schema_version)

    def applied(self) -> list[Applied]:
        """The migrations that it has seen."""
        return self._database.read(applied)

    def apply(self, number: int, name: str, script: str) -> bool:
        """Runs one migration unless someone else has."""

        def work(tx: SqliteTransaction) -> bool:
            tx.run("schema.prepare")
            if schema_version(tx) >= number:
                return False
            for statement in statements(script):
                tx.execute(statement)
            tx.run("schema.record", number=number, name=name, digest=digest_of(script))
            return True

        return self._database.write(work)

    def is_ahead(self) -> bool:
        """Never: positions in a file mean the same wherever the file is."""
        return False

    def rebase(self) -> None:
        """Nothing to do."""
