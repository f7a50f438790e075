"""What queues have spent, for asyncio."""

from __future__ import annotations

from holdfast.awaiting import Awaiting
from holdfast.budgets import Budgeting


class AsyncBudgeting(Awaiting):
    """The same, awaited."""

    _hf: Budgeting

    async def spent(self, queue: str) -> float:
        """How much the messages of a queue have spent together."""
        return await self._run(self._hf.spent, queue)

    async def reset_budget(self, queue: str) -> float:
        """The queue has spent nothing from now on; how much it was. See `Holdfast.reset_budget`."""
        return await self._run(self._hf.reset_budget, queue)
