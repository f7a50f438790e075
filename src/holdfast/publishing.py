"""Topics: publishing under a name, and groups that each get all of what they want."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

from holdfast.channels import ChannelBook
from holdfast.core import priority as priorities
from holdfast.core import routing
from holdfast.core.duration import Duration
from holdfast.core.given import DEFAULT, KEPT, Default, Kept, Settle
from holdfast.core.message import NewMessage
from holdfast.core.queue import QueueSettings, one_of, queue_change
from holdfast.core.topic import (
    MODES,
    GroupSettings,
    GroupSpec,
    Start,
    Subscription,
    TopicSettings,
    address,
    group_change,
    group_name,
    start_of,
    topic_change,
)
from holdfast.drafting import EnqueueOptions, Key, draft
from holdfast.gather import Gather
from holdfast.joining import driver_connection
from holdfast.message_types import MessageTypes
from holdfast.notices import Escalating, mention_inbox
from holdfast.outgoing import Sending, outgoing_of, put_through
from holdfast.receipts import Receipt, one_for_each, receipts
from holdfast.settings import Settings
from holdfast.store.api import Channel, Store, Topic

if TYPE_CHECKING:
    from holdfast.core.message import Duplicate


class Publishing(Sending, Escalating):
    """The part of a client that knows topics."""

    settings: Settings
    store: Store
    _book: ChannelBook
    _types: MessageTypes
    _inserts: Gather[NewMessage, Duplicate | None]
    _insert: Callable[..., list[Receipt]]
    _beat: Callable[[Channel], int]

    def topic(self, name: str, *, mode: str | Default | Kept = KEPT, **settings: Any) -> None:
        """Declares a topic, or changes settings of one. It owns its name and all names below: `orders` gets what is
        published as `orders.eu.created`. Settings that are not given are kept, also the mode; `DEFAULT` resets one.

        - Messages are kept for `retention` (24 h), so that groups that come later can read them. With a shorter
          `min_retention`, what every live group is done with goes after that; 0 is at once.
        - `no_subscribers="refuse"` makes a publish fail while no live group wants its name; otherwise messages are kept
          for the groups to come.
        - `max_depth` is how many messages may be there that a live or paused group still needs, after which a publish
          raises `QueueFull`.
        - `max_size` is how many bytes of JSON a message may have, `idempotency_window` how long a key is remembered
          after its message was removed.

        With `mode="queue"` it is a work queue, with the settings of `queue`: each message goes to one consumer.

        >>> hf.topic("orders", retention="7d")
        """
        if self._mode(name, mode) == "queue":
            self._book.declare_owning(name, queue_change(cast("QueueSettings", settings)))
            self._declare_type(name, settings)
        else:
            self._book.declare_topic(name, topic_change(cast("TopicSettings", settings)))

    def _declare_type(self, name: str, settings: Mapping[str, Any]) -> None:
        """This client gives bodies of a queue as the type that was declared; one that is not given is kept."""
        if "message_type" in settings:
            given = settings["message_type"]
            self._types.declare(name, None if given is DEFAULT else given)

    def _mode(self, name: str, mode: str | Default | Kept) -> str:
        """As given, or as it is; a new topic has groups."""
        if mode is KEPT and isinstance(self._book.named(routing.topic_name(name)), Channel):
            return "queue"
        return "pubsub" if mode is KEPT or mode is DEFAULT else str(one_of(MODES)("mode", mode))

    def topics(self) -> list[str]:
        """The names of all declared topics of this tenant."""
        self._book.open()
        return self.store.topics.names(self.settings.tenant)

    def publish(
        self,
        topic: str,
        body: Any,
        *,
        priority: int | str = priorities.NORMAL,
        key: str | None = None,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        ttl: Duration | None = None,
        idempotency_key: str | None = None,
        conn: Any = None,
    ) -> Receipt:
        """Stores one message for every group of the topic that this name belongs to; it survives a crash.

        It is stored once, however many groups there are. A name that belongs to no topic may be that of an existing
        queue; otherwise `UnknownTopic` is raised. The other arguments are those of `enqueue`.

        >>> hf.topic("orders")
        >>> receipt = hf.publish("orders.eu.created", {"id": 42})
        """
        options = EnqueueOptions(
            priority=priority,
            key=key,
            headers=headers,
            correlation_id=correlation_id,
            reply_to=reply_to,
            ttl=ttl,
            idempotency_key=idempotency_key,
        )
        return self._publish(topic, [body], options, conn)[0]

    def publish_many(
        self,
        topic: str,
        bodies: Iterable[Any],
        *,
        priority: int | str = priorities.NORMAL,
        key: Key = None,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        ttl: Duration | None = None,
        idempotency_key: Callable[[Any], str | None] | None = None,
        conn: Any = None,
    ) -> list[Receipt]:
        """Publishes many messages in one transaction (yours, with `conn`): all of them or none."""
        options = EnqueueOptions(
            priority=priority,
            key=key,
            headers=headers,
            correlation_id=correlation_id,
            reply_to=reply_to,
            ttl=ttl,
            idempotency_key=one_for_each(idempotency_key),
        )
        return self._publish(topic, bodies, options, conn)

    def subscribe(
        self,
        topic: str,
        group: str,
        *,
        start: str | float | datetime = "latest",
        **settings: Unpack[GroupSettings],
    ) -> None:
        """Adds a group to a topic, or changes settings of one, which goes on where it was. Settings that are not given
        are kept, `DEFAULT` resets one.

        It gets everything (None), or what fits one of its `patterns` (`*` is one segment, `**` the rest). It begins
        with what is published from now on ("latest"), with all that is retained ("earliest"), at a time, or with the
        message of an id; of what was there before it, it claims no more than `catch_up_rate` ("500/s"). The settings
        are those of `queue` that are about claims, deaths and consumers: each group has its own.

        A group that was silent (no claim, no lease, no `heartbeat`) for its `timeout` (None: it may be silent for ever)
        at `misses` looks in a row is dead: nothing is kept for it until it is heard of again.

        >>> hf.topic("orders")
        >>> hf.subscribe("orders", "email", patterns=["orders.*.created"], start="earliest")
        """
        change = group_change(routing.topic_name(topic, "topic"), settings)
        name, begin = group_name(group), start_of(start)
        self._subscribe(self._book.topic(topic), name, change, begin)
        mention_inbox(self.store, self.settings.tenant, f"group {address(topic, name)!r}", settings.get("owner"))

    def unsubscribe(self, topic: str, group: str) -> bool:
        """Ends a group for good: nothing is kept for it any more, and claims that it holds are lost.

        Its dead letters stay. One that was canceled is removed: its name is free. False if there is none of this name.
        """
        routing.topic_name(topic, "topic")
        return self._book.unsubscribe(address(topic, group_name(group)), self.actor)

    def _join(self, wanted: Subscription) -> None:
        """For a subscriber: its group, with other patterns if it is there already."""
        change = group_change(wanted.topic, {"patterns": wanted.patterns})
        self._subscribe(self._book.topic(wanted.topic), wanted.group, change, wanted.start)

    def _subscribe(self, topic: Topic, group: str, change: Settle[GroupSpec], start: Start) -> None:
        """Who subscribes is there: a group that was dead is alive again. One that cannot die need not say so."""
        channel, changed = self._book.subscribe(topic, group, change, start)
        can_die = isinstance(channel.spec, GroupSpec) and channel.spec.timeout is not None
        if changed or can_die or self.store.retention.is_dead(channel):
            self._beat(channel)

    # --- the ladder below ---------------------------------------------------------------------------------------------

    def _publish(self, name: str, bodies: Iterable[Any], options: EnqueueOptions, conn: Any) -> list[Receipt]:
        routing.topic_name(name, "topic")
        if self._around_enqueue:
            outgoing = outgoing_of(name, bodies, options)
            return put_through(self._around_enqueue, partial(self._distribute, conn=conn), outgoing)
        return self._distribute(name, bodies, options, conn)

    def _distribute(self, name: str, bodies: Iterable[Any], options: EnqueueOptions, conn: Any) -> list[Receipt]:
        owner = self._book.destination(name)
        if not isinstance(owner, Topic):
            return self._insert(owner, bodies, options, conn, name)
        new = for_groups(owner, name, bodies, options)
        if not new:
            return []
        if conn is None:
            return receipts(new, self._inserts.call(new))
        return receipts(new, self.store.join(driver_connection(conn)).insert(new))


def for_groups(topic: Topic, name: str, bodies: Iterable[Any], options: EnqueueOptions) -> list[NewMessage]:
    """New messages of a topic."""
    new = draft(topic.channel(), bodies, options, topic=name, for_groups=True)
    if topic.spec.no_subscribers == "refuse":
        for message in new:
            message.to_groups = True
    return new
