"""The way of messages into queues and topics: drafted, seen by the functions around enqueue, stored."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.client.catalog import ChannelBook
from holdfast.client.compose import EnqueueOptions, Form, draft, form, listed
from holdfast.client.group_commit import Gather
from holdfast.client.message_types import MessageTypes
from holdfast.client.middleware import EnqueueMiddleware, outgoing_of, put_through
from holdfast.client.receipts import Receipt, receipts
from holdfast.client.user_connection import driver_connection
from holdfast.core.message import NewMessage
from holdfast.core.queue import channel_name
from holdfast.errors import InvalidInput
from holdfast.store.api import Channel, Joined, Store, Topic
from holdfast.topics.rules import routing

if TYPE_CHECKING:
    from holdfast.core.message import Duplicate


class Producer:
    """Stores what a client enqueues and publishes."""

    def __init__(
        self,
        store: Store,
        catalog: ChannelBook,
        types: MessageTypes,
        inserts: Gather[NewMessage, Duplicate | None],
        around: EnqueueMiddleware,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._types = types
        self._inserts = inserts
        self._around_enqueue = around.plain
        self._forms: dict[str, Form] = {}

    def put(self, queue: str, bodies: Iterable[Any], options: EnqueueOptions, conn: Any) -> list[Receipt]:
        if self._around_enqueue:
            outgoing = outgoing_of(queue, bodies, options)
            return put_through(self._around_enqueue, partial(self.insert, conn=conn), outgoing)
        return self.insert(queue, bodies, options, conn)

    def insert(
        self, queue: str, bodies: Iterable[Any], options: EnqueueOptions, conn: Any, topic: str | None = None
    ) -> list[Receipt]:
        channel = self._catalog.known(queue)
        if channel is not None and conn is None:
            new = self.draft(channel, bodies, options, topic)
            return receipts(new, self._inserts.call(new)) if new else []
        channel_name(queue)
        trial = partial(self.draft, bodies=listed(bodies), options=options, topic=topic)
        if conn is None:
            new = trial(self._catalog.channel(queue, trial, create=topic is None))
            return receipts(new, self._inserts.call(new)) if new else []
        joined = self._store.join(driver_connection(conn))
        new = trial(self._catalog.channel_within(joined, queue, trial, create=topic is None))
        return receipts(new, joined.insert(new)) if new else []

    def publish(self, name: str, bodies: Iterable[Any], options: EnqueueOptions, conn: Any) -> list[Receipt]:
        routing.topic_name(name, "topic")
        if self._around_enqueue:
            outgoing = outgoing_of(name, bodies, options)
            return put_through(self._around_enqueue, partial(self.distribute, conn=conn), outgoing)
        return self.distribute(name, bodies, options, conn)

    def distribute(self, name: str, bodies: Iterable[Any], options: EnqueueOptions, conn: Any) -> list[Receipt]:
        """To a topic and its groups, or into the queue of this name."""
        owner = self._catalog.destination(name)
        if not isinstance(owner, Topic):
            return self.insert(owner, bodies, options, conn, name)
        new = for_groups(owner, name, bodies, options)
        if not new:
            return []
        if conn is None:
            return receipts(new, self._inserts.call(new))
        return receipts(new, self._store.join(driver_connection(conn)).insert(new))

    def drafted(
        self, queue: str, bodies: list[Any], options: EnqueueOptions, joined: Joined | None = None
    ) -> list[NewMessage]:
        """Messages that are stored later, with something else; seen from its transaction if that is open already."""
        channel_name(queue)
        trial = partial(self.draft, bodies=bodies, options=options)
        if joined is None:
            return trial(self._catalog.channel(queue, trial))
        return trial(self._catalog.channel_within(joined, queue, trial))

    def draft(
        self, channel: Channel, bodies: Iterable[Any], options: EnqueueOptions, topic: str | None = None
    ) -> list[NewMessage]:
        if channel.source is not None:
            raise InvalidInput(f"{channel.name!r} is a group, which gets what is published to its topic: hf.publish(…)")
        new = self._form(channel, options, topic).fill(bodies, options.key, options.idempotency_key)
        self._types.check(channel, new)
        return new

    def _form(self, channel: Channel, options: EnqueueOptions, topic: str | None) -> Form:
        """Most calls ask for nothing, and can have the form of the last one."""
        if topic is not None or not options.are_default:
            return form(channel, options, topic=topic)
        found = self._forms.get(channel.name)
        if found is None or found.channel is not channel:
            found = self._forms[channel.name] = form(channel)
        return found


def for_groups(topic: Topic, name: str, bodies: Iterable[Any], options: EnqueueOptions) -> list[NewMessage]:
    """New messages of a topic."""
    new = draft(topic.channel(), bodies, options, topic=name, for_groups=True)
    if topic.spec.no_subscribers == "refuse":
        for message in new:
            message.to_groups = True
    return new
