"""The crew, for asyncio."""

from __future__ import annotations

from holdfast.awaiting import Awaiting
from holdfast.core.crew import Attachment, ConsumerStatus
from holdfast.crew import SATURATED, Crewing


class AsyncCrewing(Awaiting):
    """Running consumers, and the queues they take from."""

    _hf: Crewing

    async def consumers(self, alive: bool = True) -> list[ConsumerStatus]:
        """The consumers that run. See `Holdfast.consumers`."""
        return await self._run(self._hf.consumers, alive)

    async def amplification(self, threshold: float = SATURATED) -> int:
        """How many live consumers are at least so saturated."""
        return await self._run(self._hf.amplification, threshold)

    async def attach(self, consumer: str, queue: str, *, weight: float | None = None, empty: str | None = None) -> None:
        """Has a consumer take from a queue. See `Holdfast.attach`."""
        await self._run(self._hf.attach, consumer, queue, weight=weight, empty=empty)

    async def detach(self, consumer: str, queue: str) -> None:
        """Has a consumer take nothing more from a queue. See `Holdfast.detach`."""
        await self._run(self._hf.detach, consumer, queue)

    async def attachments(self, consumer: str | None = None) -> list[Attachment]:
        """What `attach` and `detach` have changed."""
        return await self._run(self._hf.attachments, consumer)
