"""Hands: threads that take claims from the shelf and run the handler."""

from __future__ import annotations

import ctypes
import threading
import time
from typing import TYPE_CHECKING, Any

from holdfast.runtime.stops import Interrupted

if TYPE_CHECKING:
    from holdfast.runtime.context import Context
    from holdfast.runtime.worker import Worker

_LATE_LOOKS = 100
"""A pending interrupt arrives within a few steps of its thread; after so many there is none."""


class Hand:
    """Runs one handler at a time. `current` is what it works on; whoever ends that holds the lock."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.current: Context | None = None
        self.abandoned = False
        self.lock = threading.Lock()

    def begin(self, context: Context) -> None:
        """From here on it may be interrupted, or given up."""
        context.started = time.monotonic()
        context.hand = self
        self.current = context

    def let_go(self, context: Context) -> bool:
        """Ends the work on it; False if this hand was given up meanwhile, so that the outcome no longer counts."""
        with self.lock:
            mine = self.current is context
            self.current = None
        return mine

    def interrupt(self, context: Context) -> None:
        """Makes the handler stop, if it still runs."""

    def abandon(self, context: Context) -> bool:
        """The handler does not stop: its outcome no longer counts. False if it has just ended."""
        with self.lock:
            if self.current is not context:
                return False
            self.current = None
            self.abandoned = True
        return True


class ThreadHand(Hand):
    """A thread. An interrupt is an exception that Python raises there, between two steps of its code."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker)
        self._interrupted = False
        self._thread = threading.Thread(target=self._run, name=f"holdfast-{worker.consumer.name}", daemon=True)
        self._thread.start()

    def interrupt(self, context: Context) -> None:
        if not self.worker.consumer.interruptible:
            return
        with self.lock:
            if self.current is context and self._thread.ident is not None:
                self._interrupted = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread.ident), ctypes.py_object(Interrupted)
                )

    def join(self, timeout: float) -> None:
        """Waits for the thread, which ends when the shelf is closed."""
        self._thread.join(timeout)

    def _run(self) -> None:
        take = self.worker.shelf.take
        while not self.abandoned and (context := take()) is not None:
            if context.stop is None:
                self._work(context)
            else:
                self.worker.skip(context)

    def _work(self, context: Context) -> None:
        result: Any = None
        problem: BaseException | None = None
        mine = False
        self.begin(context)
        try:
            try:
                result = self.worker.call(context)
            finally:
                mine = self.let_go(context)
        except BaseException as raised:
            problem = raised
            mine = self.let_go(context) or mine
        if self._interrupted:
            self._interrupted = False
            if not isinstance(problem, Interrupted):
                self._absorb()
        if mine:
            self.worker.finished(context, result, problem)

    def _absorb(self) -> None:
        """An interrupt that came too late for the handler arrives here."""
        try:
            for _ in range(_LATE_LOOKS):
                time.sleep(0)
        except Interrupted:
            pass
