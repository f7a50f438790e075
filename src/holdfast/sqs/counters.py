"""What this process has seen of SQS, counted."""

from __future__ import annotations

import threading
from collections import Counter

from holdfast.store import fork_safety

COUNTED = (
    "sent",
    "unsent",
    "received",
    "claimed",
    "deleted",
    "unreadable",
    "over",
    "left",
    "given_back",
    "not_deleted",
    "not_hidden",
    "sent_again",
    "failures",
    "dead_events",
)
"""Pointers that SQS confirmed, and did not; that came, led to a claim, were deleted; that were none, led to something
that is over, were left for later, given back; whose deletion, or hiding, SQS refused (an expired handle); that were
taken for lost; calls that failed; and deaths that were told."""


class Counts(fork_safety.Guarded):
    """Sums by queue and name, since the process began."""

    def __init__(self) -> None:
        self._sums: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        fork_safety.guard(self)

    def after_fork_in_child(self) -> None:
        """Whoever was counting is doing it in the parent."""
        self._lock = threading.Lock()

    def add(self, queue: str, name: str, count: int = 1) -> None:
        """So many more."""
        assert name in COUNTED, "what is counted is documented"
        if count:
            with self._lock:
                self._sums[queue, name] += count

    def of(self, queue: str) -> dict[str, int]:
        """All sums of a queue, by name."""
        with self._lock:
            return {name: self._sums[queue, name] for name in COUNTED}

    def queues(self) -> list[str]:
        """Those that anything was counted for."""
        with self._lock:
            return sorted({queue for queue, _ in self._sums})
