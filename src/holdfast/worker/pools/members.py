"""The members of a pool: each a consumer at work, in a process of its own or in threads of this one."""

from __future__ import annotations

import logging
import math
import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Protocol

from holdfast.client.client import internals
from holdfast.core.message import MessageId
from holdfast.errors import HoldfastError
from holdfast.store.api import Seat
from holdfast.worker.consumer import Consumer
from holdfast.worker.find_consumer import ConsumerAddress, located
from holdfast.worker.pools.member_status import SETTLED

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from holdfast.worker.pools.pool import Pool
    from holdfast.worker.runner import Runner
    from holdfast.worker.worker import Worker

log = logging.getLogger("holdfast")

CRASHED = 1

LATE = 75
"""The exit code of one that took too long to start, so that someone else may have its seat."""

STARTING_TERM = 60.0
"""Seconds that a program has to import all that it needs before its seat is someone else's."""

SEAT_TERM = 15.0
"""Seconds that a seat is held without a word; renewed every third of it."""


def how_it_ended(exit_code: int) -> str:
    """What became of a member that ended as it should not."""
    if exit_code == LATE:
        return f"needed more than {STARTING_TERM:g} s to start, and its seat may be another's by now"
    return f"was killed by signal {-exit_code}" if exit_code < 0 else f"ended with exit code {exit_code}"


class PoolMember(Protocol):
    """One of a pool. `exit_code` is None while it works, 0 when it has ended as it should; `news` is what is known of
    its work: whether it has `SETTLED` any, or `RETRIED` a message that was tried before."""

    seat: Seat

    @property
    def exit_code(self) -> int | None: ...
    @property
    def news(self) -> set[bytes]: ...
    def drain(self, grace: float) -> None: ...
    def kill(self) -> None: ...


class ProcessMember:
    """A process, started afresh: nothing is inherited but the program. It drains when told so, or when we are gone.

    It is told on a line of its own and not by SIGTERM: a signal would kill a process that has just been started, and
    comes a second time if someone sends it to all processes at once.
    """

    def __init__(self, pool: Pool, seat: Seat, address: ConsumerAddress, grace: float) -> None:
        self.seat = seat
        self._news: set[bytes] = set()
        context = multiprocessing.get_context("spawn")
        self._leash, theirs = context.Pipe()
        self._process = context.Process(
            target=work, args=(theirs, address, pool.name, pool.key, seat.number, bytes(seat.token), seat.worker, grace)
        )
        # Ctrl-C reaches all; the supervisor says what to do about it, from a member's first moment on. Python's own
        # helper is started before, because that would make us hear signals again.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()

    @property
    def exit_code(self) -> int | None:
        """Negative if a signal ended it."""
        return self._process.exitcode

    @property
    def news(self) -> set[bytes]:
        """As far as it has told; it does so before it goes on, so nothing is missing when it has ended."""
        with suppress(EOFError, OSError):
            while self._leash.poll():
                self._news.add(self._leash.recv_bytes())
        return self._news

    def drain(self, grace: float) -> None:
        """What runs has so many seconds to finish. Again: less of them."""
        with suppress(OSError):
            self._leash.send_bytes(str(grace).encode())

    def kill(self) -> None:
        """Ends it at once."""
        self._process.kill()
        self._process.join()


class ThreadMember:
    """A worker in this process."""

    def __init__(self, pool: Pool, worker: Worker, seat: Seat) -> None:
        self.seat = seat
        self._worker = worker
        worker.start()
        worker.on_progress()  # So that it is told of soon.
        self._keeper = SeatKeeper(pool.key, pool.consumer, seat, lambda: self.drain(math.inf))

    @property
    def exit_code(self) -> int | None:
        """1 if the worker's own thread failed."""
        if not self._worker.ended.is_set():
            return None
        self._keeper.stop()
        return CRASHED if self._worker.failed else 0

    @property
    def news(self) -> set[bytes]:
        """No message ends a thread, so it does not matter which it had."""
        return {SETTLED} if self._worker.outbox.handled else set()

    def drain(self, grace: float) -> None:
        """What runs has so many seconds to finish. Again: less of them."""
        self._worker.stop(grace)

    def kill(self) -> None:
        """No thread can be killed; its handlers are told to stop."""
        self._worker.stop(0)


class SeatKeeper:
    """Keeps a seat while its holder works; tells the holder if it was lost, and gives it back at the end."""

    def __init__(self, key: str, consumer: Consumer, seat: Seat, on_lost: Callable[[], None]) -> None:
        self._hf = consumer.hf
        self._place = (consumer.hf.settings.tenant, key, seat)
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
                internals(self._hf).store.seats.leave(*self._place)

    def _run(self) -> None:
        kept = time.monotonic()
        while not self._over.wait(SEAT_TERM / 3):
            started = time.monotonic()
            try:
                if not internals(self._hf).store.seats.keep(*self._place, round(SEAT_TERM * 1_000_000)):
                    break
                kept = started
            except Exception as problem:  # Whatever it is: the seat is over when its time is.
                if time.monotonic() > kept + SEAT_TERM:
                    log.warning("a seat of the pool %s could not be kept: %s", self._place[1], problem)
                    break
        if not self._over.is_set():
            self._on_lost()


def work(
    leash: Connection,
    address: ConsumerAddress,
    pool: str,
    key: str,
    number: int,
    token: bytes,
    worker: str,
    grace: float,
) -> None:
    """What a member's process does, from its start to its end."""
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    seat = Seat(number, worker, MessageId(token), 0)
    sys.exit(_work(leash, located(address), pool, key, seat, grace))


def _work(leash: Connection, consumer: Consumer, pool: str, key: str, seat: Seat, grace: float) -> int:
    from holdfast.worker.runner import Runner

    internals(consumer.hf).catalog.open()
    seats = internals(consumer.hf).store.seats
    if not seats.keep(consumer.hf.settings.tenant, key, seat, round(SEAT_TERM * 1_000_000)):
        return LATE
    runner = Runner(consumer.hf, [consumer], grace, pool=pool)
    keeper = SeatKeeper(key, consumer, seat, lambda: runner.ask_to_stop(math.inf))
    runner.on_news = partial(_tell, leash)
    threading.Thread(target=_obey, args=(leash, runner), name="holdfast-leash", daemon=True).start()
    try:
        runner.run(signals=(signal.SIGTERM,))
    finally:
        keeper.stop()
    return CRASHED if any(worker.failed for worker in runner.workers) else 0


def _tell(leash: Connection, news: bytes) -> None:
    with suppress(OSError):
        leash.send_bytes(news)


def _obey(leash: Connection, runner: Runner) -> None:
    """Drains when told so; if the supervisor has ended without a word, everything that runs may finish."""
    grace = math.inf
    with suppress(EOFError, OSError):
        while True:
            grace = float(leash.recv_bytes())
            runner.ask_to_stop(grace)
    runner.ask_to_stop(grace)
