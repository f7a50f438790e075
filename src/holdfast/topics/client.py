"""Topics and groups for users: declared, listed, moved about in their topics' logs, ended."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from holdfast.client.namespace import Namespace
from holdfast.core.given import KEPT, Default, KeptSentinel, Settle
from holdfast.core.message import id_bytes
from holdfast.core.queue import QueueSettings, one_of, queue_change
from holdfast.errors import InvalidInput, UnknownGroup, UnknownTopic
from holdfast.notices.client import mention_inbox
from holdfast.queues.client import pause, resume
from holdfast.store.api import Channel, Topic
from holdfast.topics.group_watch import out_of_range
from holdfast.topics.rules.declaration import (
    MODES,
    GroupSettings,
    GroupSpec,
    GroupStatus,
    Start,
    Subscription,
    TopicSettings,
    address,
    group_change,
    group_name,
    parts,
    settings_of,
    start_of,
    topic_change,
)
from holdfast.topics.rules.routing import topic_name

if TYPE_CHECKING:
    from holdfast.client.parts import ClientParts


def declare_topic(
    client: ClientParts, name: str, mode: str | Default | KeptSentinel, settings: Mapping[str, Any]
) -> None:
    """See `Holdfast.topic`."""
    if _mode(client, name, mode) == "queue":
        client.catalog.declare_owning(name, queue_change(cast("QueueSettings", settings)))
        client.types.declare_given(name, settings)
    else:
        client.catalog.declare_topic(name, topic_change(cast("TopicSettings", settings)))


def _mode(client: ClientParts, name: str, mode: str | Default | KeptSentinel) -> str:
    """As given, or as it is; a new topic has groups."""
    if mode is KEPT and isinstance(client.catalog.named(topic_name(name)), Channel):
        return "queue"
    return "pubsub" if mode is KEPT or isinstance(mode, Default) else str(one_of(MODES)("mode", mode))


def subscribe(
    client: ClientParts, topic: str, group: str, start: str | float | datetime, settings: GroupSettings
) -> None:
    """See `Holdfast.subscribe`."""
    change = group_change(topic_name(topic, "topic"), settings)
    name, begin = group_name(group), start_of(start)
    _subscribe(client, client.catalog.topic(topic), name, change, begin)
    owner = settings.get("owner")
    mention_inbox(client.store, client.settings.tenant, f"group {address(topic, name)!r}", owner)


def join(client: ClientParts, wanted: Subscription) -> None:
    """For a subscriber: its group, with other patterns if it is there already."""
    change = group_change(wanted.topic, {"patterns": wanted.patterns})
    _subscribe(client, client.catalog.topic(wanted.topic), wanted.group, change, wanted.start)


def _subscribe(client: ClientParts, topic: Topic, group: str, change: Settle[GroupSpec], start: Start) -> None:
    """Who subscribes is there: a group that was dead is alive again. One that cannot die need not say so."""
    channel, changed = client.catalog.subscribe(topic, group, change, start)
    can_die = isinstance(channel.spec, GroupSpec) and channel.spec.timeout is not None
    if changed or can_die or client.store.retention.is_dead(channel):
        client.groups.beat(channel)


class Topics(Namespace):
    """`hf.topics`: what topics there are."""

    def list(self) -> list[str]:
        """The names of all declared topics of this tenant."""
        self._catalog.open()
        return self._store.topics.names(self._tenant)

    def settings(self, name: str) -> dict[str, Any]:
        """Return all settings of a topic as stored, in the words of `hf.topic`; durations are seconds.

        Raises `UnknownTopic` if there is none of this name.

        >>> hf.topic("orders", retention="7d")
        >>> hf.topics.settings("orders")["retention"]
        604800.0
        """
        found = self._catalog.named(topic_name(name))
        if found is None:
            raise UnknownTopic(f"there is no topic {name!r}: declare it with hf.topic({name!r})")
        return settings_of(found.spec)


class Groups(Namespace):
    """`hf.groups`: operates the groups of topics."""

    def list(self, topic: str) -> list[GroupStatus]:
        """The groups of a topic: how far each is, and who reads.

        >>> hf.topic("orders")
        >>> hf.subscribe("orders", "email", patterns=["orders.*.created"])
        >>> [(group.group, group.state, group.lag) for group in hf.groups.list("orders")]
        [('email', 'active', 0)]
        """
        topic_name(topic, "topic")
        self._catalog.open()
        return self._store.topics.groups(self._catalog.topic(topic))

    def settings(self, topic: str, group: str) -> dict[str, Any]:
        """Return all settings of a group as stored, in the words of `hf.subscribe`; durations are seconds.

        >>> hf.topic("orders")
        >>> hf.subscribe("orders", "email", lease="2m")
        >>> hf.groups.settings("orders", "email")["lease"]
        120.0
        """
        return settings_of(self._catalog.settings(address(topic_name(topic, "topic"), group_name(group))))

    def pause(self, topic: str, group: str) -> None:
        """No claim of this group gets anything any more, anywhere, until `resume`; it is owed everything meanwhile.

        See `hf.queues.pause`. A group that was counted as dead is alive again.

        >>> hf.topic("orders")
        >>> hf.subscribe("orders", "email")
        >>> hf.groups.pause("orders", "email")
        """
        pause(self._parts, self._group(topic, group))

    def resume(self, topic: str, group: str) -> None:
        """Ends a pause; sleeping consumers wake up."""
        resume(self._parts, self._group(topic, group))

    def heartbeat(self, topic: str, group: str) -> None:
        """Says that a group is there, for those who do not claim for longer than its timeout. A claim says so too.

        A group that was counted as dead is alive again. If retention has taken messages from it meanwhile, this raises
        `CursorOutOfRange`, as its claims do, until someone has decided about that.
        """
        channel = self._group(topic, group)
        missing = self._parts.groups.beat(channel)
        if missing:
            raise out_of_range(channel.name, missing)

    def accept_loss(self, topic: str, group: str) -> int:
        """Lets a group go on without the messages that it lost since it was found dead; how many those were."""
        return self._store.retention.accept_loss(self._group(topic, group))

    def seek(self, group: str, to: str | float | datetime, *, topic: str | None = None) -> None:
        """Puts a group elsewhere in its topic: "earliest", "latest", a time, or the id of a message.

        Everything before that place counts as done, everything from there on is delivered, again where it was before.
        So what was open is forgotten: held claims are lost, retries do not come, blocked keys are free, skips are
        void. Dead letters and their replays stay. Other groups notice nothing. Who did it stands in the audit.

        `topic` may be left out if only one topic has such a group.

        >>> hf.topic("orders")
        >>> hf.subscribe("orders", "email")
        >>> hf.groups.seek("email", "earliest")
        """
        place = start_of(to, "to")
        self._catalog.open()
        channel = self._catalog.channel(self._address_of(group_name(group), topic))
        self._store.places.seek(channel, place, self._parts.actor)

    def skip(self, topic: str, group: str, message_id: str) -> bool:
        """One message counts as done for one group, wherever it is: not delivered yet, waiting for another attempt, or
        being worked on, where the claim is lost. Who did it stands in the audit.

        False if the group is not owed it: it is done with it, it is a dead letter, or it was never for this group.
        """
        topic_name(topic, "topic")
        wanted = id_bytes(message_id)
        channel = self._catalog.channel(address(topic, group_name(group)))
        return self._store.places.skip(channel, wanted, self._parts.actor)

    def cancel(self, topic: str, group: str) -> bool:
        """Ends a group, and leaves a mark of it: nothing is kept for it any more, claims that it holds are lost, and
        its members stop. It is still listed, as "canceled", and nobody joins it by mistake: `hf.subscribe` refuses its
        name until `remove` has removed it. There is no way back. Who did it stands in the audit.

        Its dead letters stay. False if there is none of this name, or it was canceled before.

        >>> hf.topic("orders")
        >>> hf.subscribe("orders", "fax")
        >>> hf.groups.cancel("orders", "fax")
        True
        """
        topic_name(topic, "topic")
        return self._catalog.cancel_group(address(topic, group_name(group)), self._parts.actor)

    def remove(self, topic: str, group: str) -> bool:
        """Ends a group for good: nothing is kept for it any more, and claims that it holds are lost.

        Its dead letters stay. One that was canceled is removed: its name is free. False if there is none of this name.
        """
        topic_name(topic, "topic")
        return self._catalog.unsubscribe(address(topic, group_name(group)), self._parts.actor)

    def _group(self, topic: str, group: str) -> Channel:
        topic_name(topic, "topic")
        channel = self._catalog.channel(address(topic, group_name(group)))
        if channel.source is None:
            raise UnknownGroup
        return channel

    def _address_of(self, group: str, topic: str | None) -> str:
        """The address of a group, if there is one."""
        if topic is not None:
            return address(topic_name(topic, "topic"), group)
        names = [one.name for one in self._store.channels.readers(self._tenant)]
        found = [name for name in names if (pair := parts(name)) is not None and pair[1] == group]
        if not found:
            raise UnknownGroup(f"no topic has a group {group!r}: hf.subscribe(topic, {group!r})")
        if len(found) > 1:
            raise InvalidInput(f"several topics have a group {group!r} ({', '.join(found)}): say which with topic=…")
        return found[0]
