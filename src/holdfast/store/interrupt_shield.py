"""What must not be cut in the middle: a thread may be interrupted in a user's code, never in a call of ours.

An exception from another thread can arrive between any two steps of Python's. Between BEGIN and COMMIT of a connection
that all threads share, that would hurt everybody. So whoever interrupts asks the thread's shield, and while the thread
is inside of a shielded call, the exception waits until it comes out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_thread = threading.local()


class Shield:
    """One thread's. Threads that nobody interrupts have none."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # It knows whose it is: see __enter__.
        self._depth = 0
        self._waiting: type[BaseException] | None = None

    def wear(self) -> None:
        """From here on it is the calling thread's."""
        _thread.shield = self

    def interrupt(self, problem: type[BaseException], send: Callable[[], object]) -> None:
        """Sends it now, or raises it when the thread comes out of a shielded call."""
        with self._lock:
            if self._depth:
                self._waiting = problem
            else:
                send()

    def __enter__(self) -> None:
        before = self._depth
        try:
            with self._lock:
                self._depth = before + 1
        except BaseException:
            # One that was sent just before arrives here: nothing has begun. Since Python 3.14 it can arrive after the
            # lock was taken and before `with` would release it.
            self._depth = before
            with suppress(RuntimeError):  # It is not held.
                self._lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth or self._waiting is None:
                return
            problem, self._waiting = self._waiting, None
        raise problem


def shielded(call: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A call that is done as a whole."""

    @wraps(call)
    def whole(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        shield: Shield | None = getattr(_thread, "shield", None)
        if shield is None:
            return call(*arguments, **options)
        with shield:
            return call(*arguments, **options)

    return whole
