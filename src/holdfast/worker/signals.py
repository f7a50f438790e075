"""SIGTERM and Ctrl-C: the first asks, the second insists."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from types import FrameType, TracebackType
from typing import Any

STOPPING = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """While inside, signals only note themselves down; `on_signal` is told how many there were. Main thread only.

    It is told by a thread of its own: whoever was interrupted by the signal may hold any lock.
    """

    def __init__(self, on_signal: Callable[[int], None], numbers: Sequence[int] = STOPPING) -> None:
        self._on_signal = on_signal
        self._numbers = numbers
        self._noted: SimpleQueue[bool] = SimpleQueue()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            threading.Thread(target=self._tell, name="holdfast-signals", daemon=True).start()
            self._before = {number: signal.signal(number, self._note) for number in self._numbers}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._noted.put(False)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted.put(True)

    def _tell(self) -> None:
        count = 0
        while self._noted.get():
            count += 1
            self._on_signal(count)
