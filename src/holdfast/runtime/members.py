"""The members of a pool: each a consumer at work, in a process of its own or in threads of this one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from holdfast.core.message import MessageId
from holdfast.errors import HoldfastError
from holdfast.runtime.consumer import Consumer
from holdfast.runtime.locating import address_of, located
from holdfast.store.api import Seat

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from holdfast.runtime.pool import Pool
    from holdfast.runtime.worker import Worker

CRASHED = 1

SEAT_TERM = 15.0
"""Seconds that a seat is held without a word; renewed every third of it."""


class Member(Protocol):
    """One of a pool. `exit_code` is None while it works, 0 when it has ended as it should."""

    seat: Seat

    @property
    def exit_code(self) -> int | None: ...
    def drain(self) -> None: ...
    def kill(self) -> None: ...


class ProcessMember:
    """A process, started afresh: nothing is inherited but the program. It drains when asked, or when we are gone."""

    def __init__(self, pool: Pool, seat: Seat, grace: float) -> None:
        self.seat = seat
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._leash = ours
        module, name = address_of(pool.consumer)
        self._process = context.Process(
            target=work, args=(theirs, module, name, pool.name, seat.number, bytes(seat.token), seat.worker, grace)
        )
        self._process.start()
        theirs.close()

    @property
    def exit_code(self) -> int | None:
        """Negative if a signal ended it."""
        return self._process.exitcode

    @property
    def pid(self) -> int | None:
        """Of the process."""
        return self._process.pid

    def drain(self) -> None:
        """The first time asks, the second insists."""
        if self._process.pid is not None and self._process.is_alive():
            os.kill(self._process.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()
        self._process.join()


class ThreadMember:
    """A worker in this process."""

    def __init__(self, pool: Pool, worker: Worker, seat: Seat, grace: float) -> None:
        self.seat = seat
        self._worker = worker
        self._grace = grace
        worker.start()
        self._keeper = SeatKeeper(pool.name, pool.consumer, seat, self.drain)

    @property
    def exit_code(self) -> int | None:
        """1 if the worker's own thread failed."""
        if not self._worker.ended.is_set():
            return None
        self._keeper.stop()
        return CRASHED if self._worker.failed else 0

    def drain(self) -> None:
        """What runs has the grace to finish."""
        self._worker.stop(self._grace)

    def kill(self) -> None:
        """No thread can be killed; its handlers are told to stop."""
        self._worker.stop(0)


class SeatKeeper:
    """Keeps a seat while its holder works; tells the holder if it was lost, and gives it back at the end."""

    def __init__(self, pool: str, consumer: Consumer, seat: Seat, on_lost: Callable[[], None]) -> None:
        self._hf = consumer.hf
        self._place = (consumer.hf.settings.tenant, pool, seat)
        self._on_lost = on_lost
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-seat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Gives the seat back."""
        if not self._over.is_set():
            self._over.set()
            self._thread.join(SEAT_TERM)
            with suppress(HoldfastError):
                self._hf.store.seats.leave(*self._place)

    def _run(self) -> None:
        kept = time.monotonic()
        while not self._over.wait(SEAT_TERM / 3):
            started = time.monotonic()
            try:
                if not self._hf.store.seats.keep(*self._place, round(SEAT_TERM * 1_000_000)):
                    break
                kept = started
            except HoldfastError:
                if time.monotonic() > kept + SEAT_TERM:
                    break
        if not self._over.is_set():
            self._on_lost()


def work(
    leash: Connection, module: str, name: str, pool: str, number: int, token: bytes, worker: str, grace: float
) -> None:
    """What a member's process does, from its start to its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the supervisor says what to do about it.
    consumer = located(module, name)
    seat = Seat(number, worker, MessageId(token), 0)
    sys.exit(_work(leash, consumer, pool, seat, grace))


def _work(leash: Connection, consumer: Consumer, pool: str, seat: Seat, grace: float) -> int:
    from holdfast.runtime.runner import Runner

    runner = Runner(consumer.hf, [consumer], grace, pool=pool)
    keeper = SeatKeeper(pool, consumer, seat, lambda: runner.ask_to_stop(grace))
    threading.Thread(target=_when_gone, args=(leash, lambda: runner.ask_to_stop(grace)), daemon=True).start()
    try:
        runner.run(signals=(signal.SIGTERM,))
    finally:
        keeper.stop()
    return CRASHED if any(worker.failed for worker in runner.workers) else 0


def _when_gone(leash: Connection, then: Callable[[], None]) -> None:
    """Nothing is ever sent: when there is something to read, the supervisor has ended."""
    leash.poll(None)
    then()
