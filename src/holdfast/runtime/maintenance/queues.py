"""A turn over all queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.limits import SWEEP_LIMIT
from holdfast.store.api import Channel

if TYPE_CHECKING:
    from holdfast.client import Holdfast


def each(hf: Holdfast, work: Callable[[Channel, int], int]) -> int:
    """Does a piece of work for every queue and group of the tenant that has anything to do; how much there was, in all.

    One that fails does not keep the others from their turn: what went wrong is raised when these are through.
    """
    done, problem = 0, None
    for channel in hf.store.upkeep.due(hf._book.readers()):
        try:
            done += work(channel, SWEEP_LIMIT)
        except Exception as raised:
            problem = problem or raised
    if problem is not None and done < SWEEP_LIMIT:
        raise problem
    return done
