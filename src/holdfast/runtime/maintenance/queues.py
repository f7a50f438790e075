"""A turn over all queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.limits import SWEEP_LIMIT
from holdfast.store.api import Channel

if TYPE_CHECKING:
    from holdfast.client import Holdfast


def each(hf: Holdfast, work: Callable[[Channel, int], int]) -> int:
    """Does a piece of work for every queue of the tenant; how much there was, in all."""
    names = hf.store.channels.names(hf.settings.tenant)
    return sum(work(hf._book.channel(name), SWEEP_LIMIT) for name in names)
