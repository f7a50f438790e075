"""What may be asked of a store about topics. Shared by both stores."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.given import Settle
from holdfast.core.message import MessageId
from holdfast.core.queue import QueueSpec
from holdfast.core.topic import GroupSpec, GroupStatus, Start, TopicSpec
from holdfast.store import feeding, group_list, seeking, topics
from holdfast.store.api import Channel, Topic
from holdfast.store.roles import Database


class TopicsRole:
    """Topics by name, and who reads them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def declare(self, tenant: str, name: str, settle: Settle[TopicSpec]) -> Topic:
        return self._database.write(lambda tx: topics.declare(tx, tenant, name, settle))

    def find(self, tenant: str, names: Sequence[str]) -> Topic | Channel | None:
        return self._database.read(lambda tx: topics.find(tx, tenant, names))

    def declare_queue(self, tenant: str, name: str, settle: Settle[QueueSpec]) -> Channel:
        return self._database.write(lambda tx: topics.declare_queue(tx, tenant, name, settle))

    def names(self, tenant: str) -> list[str]:
        return self._database.read(lambda tx: [name for (name,) in tx.all("topics.names", tenant=tenant)])

    def subscribe(self, topic: Topic, group: str, settle: Settle[GroupSpec], start: Start) -> Channel:
        return self._database.write(lambda tx: topics.subscribe(tx, topic, group, settle, start))

    def unsubscribe(self, tenant: str, name: str, actor: str) -> bool:
        return self._database.write(lambda tx: topics.unsubscribe(tx, tenant, name, actor))

    def is_canceled(self, tenant: str, name: str) -> bool:
        return self._database.glance(lambda tx: topics.is_canceled(tx, tenant, name))

    def groups(self, topic: Topic) -> list[GroupStatus]:
        return self._database.read(lambda tx: group_list.groups(tx, topic))


class PlacesRole:
    """Where groups are in their topics."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def seek(self, channel: Channel, to: Start, actor: str) -> None:
        self._database.write(lambda tx: seeking.seek(tx, channel, to, actor))

    def skip(self, channel: Channel, message_id: MessageId, actor: str) -> bool:
        return self._database.write(lambda tx: seeking.skip(tx, channel, message_id, actor))

    def cancel(self, channel: Channel, actor: str) -> bool:
        return self._database.write(lambda tx: topics.cancel(tx, channel, actor))

    def reached(self, all_channels: Sequence[Channel]) -> list[object]:
        return self._database.read(lambda tx: [row for one in all_channels for row in feeding.reached(tx, one)])
