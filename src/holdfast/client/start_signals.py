"""What a client tells its own consumers: something has changed that decides whether handlers start."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.worker.context import Context
    from holdfast.worker.gate import Gate


class Starts:
    """The gates of the consumers that run in this process."""

    def __init__(self) -> None:
        self.gates: set[Gate] = set()

    def changed(self, concerns: Callable[[Context], bool] | None = None) -> None:
        """Makes every consumer of this client ask again before it starts a handler. Waits for handlers that are about
        to start and that the change `concerns`."""
        gates = list(self.gates)
        for gate in gates:
            gate.reconsider()
        if concerns is not None:
            for gate in gates:
                gate.await_starts(concerns)
