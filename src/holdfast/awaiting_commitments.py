"""Commitments for asyncio."""

from __future__ import annotations

from holdfast.awaiting import Awaiting
from holdfast.commitments import Committing
from holdfast.core.commitments import CommitmentResult


class AsyncCommitting(Awaiting):
    """The same, awaited."""

    _hf: Committing

    async def commitments(self, message_id: str) -> list[CommitmentResult]:
        """How the checks of a message's commitments went. See `Holdfast.commitments`."""
        return await self._run(self._hf.commitments, message_id)
