"""The roles that are the same on every database that runs transactions: each verb is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from holdfast.core.deadletter import DeadLetterRecord
from holdfast.core.message import Message, MessageId, MessageStatus
from holdfast.core.queue import QueueSpec
from holdfast.store import acts, burial, channels, reading
from holdfast.store.api import Channel, Stats

Result = TypeVar("Result")


class Database(Protocol):
    """Runs work in a transaction."""

    def write(self, work: Callable[[Any], Result]) -> Result: ...
    def read(self, work: Callable[[Any], Result]) -> Result: ...
    def glance(self, work: Callable[[Any], Result]) -> Result: ...


class ChannelsRole:
    """Queues by name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def declare(self, tenant: str, name: str, spec: QueueSpec) -> Channel:
        return self._database.write(lambda tx: channels.declare(tx, tenant, name, spec))

    def find(self, tenant: str, name: str) -> Channel | None:
        return self._database.glance(lambda tx: channels.find(tx, tenant, name))

    def names(self, tenant: str) -> list[str]:
        return self._database.read(lambda tx: [name for (name,) in tx.all("channels.names", tenant=tenant)])


class ActsRole:
    """What an operator does to messages."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def cancel(self, tenant: str, message_id: MessageId) -> bool:
        return self._database.write(lambda tx: acts.cancel(tx, tenant, message_id))

    def replay(self, tenant: str, dead_id: MessageId, new_id: MessageId) -> None:
        return self._database.write(lambda tx: burial.replay(tx, tenant, dead_id, new_id))

    def purge(self, channel: Channel) -> int:
        return self._database.write(lambda tx: acts.purge(tx, channel))


class ReadsRole:
    """Looking without touching."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def status(self, tenant: str, message_id: MessageId) -> MessageStatus | None:
        return self._database.read(lambda tx: reading.status(tx, tenant, message_id))

    def peek(self, channel: Channel, limit: int) -> list[Message]:
        return self._database.read(lambda tx: reading.peek(tx, channel, limit))

    def stats(self, channel: Channel) -> Stats:
        return self._database.read(lambda tx: reading.stats(tx, channel))

    def dead_letters(
        self, tenant: str, queue: str | None, limit: int, after: MessageId | None
    ) -> list[DeadLetterRecord]:
        return self._database.read(lambda tx: reading.dead_letters(tx, tenant, queue, limit, after))

    def next_due(self, all_channels: Sequence[Channel]) -> float | None:
        return self._database.glance(lambda tx: reading.next_due(tx, all_channels))
