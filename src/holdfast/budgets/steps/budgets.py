"""What a queue has spent, and what follows from it: a queue whose budget is spent is paused. Shared by both stores.

Whoever decides by the amount holds its row first, then changes the group: a report that goes on at the same time is
either counted here, or sees what was decided.
"""

from __future__ import annotations

from holdfast.budgets.rules import is_spent
from holdfast.core.queue import QueueSpec
from holdfast.store.transaction import Transaction


def spend(tx: Transaction, group: int, amount: float) -> float:
    """Adds to what a queue has spent; how much that is now."""
    found = tx.one("budget.spend", group=group, amount=amount)
    assert found is not None, "an upsert returns its row"
    return found[0]  # type: ignore[no-any-return]


def spent(tx: Transaction, group: int) -> float:
    """What the messages of a queue have spent together."""
    found = tx.one("budget.find", group=group)
    return found[0] if found else 0.0


def hold(tx: Transaction, group: int) -> float:
    """The same; no report changes it before the transaction ends."""
    found = tx.one("budget.hold", group=group)
    return found[0] if found else 0.0


def mind(tx: Transaction, channel: int, group: int, spec: QueueSpec, spent: float) -> None:
    """Pauses a queue that has no more to spend, and ends a pause that had no other reason."""
    is_over = is_spent(spent, spec.budget)
    if tx.one("budget.mind", group=group, spent=is_over) is not None and not is_over:
        tx.rings.add(channel)
