"""What was kept long enough: history, results, idempotency keys, dead letters with a retention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.runtime.maintenance.queues import each

if TYPE_CHECKING:
    from holdfast.client import Holdfast

EVERY = 1.0


def turn(hf: Holdfast) -> int:
    """Of every queue, a few."""
    return each(hf, hf.store.upkeep.prune)
