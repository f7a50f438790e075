"""The SQLite store: one file, no server."""

from __future__ import annotations

from holdfast.store.commands import CommandsRole
from holdfast.store.delivering_role import DeathsRole, DeliveriesRole
from holdfast.store.letters_role import LettersRole
from holdfast.store.migrate import Known, Migrator
from holdfast.store.replies import RepliesRole
from holdfast.store.retention_role import RetentionRole
from holdfast.store.roles import (
    ActsRole,
    ChannelsRole,
    CommitmentsRole,
    CrewRole,
    EffortsRole,
    LeadersRole,
    NoticesRole,
    OwnersRole,
    ReadsRole,
    SchedulesRole,
    SeatsRole,
    UpkeepRole,
)
from holdfast.store.saga_definitions import SagaDefinitionsRole
from holdfast.store.saga_role import SagasRole
from holdfast.store.sqlite.connection import Clock, Database
from holdfast.store.sqlite.faults import SqliteFaults
from holdfast.store.sqlite.health import SqliteHealth
from holdfast.store.sqlite.joining import Joining
from holdfast.store.sqlite.lending import Lending
from holdfast.store.sqlite.messages import SqliteMessages
from holdfast.store.sqlite.schema import SqliteSchema
from holdfast.store.topic_role import PlacesRole, TopicsRole


class SqliteStore:
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
        self.database = Database(path, engine, clock, patience, network)
        self.channels = ChannelsRole(self.database)
        self.topics = TopicsRole(self.database)
        self.retention = RetentionRole(self.database)
        self.places = PlacesRole(self.database)
        self.messages = SqliteMessages(self.database)
        self.deliveries = DeliveriesRole(self.database)
        self.deaths = DeathsRole(self.database)
        self.upkeep = UpkeepRole(self.database)
        self.acts = ActsRole(self.database)
        self.reads = ReadsRole(self.database)
        self.letters = LettersRole(self.database)
        self.owners = OwnersRole(self.database)
        self.replies = RepliesRole(self.database)
        self.notices = NoticesRole(self.database)
        self.crew = CrewRole(self.database)
        self.seats = SeatsRole(self.database)
        self.leaders = LeadersRole(self.database)
        self.efforts = EffortsRole(self.database)
        self.commitments = CommitmentsRole(self.database)
        self.commands = CommandsRole(self.database)
        self.sagas = SagasRole(self.database)
        self.saga_definitions = SagaDefinitionsRole(self.database)
        self.schedules = SchedulesRole(self.database)
        self.wakeup = self.database.wakeup
        self.schema = Migrator(SqliteSchema(self.database), Known.of("sqlite"))
        self.join = Joining(self.database, self.schema)
        self.lend = Lending(self.database)
        self.health = SqliteHealth(self.database, self.schema.known)
        self.faults = SqliteFaults(self.database)

    def close(self) -> None:
        """Closes the file."""
        self.lend.close()
        self.database.close()
