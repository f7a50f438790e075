"""The PostgreSQL store."""

from __future__ import annotations

from holdfast.store.commands import CommandsRole
from holdfast.store.delivering_role import DeathsRole, DeliveriesRole
from holdfast.store.letters_role import LettersRole
from holdfast.store.migrate import Known, Migrator
from holdfast.store.postgres.connection import Clock, Database
from holdfast.store.postgres.faults import PostgresFaults
from holdfast.store.postgres.health import PostgresHealth
from holdfast.store.postgres.joining import Joining
from holdfast.store.postgres.lending import Lending
from holdfast.store.postgres.messages import PostgresMessages
from holdfast.store.postgres.schema import PostgresSchema
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
from holdfast.store.topic_role import PlacesRole, TopicsRole


class PostgresStore:
    """One PostgreSQL database, used by any number of threads, processes and machines."""

    def __init__(self, url: str, *, clock: Clock | None = None, patience: float = 60.0) -> None:
        self.database = Database(url, clock, patience)
        self.channels = ChannelsRole(self.database)
        self.topics = TopicsRole(self.database)
        self.retention = RetentionRole(self.database)
        self.places = PlacesRole(self.database)
        self.messages = PostgresMessages(self.database)
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
        self.schema = Migrator(PostgresSchema(self.database), Known.of("postgres"))
        self.join = Joining(self.database, self.schema)
        self.lend = Lending(self.database, self.join)
        self.health = PostgresHealth(self.database, self.schema.known)
        self.faults = PostgresFaults(self.database)

    def close(self) -> None:
        """Closes the connections."""
        self.lend.close()
        self.database.close()
