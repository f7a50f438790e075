"""The SQLite store: one file, no server."""

from __future__ import annotations

from holdfast.store.api import Store
from holdfast.store.migrate import KnownMigrations, Migrator
from holdfast.store.sqlite.connection import Clock, SqliteDatabase
from holdfast.store.sqlite.faults import SqliteFaults
from holdfast.store.sqlite.health import SqliteHealth
from holdfast.store.sqlite.join import SqliteUserConnections
from holdfast.store.sqlite.loaned_connection import SqliteConnectionLoans
from holdfast.store.sqlite.messages import SqliteMessages
from holdfast.store.sqlite.schema import SqliteSchema


class SqliteStore(Store):
    """One SQLite file, used by any number of threads and processes of one machine."""

    def __init__(
        self,
        path: str,
        *,
        engine: str = "apsw",
        clock: Clock | None = None,
        patience: float = 60.0,
        network: bool = False,
    ) -> None:
        database = SqliteDatabase(path, engine, clock, patience, network)
        super().__init__(database)
        self.messages = SqliteMessages(database)
        self.wakeup = database.wakeup
        self.schema = Migrator(SqliteSchema(database), KnownMigrations.of("sqlite"))
        self.join = SqliteUserConnections(database, self.schema)
        self.lend = SqliteConnectionLoans(database)
        self.health = SqliteHealth(database, self.schema.known)
        self.faults = SqliteFaults(database)
