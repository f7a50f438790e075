"""Keeping leases: a thread that renews them, and one that stops handlers whose time is over.

They are two because renewing may wait for the database, and stopping must not.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from holdfast.client import settlements
from holdfast.client.client import internals
from holdfast.errors import HoldfastError
from holdfast.worker.held_leases import HeldLease
from holdfast.worker.stop_reasons import Stop

if TYPE_CHECKING:
    from holdfast.client.client import Holdfast
    from holdfast.worker.context import Context
    from holdfast.worker.worker import Worker

log = logging.getLogger("holdfast")

RENEW_AFTER = 1 / 3
"""Of a lease; so two tries may fail."""

STOP_BEFORE = 1 / 10
"""Of a lease: a handler whose lease could not be renewed is told to stop so long before its end, or a second."""

STUBBORN = 5.0
"""Seconds after which a handler that was told to stop, and did not, is given up; more if it has a program to stop."""

TICK = 0.1
"""Seconds between two rounds at most, while anything is held."""

LINGER = 1.0
"""Seconds for which rounds go on when nothing is held: a busy worker would wake them again and again."""

Workers = Callable[[], Iterable["Worker"]]


class Rounds:
    """A thread that makes its rounds while anything is held, more often the shorter the leases are; else it sleeps."""

    def __init__(self, workers: Workers, name: str, part: float) -> None:
        self._workers = workers
        self._part = part
        self._over = False
        self._rung = threading.Event()
        self._next = math.inf
        self._held_at = -math.inf
        self._thread = threading.Thread(target=self._run, name=f"holdfast-{name}", daemon=True)

    @property
    def name(self) -> str:
        """What it is called in logs."""
        return self._thread.name

    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends, and waits for it."""
        self._over = True
        self._rung.set()
        self._thread.join(timeout=2.0)

    def expect(self, term: float) -> None:
        """A lease of such a length is held from now on; said after it is in the ledger. Wakes who would be late."""
        if self._next > time.monotonic() + self._pause(term):
            self._rung.set()

    def round(self, now: float) -> float | None:
        """Does what is due; the shortest lease that it met, in seconds, or None if there was nothing."""
        raise AssertionError("every kind of round says what it does")

    def _run(self) -> None:
        while True:
            self._rung.clear()
            if self._over:
                return
            self._next = math.inf  # Who takes a lease from here on has to ring, as this round may not see it.
            wait = self._round_safely()
            if wait is not None:
                self._next = time.monotonic() + wait
            self._rung.wait(wait)

    def _round_safely(self) -> float | None:
        """Seconds until the next round. Whatever goes wrong with one worker, the leases of others have to be kept."""
        now = time.monotonic()
        try:
            shortest = self.round(now)
        except Exception:
            log.exception("a round of %s failed", self._thread.name)
            return TICK
        if shortest is not None:
            self._held_at = now
            return self._pause(shortest)
        return TICK if now < self._held_at + LINGER else None

    def _pause(self, term: float) -> float:
        return min(TICK, max(0.005, term * self._part))


class Renewal(Rounds):
    """Renews every lease before a third of it is over, and has a round to spare."""

    def __init__(self, workers: Workers) -> None:
        super().__init__(workers, "renewal", RENEW_AFTER / 4)

    def round(self, now: float) -> float | None:
        """All leases of one length in one call, whoever's they are: a busy process gets few turns."""
        mine: list[HeldLease] = []
        hf = None
        for worker in self._workers():
            if not worker.ended.is_set():  # What it still holds then, nobody will ever settle.
                hf = worker.hf
                mine += worker.ledger.held()
        if hf is None or not mine:
            return None
        shortest = min(held.term for held in mine)
        due = [one for one in mine if now + 2 * self._pause(shortest) >= one.renewed + one.term * RENEW_AFTER]
        due = [held for held in due if held.storing.acquire(blocking=False)]  # The others are just being extended.
        try:
            self._renew_all(hf, due, now)
        finally:
            for held in due:
                held.storing.release()
        return shortest

    def _renew_all(self, hf: Holdfast, due: list[HeldLease], now: float) -> None:
        by_span = defaultdict(list)
        for held in due:
            by_span[held.span(now)].append(held)
        for span, leases in by_span.items():
            self._renew(hf, leases, span)

    def _renew(self, hf: Holdfast, leases: list[HeldLease], span: float) -> None:
        """Every claim is asked for: one that was canceled, or is just being settled, says nothing of others."""
        chosen = [(held, context) for held in leases for context in held.unsettled()]
        started = time.monotonic()
        claims = [context.claim for _, context in chosen]
        try:
            ends = internals(hf).transport.messages.extend(settlements.acked(claims), round(span * 1_000_000))
        except HoldfastError as problem:
            log.warning("%d lease(s) could not be renewed: %s", len(leases), problem)
            return
        for (held, context), until in zip(chosen, ends, strict=True):
            if until:
                held.renewed = started
                held.lease.until_us = until
            elif not context.settled:
                context.halt(Stop.LOST if until is None else Stop.UNWANTED)


class HandlerWatch(Rounds):
    """Stops handlers at their timeout, and before a lease ends that could not be renewed."""

    def __init__(self, workers: Workers) -> None:
        super().__init__(workers, "watch", 1 / 20)

    def round(self, now: float) -> float | None:
        terms: list[float] = []
        for worker in self._workers():
            worker.relieve(now)
            for context in worker.running():
                ends = context.ends
                terms.append(TICK / self._part if ends is None else ends - context.started)
                if ends is not None and now >= ends:
                    context.halt(Stop.TIMEOUT if context.is_timed_out(now) else Stop.TIME)
                self._give_up(worker, context, now)
            for held in worker.ledger.held():
                terms.append(held.term)
                if now >= held.ends - min(1.0, held.term * STOP_BEFORE):
                    for context in held.unsettled():
                        context.halt(Stop.LEASE)
        return min(terms, default=None)

    def _give_up(self, worker: Worker, context: Context, now: float) -> None:
        """A step that its saga has withdrawn keeps its lease to the end: what undoes it must not meet its handler."""
        if context.stop is Stop.UNWANTED and context.now() < context.claim.lease.until_us:
            return
        if context.stop is not None and now >= context.stopped_at + STUBBORN + worker.consumer.stop_grace:
            worker.give_up(context)
