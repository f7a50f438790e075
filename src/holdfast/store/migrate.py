"""Migrations: numbered, forward only, each in a transaction, safe when several processes start at once.

The text of a migration never changes once it is released. The database notes the SHA-256 of each text that was run, and
tables that come from other texts than ours are refused: nobody knows what they look like.

A client checks the schema once, when it first uses the database. If a newer release migrates the database later, that
client keeps working, because migrations are compatible with running processes of the previous release. Clients of the
older release that start afterwards raise `SchemaTooNew`. See docs/howto/change-the-tables.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from holdfast.errors import SchemaMismatch, SchemaTooNew
from holdfast.store.sql import load_migrations, load_queries
from holdfast.store.transaction import Transaction

Migration = tuple[int, str, str]
"""Its number, name and text."""


class Applied(NamedTuple):
    """A migration that a database has seen."""

    number: int
    name: str
    digest: str | None
    """None if it was run before digests were noted."""


class Migratable(Protocol):
    """What a database must offer: what it has seen, and running a migration under a lock that keeps others out."""

    def schema_version(self) -> int: ...
    def applied(self) -> list[Applied]: ...
    def apply(self, number: int, name: str, script: str) -> bool: ...
    def is_ahead(self) -> bool: ...
    def rebase(self) -> None: ...


class KnownMigrations:
    """The migrations that this code knows, in order."""

    def __init__(self, migrations: Iterable[Migration]) -> None:
        self.all = list(migrations)

    @classmethod
    def of(cls, database: str) -> KnownMigrations:
        """Those of `sqlite` or `postgres`."""
        return cls(load_migrations(database))

    @property
    def newest(self) -> int:
        """The number of the last one."""
        return len(self.all)

    def difference(self, applied: Sequence[Applied]) -> str | None:
        """What is wrong with those that a database has seen, in words; None if they are ours, as far as we know."""
        seen = {one.number: one for one in applied}
        found = (
            _difference(seen.get(number), name, digest_of(script))
            for number, name, script in self.all[: max(seen, default=0)]
        )
        return next(filter(None, found), None)


class Migrator:
    """Brings one database up to this version of Holdfast."""

    def __init__(self, database: Migratable, known: KnownMigrations) -> None:
        self._database = database
        self.known = known
        self.has_matched = False
        """Whether the database was once at this version: then it may be at a newer one now. See above."""

    @property
    def newest(self) -> int:
        """The number of the last migration that this code knows."""
        return self.known.newest

    def version(self) -> int:
        """The number of the last migration that the database has seen; 0 for an empty one."""
        return self._database.schema_version()

    def verify(self) -> int:
        """The version, if every migration that the database has seen is one of ours, with the same text."""
        applied = self._database.applied()
        version, newest = max((one.number for one in applied), default=0), self.newest
        if version > newest:
            raise too_new(version, newest)
        if (trouble := self.known.difference(applied)) is not None:
            raise SchemaMismatch(f"{trouble}. {REMEDY}")
        self.has_matched |= version == newest
        return version

    def migrate(self) -> list[str]:
        """Runs what is missing; the names of what it ran. Refuses a database that it cannot be sure of (`verify`)."""
        version = self.verify()
        missing = self.known.all[version:]
        ran = [name for number, name, script in missing if self._database.apply(number, name, script)]
        if missing:
            self.verify()  # Another process may have been faster, with other migrations than ours.
        return ran

    def is_ahead(self) -> bool:
        """Whether the data was restored on a server that cannot read it yet: then `rebase` is needed."""
        return self._database.is_ahead()

    def rebase(self) -> None:
        """Makes restored data readable on this server. Nothing else may use the database meanwhile."""
        self._database.rebase()


REMEDY = (
    "Its tables may differ from those that this Holdfast needs, so it is left alone: use the Holdfast that made it, "
    "restore a backup, or start with a new database"
)


def too_new(version: int, newest: int) -> SchemaTooNew:
    """A newer release has migrated the database."""
    return SchemaTooNew(f"the database is at schema {version}, this Holdfast knows {newest}: upgrade this installation")


def digest_of(script: str) -> str:
    """What tells a migration's text from every other."""
    return hashlib.sha256(script.encode()).hexdigest()


def _difference(seen: Applied | None, name: str, digest: str) -> str | None:
    """What a database has seen instead of this migration, in words; None if it is the same."""
    if seen is None:
        return f"the database has not seen migration {name}, but later ones"
    if seen.digest is None:
        return f"the database is from before 0.1 and does not say which text of migration {name} was run"
    if seen.name != name:
        return f"the database has seen migration {seen.name}, which this Holdfast does not know; it has {name} instead"
    if seen.digest != digest:
        texts = f"SHA-256 {seen.digest[:12]}…, not {digest[:12]}…"
        return f"the database has seen migration {name} with another text ({texts})"
    return None


def applied(tx: Transaction) -> list[Applied]:
    """The migrations that the database has seen, in order."""
    if tx.one("schema.exists") is None:
        return []
    statement = "schema.applied" if tx.one("schema.has_digests") else "schema.applied_without_digests"
    return [Applied(*row) for row in tx.all(statement)]


def schema_version(tx: Transaction) -> int:
    """The number of the last migration that the database has seen; 0 for an empty one."""
    if tx.one("schema.exists") is None:
        return 0
    found = tx.one("schema.version")
    return found[0] if found else 0


def script(database: str) -> str:
    """All migrations as one SQL text, for those who run them by hand; it notes what was run, as we would."""
    queries = load_queries(database)
    parts = [f"{queries['schema.prepare']};"]
    for number, name, text in load_migrations(database):
        record = queries["schema.record"].replace(":number", str(number)).replace(":name", f"'{name}'")
        record = record.replace(":digest", f"'{digest_of(text)}'")
        parts.append(f"-- migration {name}\n{text}\n{record};")
    return "\n\n".join(parts)
