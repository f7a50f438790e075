"""Claims that wait for a free hand."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.runtime.context import Context


class Shelf:
    """Filled by the one who claims, emptied by hands. `on_fill` tells those who cannot wait in a thread."""

    def __init__(self) -> None:
        self.waiting: deque[Context] = deque()
        self._filled = threading.Condition()
        self._closed = False
        self.on_fill: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self.waiting)

    def put(self, contexts: Iterable[Context], wakes: bool = True) -> None:
        """Adds to the end and wakes hands, if there are any besides the one who claims."""
        if not wakes:
            self.waiting.extend(contexts)
            return
        with self._filled:
            self.waiting.extend(contexts)
            self._filled.notify_all()
        if self.on_fill is not None:
            self.on_fill()

    def take_now(self) -> Context | None:
        """The next one, if there is any."""
        try:
            return self.waiting.popleft()
        except IndexError:
            return None

    def take(self) -> Context | None:
        """The next one, as soon as there is one; None when the shelf is closed."""
        while True:
            try:
                return self.waiting.popleft()
            except IndexError:
                pass
            with self._filled:
                if self._closed:
                    return None
                if not self.waiting:
                    self._filled.wait()

    def clear(self) -> list[Context]:
        """Takes everything away that nobody has begun."""
        taken = []
        while (context := self.take_now()) is not None:
            taken.append(context)
        return taken

    @property
    def closed(self) -> bool:
        """Whether nothing will come any more."""
        return self._closed

    def close(self) -> None:
        """Lets the hands go home."""
        with self._filled:
            self._closed = True
            self._filled.notify_all()
        if self.on_fill is not None:
            self.on_fill()
