"""The role that keeps messages for groups, and knows which of them are alive: each verb is one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.liveness import Heard
from holdfast.core.retention import Retained
from holdfast.store import liveness, removals, retention
from holdfast.store.api import Channel, Topic
from holdfast.store.roles import Database


class RetentionRole:
    """How long a topic keeps its messages, and for whom."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def retain(self, topic: Topic, limit: int) -> Retained:
        if not self._database.read(lambda tx: retention.is_due(tx, topic)):
            return Retained()
        return self._database.write(lambda tx: retention.retain(tx, topic, limit))

    def removes(self, of: Channel | Topic, setting: str, value: Any) -> bool:
        return self._database.read(lambda tx: removals.removes(tx, of, setting, value))

    def beat(self, channel: Channel) -> Heard:
        return self._database.write(lambda tx: liveness.beat(tx, channel))

    def is_dead(self, channel: Channel) -> bool:
        return self._database.glance(lambda tx: tx.one("liveness.is_dead", group=channel.group) is not None)

    def late(self, channels: Sequence[Channel]) -> list[Channel]:
        return self._database.glance(lambda tx: liveness.late(tx, channels))

    def watch(self, channel: Channel) -> bool:
        return self._database.write(lambda tx: liveness.watch(tx, channel))

    def accept_loss(self, channel: Channel) -> int:
        return self._database.write(lambda tx: liveness.accept_loss(tx, channel))
