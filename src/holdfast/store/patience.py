"""How much of a call's patience was spent before the database was asked.

A call may wait for its turn: behind the leader of a group commit, or for a thread of an asyncio client. That time
counts. The thread that finally asks the database notes here how long the call has waited, and the store waits so much
less.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class _Call(threading.local):
    waited: float = 0.0
    again: bool = False


_call = _Call()


def deadline(patience: float) -> float:
    """When the call that this thread makes has to be over, by the monotonic clock."""
    return time.monotonic() + patience - _call.waited


def is_again() -> bool:
    """Whether an earlier try of the same work has an unknown outcome."""
    return _call.again


@contextmanager
def spent(waited: float, again: bool = False) -> Iterator[None]:
    """Within the block, calls of this thread have waited for so many seconds already."""
    before = _call.waited, _call.again
    _call.waited, _call.again = waited, again
    try:
        yield
    finally:
        _call.waited, _call.again = before
