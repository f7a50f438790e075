"""What a client tells its own consumers: something has changed that decides whether handlers start."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.runtime.context import Context
    from holdfast.runtime.gate import Gate


class Starts:
    """The part of a client that knows the gates of its running consumers."""

    _gates: set[Gate]

    def _starts_changed(self, concerns: Callable[[Context], bool] | None = None) -> None:
        """Makes every consumer of this client ask again before it starts a handler. Waits for handlers that are about
        to start and that the change `concerns`."""
        gates = list(self._gates)
        for gate in gates:
            gate.reconsider()
        if concerns is not None:
            for gate in gates:
                gate.await_starts(concerns)
