"""Hands: threads that take claims from the shelf and run the handler."""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from holdfast.store.interrupt_shield import Shield
from holdfast.worker.handler_begin import FirstLine
from holdfast.worker.stop_reasons import Interrupted

if TYPE_CHECKING:
    from holdfast.worker.context import Context
    from holdfast.worker.worker import Worker

_LATE_LOOKS = 100
"""A pending interrupt arrives within a few steps of its thread; after so many there is none."""


REFUSED = object()
"""Stands for the result of a handler that may not start."""


class Hand:
    """Runs one handler at a time. `current` is what it works on.

    It lets go thousands of times a second and is disturbed once a year, so only those who disturb it take the lock:
    they say so first and then look what it works on. A hand that lets go meanwhile sees that, and waits for them.
    """

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.current: Context | None = None
        self.abandoned = False
        self.disturbed = False
        self.lock = threading.Lock()

    def begin(self, context: Context, now: float) -> None:
        """From here on it may be interrupted, or given up. Raises `Interrupted` if it was told to stop before."""
        context.started = now
        context.hand = self
        self.current = context
        if context.stop is not None:
            raise Interrupted

    def let_go(self) -> None:
        """Ends the work; from here on it can neither be interrupted nor given up."""
        self.current = None
        if self.disturbed:
            with self.lock:
                self.disturbed = False

    def is_let_in(self, context: Context) -> bool:
        """Begins once more, when the gate has had a closer look. It may ask the database, which is not the handler's
        time; so it works on nothing meanwhile. False if the handler may not start."""
        gate = self.worker.gate
        while True:
            self.let_go()
            if not gate.admits(context):
                return False
            now = time.monotonic()
            self.begin(context, now)
            if gate.is_open(context, now):
                return True

    def is_here(self) -> bool:
        """Whether this very thread is the hand."""
        return False

    def has_begun(self, line: FirstLine) -> bool:
        """Whether the handler has reached its first line."""
        return True

    def interrupt(self, context: Context) -> None:
        """Makes the handler stop, if it still runs."""

    def join(self, timeout: float) -> None:
        """Waits for it to go home, which it does when the shelf is closed."""

    def abandon(self, context: Context) -> bool:
        """The handler does not stop: its outcome no longer counts. False if it has just ended."""
        with self.lock:
            self.disturbed = True
            if self.current is not context:
                return False
            self.current = None
            self.abandoned = True
        return True


class ThreadHand(Hand):
    """A thread. An interrupt is an exception that Python raises there, between two steps of the handler's code."""

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker)
        self._shelf = worker.shelf  # Of this time: a worker that runs handlers itself again has a new one.
        self._interrupted = False
        self._shield = Shield()
        self._thread = self._begin_thread()

    def _begin_thread(self) -> threading.Thread:
        name = f"holdfast-{self.worker.consumer.name}"
        thread = threading.Thread(target=self.serve, name=name, daemon=True)
        thread.start()
        return thread

    def interrupt(self, context: Context) -> None:
        if not self.worker.consumer.interruptible:
            return
        with self.lock:
            self.disturbed = True
            if self.current is context and self._thread.ident is not None:
                self._interrupted = True
                thread = ctypes.c_ulong(self._thread.ident)
                self._shield.interrupt(
                    Interrupted,
                    lambda: ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(Interrupted)),
                )

    def join(self, timeout: float) -> None:
        self._thread.join(timeout)

    def is_here(self) -> bool:
        return self._thread is threading.current_thread()

    def has_begun(self, line: FirstLine) -> bool:
        return line.is_reached(self._thread.ident)

    def serve(self) -> None:
        """Takes from the shelf until it is closed."""
        self._shield.wear()
        take = self._shelf.take
        while not self.abandoned and (context := take()) is not None:
            self.handle(context)

    def handle(self, context: Context) -> None:
        """Runs the handler, unless there is no time left for that."""
        if context.stop is None:
            self._work(context)
        else:
            self.worker.skip(context)

    def _work(self, context: Context) -> None:
        result: Any = None
        problem: BaseException | None = None
        try:
            try:
                now = time.monotonic()
                self.begin(context, now)
                is_open = now < self.worker.gate.until or self.is_let_in(context)
                result = self.worker.call(context) if is_open else REFUSED
            finally:
                self.let_go()
        except BaseException as raised:
            problem = raised
            self.let_go()  # An interrupt may have arrived before the first time was through.
        if self._interrupted:
            self._absorb(problem)
        if result is REFUSED:
            self.worker.skip(context)
        elif not self.abandoned:
            self.worker.finished(context, result, problem)

    def _absorb(self, problem: BaseException | None) -> None:
        """An interrupt that came too late for the handler arrives here."""
        self._interrupted = False
        if isinstance(problem, Interrupted):
            return
        try:
            for _ in range(_LATE_LOOKS):
                time.sleep(0)
        except Interrupted:
            pass


class OwnHand(ThreadHand):
    """The thread that claims, running handlers itself as long as they are quick.

    So nothing passes from thread to thread, which costs more than such a handler does. When one is slow, someone else
    takes over the claiming, and this is a hand like any other from then on.
    """

    def __init__(self, worker: Worker) -> None:
        super().__init__(worker)
        self.is_relieved = False

    def _begin_thread(self) -> threading.Thread:
        self._shield.wear()
        return threading.current_thread()

    def work_off(self, waiting: deque[Context], ends: float, patience: float) -> bool:
        """Handles what waits, until then, or until the claiming was taken away; True if `patience` was not enough.

        As `handle` does with each, but without the calls in between: they take as long as a quick handler.
        """
        worker, call, take, done = self.worker, self.worker.call, waiting.popleft, self.worker.done.append
        gate = worker.gate
        now = time.monotonic()
        while waiting and now <= ends and not self.is_relieved:
            context = take()
            if context.stop is not None:
                worker.skip(context)
                continue
            result: Any = None
            problem: BaseException | None = None
            try:
                try:
                    self.begin(context, now)
                    result = call(context) if now < gate.until or self.is_let_in(context) else REFUSED
                finally:
                    self.current = None
                    if self.disturbed:
                        self.let_go()
            except BaseException as raised:
                problem = raised
                self.let_go()
            if self._interrupted:
                self._absorb(problem)
            if self.abandoned:
                return False
            now = time.monotonic()
            context.took = now - context.started
            is_more = context.following or context.callbacks or context.receipt is not None or context.repeated
            if result is not None or problem is not None or is_more or self.is_relieved:
                if result is REFUSED:
                    context.took = 0.0
                    if worker.stopping:  # It goes back with the others.
                        waiting.appendleft(context)
                        return False
                    worker.skip(context)
                    continue
                worker.finished(context, result, problem)
            else:
                context.ended = True
                context.claim.message.unread()
                done(context)
            if context.took > patience:
                return True
        return False

    def relieve(self, context: Context) -> bool:
        """Takes the claiming away from it, while it is busy with this; False if it no longer is."""
        with self.lock:
            self.disturbed = True
            if self.current is not context or self.is_relieved:
                return False
            self.is_relieved = True
        return True


class Relieved(BaseException):
    """Someone else claims now; the thread that did is a hand."""

    def __init__(self, hand: OwnHand) -> None:
        super().__init__()
        self.hand = hand
