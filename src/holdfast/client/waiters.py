"""The bells of a client: made when first needed, used again, and never carried into a forked child."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.store import fork_safety
from holdfast.store.api import Waiter, Wakeup


class Bells(fork_safety.Guarded):
    """A bell for everyone who waits."""

    def __init__(self, wakeup: Wakeup) -> None:
        self._wakeup = wakeup
        self._idle: deque[Waiter] = deque()
        fork_safety.guard(self)

    @contextmanager
    def borrowed(self) -> Iterator[Waiter]:
        """A bell for one wait."""
        try:
            bell = self._idle.pop()
        except IndexError:
            bell = self._wakeup.bell()
        try:
            yield bell
        finally:
            self._idle.append(bell)

    def close(self) -> None:
        """Takes them all down."""
        while self._idle:
            self._idle.pop().close()

    def after_fork_in_child(self) -> None:
        """They ring for the parent."""
        self._idle = deque()
