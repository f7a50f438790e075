"""The PostgreSQL store."""

from __future__ import annotations

from holdfast.store.api import Store
from holdfast.store.migrate import KnownMigrations, Migrator
from holdfast.store.postgres.connection import Clock, PostgresDatabase
from holdfast.store.postgres.faults import PostgresFaults
from holdfast.store.postgres.health import PostgresHealth
from holdfast.store.postgres.join import PostgresUserConnections
from holdfast.store.postgres.loaned_connection import PostgresConnectionLoans
from holdfast.store.postgres.messages import PostgresMessages
from holdfast.store.postgres.schema import PostgresSchema


class PostgresStore(Store):
    """One PostgreSQL database, used by any number of threads, processes and machines."""

    def __init__(self, url: str, *, clock: Clock | None = None, patience: float = 60.0) -> None:
        database = PostgresDatabase(url, clock, patience)
        super().__init__(database)
        self.messages = PostgresMessages(database)
        self.wakeup = database.wakeup
        self.schema = Migrator(PostgresSchema(database), KnownMigrations.of("postgres"))
        self.join = PostgresUserConnections(database, self.schema)
        self.lend = PostgresConnectionLoans(database, self.join)
        self.health = PostgresHealth(database, self.schema.known)
        self.faults = PostgresFaults(database)
