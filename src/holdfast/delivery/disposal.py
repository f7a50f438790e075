"""Deleting pointers beside the work: workers need not wait for SQS to forget what the database knows is over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

from holdfast.delivery.sqs import AT_ONCE, Received, SqsQueue

Piece = tuple[str, SqsQueue, list[Received]]
Delete = Callable[[str, SqsQueue, Sequence[Received]], None]

SOON = 0.05
"""Seconds for which a few wait for others to go with them."""


class Disposal:
    """A thread that deletes. What it has not deleted when the process is killed comes again, and leads to nothing."""

    def __init__(self, delete: Delete) -> None:
        self._delete = delete
        self._pieces: SimpleQueue[Piece | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="holdfast-sqs-deletes", daemon=True)
        self._thread.start()

    def put(self, piece: Piece) -> None:
        """To be deleted soon."""
        self._pieces.put(piece)

    def stop(self) -> None:
        """Deletes what is left, for a moment at most."""
        self._pieces.put(None)
        self._thread.join(timeout=2.0)

    def _run(self) -> None:
        goes_on = True
        while goes_on:
            taken: list[Piece] = []
            first = self._pieces.get()
            while first is not None:
                taken.append(first)
                if sum(len(copies) for *_, copies in taken) >= AT_ONCE:
                    break
                try:
                    first = self._pieces.get(timeout=SOON)
                except Empty:
                    break
            goes_on = first is not None
            self._delete_all(taken)

    def _delete_all(self, taken: list[Piece]) -> None:
        together: dict[str, Piece] = {}
        for name, queue, copies in taken:
            together.setdefault(queue.name, (name, queue, []))[2].extend(copies)
        for name, queue, copies in together.values():
            self._delete(name, queue, copies)
