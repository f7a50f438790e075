"""Where groups are in their topics' logs, for asyncio."""

from __future__ import annotations

from datetime import datetime

from holdfast.awaiting import Awaiting
from holdfast.seeking import Seeking


class AsyncSeeking(Awaiting):
    """The same, awaited."""

    _hf: Seeking

    async def seek(self, group: str, to: str | float | datetime, *, topic: str | None = None) -> None:
        """Puts a group elsewhere in its topic. See `Holdfast.seek`."""
        await self._run(self._hf.seek, group, to, topic=topic)

    async def skip(self, topic: str, group: str, message_id: str) -> bool:
        """One message counts as done for one group, wherever it is. See `Holdfast.skip`."""
        return await self._run(self._hf.skip, topic, group, message_id)

    async def cancel_group(self, topic: str, group: str) -> bool:
        """Ends a group whose name is not free then. See `Holdfast.cancel_group`."""
        return await self._run(self._hf.cancel_group, topic, group)
