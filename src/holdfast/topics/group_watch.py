"""Whether the groups of topics are alive, what topics need not keep any more, and what groups have lost by that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.client.catalog import ChannelBook
from holdfast.client.validate import SWEEP_LIMIT
from holdfast.errors import CursorOutOfRange
from holdfast.events import GroupDied, GroupEvent, GroupOutOfRange, GroupRevived, Listeners
from holdfast.store.api import Channel, Store, Topic
from holdfast.topics.rules.declaration import GroupSpec, parts


class GroupWatch:
    """Looks after the groups of a tenant, and tells listeners of what happens to them."""

    def __init__(
        self, store: Store, catalog: ChannelBook, tenant: str, listeners: Listeners, worker: Callable[[], str]
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._tenant = tenant
        self._listeners = listeners
        self._worker = worker

    def retain(self) -> int:
        """A bounded part of what need not be kept any more, of every topic; how much."""
        found = [self._catalog.destination(name) for name in self._store.topics.names(self._tenant)]
        retained = [self._store.retention.retain(one, SWEEP_LIMIT) for one in found if isinstance(one, Topic)]
        for loss in (loss for one in retained for loss in one.losses):
            self._tell_of(GroupOutOfRange, loss.name, lost=loss.count)
        return sum(one.gone for one in retained)

    def watch(self) -> int:
        """A look at every group that can die; how many did."""
        groups = [one for one in self._catalog.readers() if isinstance(one.spec, GroupSpec)]
        died = [channel for channel in self._store.retention.late(groups) if self._store.retention.watch(channel)]
        for channel in died:
            self._tell_of(GroupDied, channel.name)
        return len(died)

    def beat(self, channel: Channel) -> int:
        """A group is there; how many messages it has lost that nobody has decided about."""
        heard = self._store.retention.beat(channel)
        if heard.revived:
            self._tell_of(GroupRevived, channel.name, missing=heard.missing)
        return heard.missing

    def _tell_of(self, kind: type[GroupEvent], name: str, **more: Any) -> None:
        if self._listeners.want(kind):
            topic, group = parts(name) or ("", name)
            self._listeners.tell(kind(worker=self._worker(), topic=topic, group=group, **more))


def out_of_range(name: str, missing: int) -> CursorOutOfRange:
    """What a group is told that was dead for too long."""
    topic, group = parts(name) or ("", name)
    problem = CursorOutOfRange(
        f"the topic's retention removed {missing} messages that {name!r} had not claimed, since it was found dead. "
        f"It claims nothing until someone decides: hf.groups.accept_loss({topic!r}, {group!r}) goes on without them, "
        f"hf.groups.seek({group!r}, …, topic={topic!r}) goes on elsewhere"
    )
    problem.group = name
    return problem
