"""The queues that a worker takes from: what its consumer declares, with what was changed from outside since."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Iterable, Sequence

from holdfast.client.client import internals
from holdfast.consumers.rules import Attachment, attached
from holdfast.core.labels import missing
from holdfast.errors import CursorOutOfRange
from holdfast.store.api import Channel
from holdfast.topics.rules.declaration import parts
from holdfast.worker.consumer import Consumer
from holdfast.worker.rotation import QueueRotation, Rotation

log = logging.getLogger("holdfast")

REST = 1.0
"""Seconds for which nothing is claimed from a group that someone has to decide about."""


class AttachmentWatcher:
    """Kept up to date with the database. A queue whose labels the consumer does not have is left alone."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._declared = [
            Attachment(consumer.name, queue, weight=consumer.weights[queue], empty=consumer.empty.get(queue))
            for queue in consumer.queues
        ]
        self._attached: dict[str, Attachment] = {}
        self._ended: dict[str, int | None] = {}
        self._met: set[str] = set()
        self._refused: set[str] = set()
        self._resting: dict[str, float] = {}
        self._told: dict[str, str] = {}
        self.turns = QueueRotation(Rotation(consumer.policy, {}))
        """In which order messages of the queues are begun."""
        self._changing = threading.Lock()
        self.version = 0
        """Another number after every change."""

    def read(self) -> None:
        """Looks at the database for changes. From any thread."""
        hf, name = self._consumer.hf, self._consumer.name
        changes = internals(hf).store.crew.attachments(hf.settings.tenant, name)
        if self._consumer.find_queues is not None:
            self._declared = [Attachment(name, queue) for queue in self._consumer.find_queues()]
        self._set({one.queue: one for one in attached(self._declared, changes)})

    def has(self, queue: str) -> bool:
        """Whether the worker takes from this one."""
        return queue in self._attached

    def channels(self) -> list[Channel]:
        """The queues that something is taken from now."""
        names = self.turns.rotation.names
        found = internals(self._consumer.hf).catalog.channels(names)
        self._met.update(names)
        return [channel for channel in found if not self._rests(channel) and self._fits(channel)]

    def rest(self, problem: CursorOutOfRange) -> None:
        """A group has lost something: nothing is claimed there for a moment, and elsewhere all goes on."""
        if self._told.get(problem.group) != str(problem):
            self._told[problem.group] = str(problem)
            log.warning("consumer %s: %s", self._consumer.name, problem)
        self._resting[problem.group] = time.monotonic() + REST

    def rest_left(self) -> float:
        """Seconds until a group is asked again that was left alone; for ever if none is."""
        ends = min((end for queue, end in self._resting.items() if queue in self._attached), default=math.inf)
        return max(0.0, ends - time.monotonic())

    def empty(self, channel: Channel) -> str:
        """What to do when this queue is empty."""
        attachment = self._attached.get(channel.name)
        return (attachment.empty if attachment is not None else None) or channel.spec.empty

    def end_empty(self, channels: Sequence[Channel]) -> bool:
        """Leaves those of these empty ones that are to be left then; whether nothing is left to do."""
        ending = {channel.name for channel in channels if self._ends_with(channel)}
        self._leave(ending)
        return bool(ending) and not self._attached

    def _ends_with(self, channel: Channel) -> bool:
        """Whether an empty queue is left. What SQS delivers is not here yet, and yet it is there."""
        if self.empty(channel) != "terminate":
            return False
        return channel.spec.has_lanes or not internals(self._consumer.hf).store.reads.load([channel]).depth

    def leave_ended_groups(self) -> list[str]:
        """Groups that were there and have ended, or were canceled, are left. Others may be subscribed yet."""
        book, topics = internals(self._consumer.hf).catalog, internals(self._consumer.hf).store.topics
        gone = [queue for queue in self._attached if parts(queue) is not None and book.has_ended(queue)]
        tenant = self._consumer.hf.settings.tenant
        left = [queue for queue in gone if queue in self._met or topics.is_canceled(tenant, queue)]
        self._leave(set(left))
        return left

    @property
    def queues(self) -> list[str]:
        """Their names."""
        return list(self._attached)

    @property
    def fitting(self) -> list[str]:
        """Those that it takes from: not the ones whose labels the consumer does not have."""
        return [queue for queue in self._attached if queue not in self._refused]

    def hold(self, channels: Iterable[Channel]) -> bool:
        """Whether all of these are still attached."""
        return {channel.name for channel in channels} <= self._attached.keys()

    def _leave(self, queues: set[str]) -> None:
        """For as long as nobody changes anything about them."""
        with self._changing:
            self._ended.update((queue, one.changed_at_us) for queue, one in self._attached.items() if queue in queues)
        self._set(self._attached)

    def _set(self, wanted: dict[str, Attachment]) -> None:
        with self._changing:
            ended = self._ended
            kept = {name: one for name, one in wanted.items() if name not in ended or ended[name] != one.changed_at_us}
            if kept != self._attached:
                self._attached = kept
                self.version += 1
                weights = {queue: one.weight or 1.0 for queue, one in kept.items()}
                self.turns = QueueRotation(Rotation(self._consumer.policy, weights, random.random))

    def _rests(self, channel: Channel) -> bool:
        """Whether it is left alone for now."""
        if time.monotonic() < self._resting.get(channel.name, 0.0):
            return True
        self._resting.pop(channel.name, None)
        return False

    def _fits(self, channel: Channel) -> bool:
        lacking = missing(self._consumer.labels, channel.spec.requires)
        if lacking and channel.name not in self._refused:
            log.warning(
                "consumer %s leaves %s alone, which requires %s", self._consumer.name, channel.name, dict(lacking)
            )
        self._refused = self._refused | {channel.name} if lacking else self._refused - {channel.name}
        return not lacking
