"""Groups of topics, as those who run them see them: whether they are alive, and what they have lost."""

from __future__ import annotations

from typing import Any

from holdfast.channels import ChannelBook
from holdfast.core.routing import topic_name
from holdfast.core.topic import GroupSpec, GroupStatus, address, group_name, parts
from holdfast.errors import CursorOutOfRange, UnknownGroup
from holdfast.events import GroupDied, GroupEvent, GroupOutOfRange, GroupRevived, Listeners
from holdfast.limits import SWEEP_LIMIT
from holdfast.settings import Settings
from holdfast.store.api import Channel, Store, Topic


class Grouping:
    """The part of a client that looks after groups."""

    settings: Settings
    store: Store
    _book: ChannelBook
    _listeners: Listeners
    worker: Any

    def groups(self, topic: str) -> list[GroupStatus]:
        """The groups of a topic: how far each is, and who reads.

        >>> hf.topic("orders")
        >>> hf.subscribe("orders", "email", patterns=["orders.*.created"])
        >>> [(group.group, group.state, group.lag) for group in hf.groups("orders")]
        [('email', 'active', 0)]
        """
        topic_name(topic, "topic")
        self._book.open()
        return self.store.topics.groups(self._book.topic(topic))

    def heartbeat(self, topic: str, group: str) -> None:
        """Says that a group is there, for those who do not claim for longer than its timeout. A claim says so too.

        A group that was counted as dead is alive again. If retention has taken messages from it meanwhile, this raises
        `CursorOutOfRange`, as its claims do, until someone has decided about that.
        """
        channel = self._group(topic, group)
        missing = self._beat(channel)
        if missing:
            raise out_of_range(channel.name, missing)

    def accept_loss(self, topic: str, group: str) -> int:
        """Lets a group go on without the messages that it lost since it was found dead; how many those were."""
        return self.store.retention.accept_loss(self._group(topic, group))

    def _retain(self) -> int:
        """A bounded part of what need not be kept any more, of every topic; how much."""
        found = [self._book.destination(name) for name in self.store.topics.names(self.settings.tenant)]
        retained = [self.store.retention.retain(one, SWEEP_LIMIT) for one in found if isinstance(one, Topic)]
        for loss in (loss for one in retained for loss in one.losses):
            self._tell_of(GroupOutOfRange, loss.name, lost=loss.count)
        return sum(one.gone for one in retained)

    def _watch_groups(self) -> int:
        """A look at every group that can die; how many did."""
        groups = [one for one in self._book.readers() if isinstance(one.spec, GroupSpec)]
        died = [channel for channel in self.store.retention.late(groups) if self.store.retention.watch(channel)]
        for channel in died:
            self._tell_of(GroupDied, channel.name)
        return len(died)

    def _beat(self, channel: Channel) -> int:
        """A group is there; how many messages it has lost that nobody has decided about."""
        heard = self.store.retention.beat(channel)
        if heard.revived:
            self._tell_of(GroupRevived, channel.name, missing=heard.missing)
        return heard.missing

    def _tell_of(self, kind: type[GroupEvent], name: str, **more: Any) -> None:
        if self._listeners.want(kind):
            topic, group = parts(name) or ("", name)
            self._listeners.tell(kind(worker=self.worker, topic=topic, group=group, **more))

    def _group(self, topic: str, group: str) -> Channel:
        topic_name(topic, "topic")
        channel = self._book.channel(address(topic, group_name(group)))
        if channel.source is None:
            raise UnknownGroup
        return channel


def out_of_range(name: str, missing: int) -> CursorOutOfRange:
    """What a group is told that was dead for too long."""
    topic, group = parts(name) or ("", name)
    problem = CursorOutOfRange(
        f"the topic's retention removed {missing} messages that {name!r} had not claimed, since it was found dead. "
        f"It claims nothing until someone decides: hf.accept_loss({topic!r}, {group!r}) goes on without them, "
        f"hf.seek({group!r}, …, topic={topic!r}) goes on elsewhere"
    )
    problem.group = name
    return problem
