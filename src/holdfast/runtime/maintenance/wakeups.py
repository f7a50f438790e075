"""The safety look: a queue has something to claim, and whoever should know may have missed the bell."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.client import Holdfast

EVERY = 5.0


def turn(hf: Holdfast) -> int:
    """Rings for every queue with something due; never more to do than that."""
    if due := hf.store.reads.due(hf._book.readers()):
        hf.store.wakeup.ring([channel.id for channel in due])
    return 0
