"""Keeping leases: a thread that renews them, and one that stops handlers whose time is over.

They are two because renewing may wait for the database, and stopping must not.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from holdfast import endings
from holdfast.errors import HoldfastError
from holdfast.runtime.ledger import Held
from holdfast.runtime.stops import Stop

if TYPE_CHECKING:
    from holdfast.client import Holdfast
    from holdfast.runtime.context import Context
    from holdfast.runtime.worker import Worker

log = logging.getLogger("holdfast")

RENEW_AFTER = 1 / 3
"""Of a lease; so two tries may fail."""

STOP_BEFORE = 1 / 10
"""Of a lease: a handler whose lease could not be renewed is told to stop so long before its end, or a second."""

STUBBORN = 5.0
"""Seconds after which a handler that was told to stop, and did not, is given up; more if it has a program to stop."""

TICK = 0.1
"""Seconds between two rounds at most: whatever was claimed since the last one may have a short lease."""

Workers = Callable[[], Iterable["Worker"]]


class Rounds:
    """A thread that makes its round every now and then, more often the shorter the leases are."""

    def __init__(self, workers: Workers, name: str, part: float) -> None:
        self._workers = workers
        self._part = part
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"holdfast-{name}", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends, and waits for it."""
        self._over.set()
        self._thread.join(timeout=2.0)

    def round(self, now: float) -> float:
        """Does what is due; the shortest lease that it met, in seconds."""
        raise AssertionError("every kind of round says what it does")

    def _run(self) -> None:
        wait = TICK
        while not self._over.wait(wait):
            wait = min(TICK, max(0.005, self._round_safely() * self._part))

    def _round_safely(self) -> float:
        """Whatever goes wrong with one worker, the leases of the others have to be kept."""
        try:
            return self.round(time.monotonic())
        except Exception:
            log.exception("a round of %s failed", self._thread.name)
            return TICK


class Renewal(Rounds):
    """Renews every lease that is a third over."""

    def __init__(self, workers: Workers) -> None:
        super().__init__(workers, "renewal", RENEW_AFTER / 4)

    def round(self, now: float) -> float:
        """All leases of one length in one call, whoever's they are: a busy process gets few turns."""
        shortest = 10.0
        due: dict[float, list[Held]] = defaultdict(list)
        hf = None
        for worker in self._workers():
            if worker.ended.is_set():  # What it still holds, nobody will ever settle.
                continue
            hf = worker.hf
            for held in worker.ledger.held():
                shortest = min(shortest, held.term)
                if now >= held.renewed + held.term * RENEW_AFTER:
                    due[held.term].append(held)
        for term, leases in due.items():
            assert hf is not None, "they are someone's"
            self._renew(hf, leases, term)
        return shortest

    def _renew(self, hf: Holdfast, leases: list[Held], term: float) -> None:
        """Every claim is asked for: one that was canceled, or is just being settled, says nothing of others."""
        chosen = [(held, context) for held in leases for context in held.unsettled()]
        started = time.monotonic()
        claims = [context.claim for _, context in chosen]
        try:
            ends = hf.messages.extend(endings.acked(claims), round(term * 1_000_000))
        except HoldfastError as problem:
            log.warning("%d lease(s) could not be renewed: %s", len(leases), problem)
            return
        for (held, context), until in zip(chosen, ends, strict=True):
            if until is not None:
                held.renewed = started
                held.lease.until = until
            elif not context.settled:
                context.halt(Stop.LOST)


class Watch(Rounds):
    """Stops handlers at their timeout, and before a lease ends that could not be renewed."""

    def __init__(self, workers: Workers) -> None:
        super().__init__(workers, "watch", 1 / 20)

    def round(self, now: float) -> float:
        shortest = 10.0
        for worker in self._workers():
            worker.relieve(now)
            for context in worker.running():
                ends = context.ends
                if ends is not None:
                    shortest = min(shortest, ends - context.started)
                    if now >= ends:
                        context.halt(Stop.TIMEOUT if context.is_timed_out(now) else Stop.TIME)
                self._give_up(worker, context, now)
            for held in worker.ledger.held():
                shortest = min(shortest, held.term)
                if now >= held.ends - min(1.0, held.term * STOP_BEFORE):
                    for context in held.unsettled():
                        context.halt(Stop.LEASE)
        return shortest

    def _give_up(self, worker: Worker, context: Context, now: float) -> None:
        if context.stop is not None and now >= context.stopped_at + STUBBORN + worker.consumer.stop_grace:
            worker.give_up(context)
