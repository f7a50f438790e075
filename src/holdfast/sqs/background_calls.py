"""Calls to SQS beside the work: whoever settles, renews or maintains does not wait for an SQS that does not answer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from holdfast.sqs.queue import AT_ONCE
from holdfast.store import fork_safety

log = logging.getLogger("holdfast")

IDLE = 1.0
"""Seconds without anything to do after which the thread ends; the next one is begun when there is something."""

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item", bound=Hashable)


class BackgroundCalls(fork_safety.Guarded, Generic[Key, Item]):
    """One kind of calls. Switched on, a thread makes them, one at a time; otherwise whoever asks for one does.

    What waits for the same `key` goes in one piece, and each item once: an SQS that hangs for hours makes no backlog of
    what is asked for again and again. `gathers` is for how many seconds a few wait for others to go with them.
    """

    def __init__(self, name: str, work: Callable[[Key, list[Item]], object], gathers: float = 0.0) -> None:
        self._name = name
        self._work = work
        self._gathers = gathers
        self._waiting: dict[Key, dict[Item, None]] = {}
        self._changed = threading.Condition()
        self._has_thread = False
        self._is_busy = False
        self._is_on = False
        fork_safety.guard(self)

    def after_fork_in_child(self) -> None:
        """The thread is the parent's, and so is what it was to do."""
        self._changed = threading.Condition()
        self._waiting, self._has_thread, self._is_busy, self._is_on = {}, False, False, False

    def put(self, key: Key, items: Iterable[Item], *, never_waits: bool = False) -> None:
        """To be done soon; or at once, if it is switched off and whoever asks may wait."""
        wanted = dict.fromkeys(items)
        if not wanted:
            return
        with self._changed:
            by_thread = self._is_on or never_waits
            if by_thread:
                self._waiting.setdefault(key, {}).update(wanted)
                self._changed.notify_all()
                if not self._has_thread:
                    self._has_thread = True
                    threading.Thread(target=self._run, name=f"holdfast-sqs-{self._name}", daemon=True).start()
        if not by_thread:
            self._work(key, list(wanted))

    def switch_on(self) -> None:
        """From now on nobody waits."""
        with self._changed:
            self._is_on = True

    def switch_off(self) -> None:
        """Whoever asks from now on waits. What is waiting is done still."""
        with self._changed:
            self._is_on = False
            self._changed.notify_all()

    def finish(self, seconds: float) -> bool:
        """Waits until nothing is left to do, for so long at most; whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._is_busy, seconds)

    def _run(self) -> None:
        while (piece := self._next()) is not None:
            try:
                self._work(*piece)
            except Exception:
                log.exception("%s of SQS failed; it goes on", self._name)

    def _next(self) -> tuple[Key, list[Item]] | None:
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or not self._is_on, IDLE)
            if not self._waiting:
                self._has_thread = False
                return None
            if self._gathers:
                self._changed.wait_for(self._is_enough, self._gathers)
            self._is_busy = True
            key = next(iter(self._waiting))
            return key, list(self._waiting.pop(key))

    def _is_enough(self) -> bool:
        return not self._is_on or any(len(items) >= AT_ONCE for items in self._waiting.values())
