"""One message on its last attempt per process: if it takes the process down, no other dies with it."""

from __future__ import annotations

import threading


class Solitude:
    """A permit that exists once per process, for claiming messages that must be alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Whether it was free; then it is yours."""
        return self._lock.acquire(blocking=False)

    def give_back(self) -> None:
        """From whichever thread has it."""
        self._lock.release()
