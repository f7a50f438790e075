"""Claims that wait for a free hand.

If several queues have their turns, claims are put in that order here, however many of each were claimed at a time. A
queue whose turn it is, that has nothing here and may have work in the database, is waited for: claims of other queues
are held back until somebody has looked.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from holdfast.worker.rotation import QueueRotation

if TYPE_CHECKING:
    from holdfast.worker.context import Context


class Shelf:
    """Filled by the one who claims, emptied by hands. `on_fill` tells those who cannot wait in a thread."""

    def __init__(self) -> None:
        self.waiting: deque[Context] = deque()
        self._filled = threading.Condition()
        self._closed = False
        self.on_fill: Callable[[], None] | None = None
        self._turns: QueueRotation | None = None
        self._stock: dict[str, deque[Context]] = {}
        self._dry: set[str] = set()

    def __len__(self) -> int:
        return len(self.waiting) + self.held_back

    # --- for the one who claims ---------------------------------------------------------------------------------------

    def put(self, contexts: Iterable[Context], wakes: bool = True) -> None:
        """Adds to the end, or where it is their turn, and wakes hands, if there are any besides the one who claims."""
        if self._turns is not None:
            contexts = self._arranged(contexts, self._turns)
        if not wakes:
            self.waiting.extend(contexts)
            return
        with self._filled:
            self.waiting.extend(contexts)
            self._filled.notify_all()
        if self.on_fill is not None:
            self.on_fill()

    def take_turns(self, turns: QueueRotation | None) -> None:
        """From now on claims are begun in this order; None if it is the order in which they come."""
        if turns is not self._turns:
            left = self.clear()
            self._turns, self._dry = turns, set()
            self.put(left)

    def note_claim(self, asked: set[str], found: set[str], open_ones: set[str]) -> None:
        """A claim has asked these queues and found something in those. Only open ones can be asked at the moment."""
        if self._turns is not None:
            closed = set(self._turns.rotation.names) - open_ones
            self._dry = ((self._dry | asked) - found) | closed

    @property
    def awaited(self) -> str | None:
        """The queue that others are held back for, if there is one."""
        return None if self._turns is None else self._turns.awaited

    @property
    def stock(self) -> Mapping[str, deque[Context]]:
        """What is held back, by queue."""
        return self._stock

    @property
    def held_back(self) -> int:
        """How many there are that no hand may take yet."""
        return sum(map(len, self._stock.values())) if self._stock else 0

    def everything(self) -> list[Context]:
        """All that nobody has begun."""
        return [*self.waiting, *(context for some in self._stock.values() for context in some)]

    def clear(self) -> list[Context]:
        """Takes everything away that nobody has begun. What waited keeps its turn."""
        taken = self._take_back()
        for some in self._stock.values():
            taken.extend(some)
        self._stock = {}
        return list(taken)

    def _arranged(self, new: Iterable[Context], turns: QueueRotation) -> list[Context]:
        """In the order of their turns. Claims of queues that have none any more come first: they are refused."""
        stock: dict[str, deque[Context]] = {}
        for context in self._take_back():
            stock.setdefault(context.queue, deque()).append(context)
        for queue, some in self._stock.items():
            stock.setdefault(queue, deque()).extend(some)
        for context in new:
            stock.setdefault(context.queue, deque()).append(context)
        strangers = [stock.pop(queue) for queue in stock.keys() - set(turns.rotation.names)]
        arranged = [context for some in strangers for context in some] + turns.arrange(stock, self._dry)
        self._stock = {queue: some for queue, some in stock.items() if some}
        return arranged

    def _take_back(self) -> deque[Context]:
        """What no hand has taken. From the end, so that hands which take meanwhile do so from the beginning."""
        taken: deque[Context] = deque()
        while self.waiting:
            try:
                taken.appendleft(self.waiting.pop())
            except IndexError:
                break
        if self._turns is not None:
            self._turns.give_back(len(taken))
        return taken

    # --- for hands ----------------------------------------------------------------------------------------------------

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
