"""Waiting for a server no longer than until a deadline: for an answer, a new connection, or a cancellation.

Opening a connection resolves names, tries addresses in turn and shakes hands, and some of these steps cannot be
interrupted. So a thread does it, which costs little beside a connection; if it takes too long, it is left alone, and
closes what it still gets.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

from holdfast.store.postgres.errors import DriverError, ServerTimeout

Result = TypeVar("Result")
Opened = TypeVar("Opened", bound="psycopg.Connection[Any]")

NO_ANSWER = "no answer within the client's patience: another session may hold a lock, or the server stands still"
NO_CONNECTION = "no connection within the client's patience"


def until(gen: PQGen[Result], deadline: Callable[[], float]) -> PQGen[Result]:
    """The steps of a statement, as psycopg waits between them, until the deadline: a driver that has heard nothing says
    so now and then."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() >= deadline():
                raise ServerTimeout(NO_ANSWER)
            wanted = gen.send(ready)
    except StopIteration as end:
        result: Result = end.value
        return result


def open_within(connect: Callable[[], Opened], deadline: float) -> Opened:
    """A new connection, or `Overdue`."""
    opening = _Opening(connect)
    try:
        opening.done.wait(max(0.0, deadline - time.monotonic()))
    finally:
        opening.leave()
    if opening.problem is not None:
        raise opening.problem
    if opening.made is None:
        raise ServerTimeout(NO_CONNECTION)
    made: Opened = opening.made
    return made


def give_up(connection: psycopg.Connection[Any], seconds: float) -> None:
    """Cancels the statement that a connection waits for, and closes it. What takes longer goes on by itself."""

    def work() -> None:
        with suppress(*DriverError):
            connection.cancel_safe(timeout=max(seconds, 1.0))
        connection.close()

    canceling = threading.Thread(target=work, name="holdfast-cancel", daemon=True)
    canceling.start()
    canceling.join(seconds)


class _Opening:
    """A thread that opens one connection, for someone who may have gone when it is open."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self.done = threading.Event()
        self.made: Any = None
        self.problem: BaseException | None = None
        self._connect = connect
        self._lock = threading.Lock()
        self._left = False
        threading.Thread(target=self._run, name="holdfast-connect", daemon=True).start()

    def leave(self) -> None:
        """What is not open by now is not wanted any more."""
        with self._lock:
            self._left = True

    def _run(self) -> None:
        try:
            made = self._connect()
        except BaseException as problem:
            self.problem = problem
        else:
            with self._lock:
                if not self._left:
                    self.made = made
            if self.made is None:
                made.close()
        self.done.set()
