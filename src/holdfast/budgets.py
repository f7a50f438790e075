"""What queues have spent, for whoever operates them. (`awaiting_budgets` has it for asyncio.)"""

from __future__ import annotations

from holdfast.notices import Escalating
from holdfast.starts import Starts


class Budgeting(Escalating, Starts):
    """The part of a client that looks after budgets."""

    def spent(self, queue: str) -> float:
        """How much the messages of a queue have spent together, since the beginning or the last `reset_budget`."""
        return self.store.efforts.spent(self._book.channel(queue))

    def reset_budget(self, queue: str) -> float:
        """The queue has spent nothing from now on; how much it was. Who did it stands in the audit.

        A queue that was paused because its budget was spent stays so until `resume`.
        """
        before = self.store.efforts.reset(self._book.channel(queue), self.actor)
        self._starts_changed()
        return before
