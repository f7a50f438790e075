"""Groups of topics for asyncio. See `groups`."""

from __future__ import annotations

from holdfast.awaiting import Awaiting
from holdfast.core.topic import GroupStatus
from holdfast.groups import Grouping


class AsyncGrouping(Awaiting):
    """The part of a client that looks after groups. See `Grouping`."""

    _hf: Grouping

    async def groups(self, topic: str) -> list[GroupStatus]:
        """The groups of a topic: how far each is, and who reads. See `Holdfast.groups`."""
        return await self._run(self._hf.groups, topic)

    async def heartbeat(self, topic: str, group: str) -> None:
        """Says that a group is there. See `Holdfast.heartbeat`."""
        await self._run(self._hf.heartbeat, topic, group)

    async def accept_loss(self, topic: str, group: str) -> int:
        """Lets a group go on without what it lost while it was dead. See `Holdfast.accept_loss`."""
        return await self._run(self._hf.accept_loss, topic, group)
