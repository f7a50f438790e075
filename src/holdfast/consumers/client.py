"""Consumers and pools for users: which ones run, what they do, and which queues they take from."""

from __future__ import annotations

from holdfast.client.namespace import Namespace
from holdfast.consumers import rules as consumers_rules
from holdfast.consumers.rules import (
    Attachment,
    ConsumerStatus,
    PoolStatus,
    checked_empty,
    checked_share,
    checked_weight,
)
from holdfast.core.queue import channel_name
from holdfast.topics.rules.declaration import reader_name

SATURATED = 0.5


class Consumers(Namespace):
    """`hf.consumers`: looks at running consumers, and attaches them to queues."""

    def amplification(self, threshold: float = SATURATED) -> int:
        """How many agents work productively: live consumers whose saturation is at least the threshold."""
        least = checked_share(threshold, "threshold")
        return consumers_rules.amplification(self.list(), least)

    def attach(self, consumer: str, queue: str, *, weight: float | None = None, empty: str | None = None) -> None:
        """Has a consumer take from a queue, too, or in another way; running ones follow at once, later ones too.

        `weight` is how often the queue has its turn beside the others (without effect under the policies "strict" and
        "random"), `empty` what happens when nothing is left ("poll", "hibernate" or "terminate"). What is not given
        stays as it was, or as the consumer's code says.
        """
        channel_name(consumer, "consumer")
        weight, empty = checked_weight(weight), checked_empty(empty)
        self._catalog.channel(reader_name(queue, "queue"))
        self._store.crew.attach(self._tenant, consumer, queue, weight, empty)
        self._parts.starts.changed()

    def detach(self, consumer: str, queue: str) -> None:
        """Has a consumer take nothing more from a queue, whatever its code says, until it is attached again.

        When this returns, consumers of this client start no handler of this queue; others stop within a second.
        Running handlers may finish. Messages that were claimed ahead are released, which spends no attempt.

        >>> hf.consumers.detach("send", "emails")
        """
        channel_name(consumer, "consumer")
        reader_name(queue, "queue")
        self._catalog.open()
        self._store.crew.detach(self._tenant, consumer, queue)
        self._parts.starts.changed(lambda context: (context.consumer.name, context.queue) == (consumer, queue))

    def attachments(self, consumer: str | None = None) -> list[Attachment]:
        """What `attach` and `detach` have changed, for one consumer or for all. What code declares is not in it."""
        name = None if consumer is None else channel_name(consumer, "consumer")
        self._catalog.open()
        return self._store.crew.attachments(self._tenant, name)

    def list(self, alive: bool = True) -> list[ConsumerStatus]:
        """The consumers that run, by name and start; with `alive=False` also those that fell silent within the hour.

        Their `queues` are current: what `attach` and `detach` have changed since a consumer last told of itself counts.

        >>> [one.consumer for one in hf.consumers.list()]
        []
        """
        self._catalog.open()
        told = [one for one in self._store.crew.workers(self._tenant) if one.alive or not alive]
        changes = self._store.crew.attachments(self._tenant, None) if told else []
        if not changes:
            return told
        requires = self._requires(consumers_rules.newly_attached(told, changes))
        return [consumers_rules.with_changes(one, changes, requires) for one in told]

    def _requires(self, queues: set[str]) -> dict[str, dict[str, str]]:
        """The labels that consumers of these queues must have."""
        found = [self._store.channels.find(self._tenant, queue) for queue in queues]
        return {channel.name: dict(channel.spec.requires) for channel in found if channel is not None}


class Pools(Namespace):
    """`hf.pools`: looks at pools of consumers."""

    def list(self) -> list[PoolStatus]:
        """The pools that have running members, by name, over all processes and machines.

        >>> [(pool.name, pool.members) for pool in hf.pools.list()]
        []
        """
        self._catalog.open()
        return consumers_rules.pools([one for one in self._store.crew.workers(self._tenant) if one.alive])
