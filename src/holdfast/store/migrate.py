"""Migrations: numbered, forward only, each in a transaction, safe when several processes start at once."""

from __future__ import annotations

from typing import Protocol

from holdfast.errors import SchemaTooNew
from holdfast.store.sqlfile import load_migrations, load_queries
from holdfast.store.transaction import Transaction


class Migratable(Protocol):
    """What a database must offer: its version, and running a migration under a lock that keeps others out."""

    def schema_version(self) -> int: ...
    def apply(self, number: int, name: str, script: str) -> bool: ...
    def is_ahead(self) -> bool: ...
    def rebase(self) -> None: ...


class Migrator:
    """Brings one database up to this version of Holdfast."""

    def __init__(self, database: Migratable, package: str) -> None:
        self._database = database
        self._migrations = load_migrations(package)

    @property
    def newest(self) -> int:
        """The number of the last migration that this code knows."""
        return len(self._migrations)

    def version(self) -> int:
        """The number of the last migration that the database has seen; 0 for an empty one."""
        return self._database.schema_version()

    def migrate(self) -> list[str]:
        """Runs what is missing; the names of what it ran. Refuses a database that is ahead of this code."""
        version, newest = self.version(), self.newest
        if version > newest:
            raise SchemaTooNew(
                f"the database is at schema {version}, this Holdfast knows {newest}: upgrade this installation"
            )
        ran = []
        for number, name, script in self._migrations[version:]:
            # Another process may have been faster; then there is nothing left to do.
            if self._database.apply(number, name, script):
                ran.append(name)
        return ran

    def is_ahead(self) -> bool:
        """Whether the data was restored on a server that cannot read it yet: then `rebase` is needed."""
        return self._database.is_ahead()

    def rebase(self) -> None:
        """Makes restored data readable on this server. Nothing else may use the database meanwhile."""
        self._database.rebase()


def schema_version(tx: Transaction) -> int:
    """The number of the last migration that the database has seen; 0 for an empty one."""
    if tx.one("schema.exists") is None:
        return 0
    found = tx.one("schema.version")
    return found[0] if found else 0


def script(package: str) -> str:
    """All migrations as one SQL text, for those who run them by hand; it notes what was run, as we would."""
    queries = load_queries(package)
    parts = [f"{queries['schema.prepare']};"]
    for number, name, text in load_migrations(package):
        record = queries["schema.record"].replace(":number", str(number)).replace(":name", f"'{name}'")
        parts.append(f"-- migration {name}\n{text}\n{record};")
    return "\n\n".join(parts)
