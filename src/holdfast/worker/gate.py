"""Whether a handler may start: its queue is attached and not paused, and its budget is not spent.

Messages are claimed ahead, so these may change between a claim and its start. A worker therefore asks the database now
and then; the answer is valid for `CONFIRMED_FOR`, counted from the moment of asking. A worker that gets no answer in
time starts nothing. When this client itself changes something, it invalidates the answers of its workers before the
call returns, so that the next start asks.

A start costs one comparison with `until`. Only if that has passed, or if anything is closed, there is more to look at.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.worker.context import Context
    from holdfast.worker.worker import Worker

log = logging.getLogger("holdfast")

CONFIRMED_FOR = 1.0
"""Seconds for which an answer of the database counts, from the moment of asking."""

LOOK_EVERY = 0.4
"""Seconds after which a busy worker asks again; a sleeping one is woken by changes."""

UNDER_WAY = 0.1
"""Seconds that a handler has to reach its first line, where nobody can see whether it has: behind middleware, say."""

LONGEST_WAIT = 10.0
"""Seconds for which whoever closes a gate waits for a handler that is about to start."""

TRIES = 3
"""How often a start asks, if answers come too late or are outdated when they come."""


class Gate:
    """A worker's. Hands ask it before each start; any thread may close it."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.until = -math.inf
        """Before this moment everything may start: nothing is closed, and that is sure."""
        self._confirmed = self._deadline = -math.inf
        self._paused: frozenset[int] = frozenset()
        self._changes = 0
        self._version = worker.attachments.version
        self._asking = threading.Lock()
        self._noting = threading.Lock()

    # --- for hands ----------------------------------------------------------------------------------------------------

    def is_open(self, context: Context, now: float) -> bool:
        """Whether this one may start, as far as is known without asking."""
        return now < self._deadline and not self.is_closed(context)

    def is_closed(self, context: Context) -> bool:
        """Whether it is known that this one may not start."""
        claim = context.claim
        return claim.lease.group in self._paused or not self._worker.attachments.has(claim.channel.name)

    def refuses(self, context: Context) -> bool:
        """The same, if the answer is newer than the claim: a queue that hands out messages was not paused then."""
        return self.is_closed(context) and context.claimed < self._confirmed

    def admits(self, context: Context) -> bool:
        """Whether this one may start; asks the database if that is needed. A hand looks at `is_open` once more when it
        has taken the message: meanwhile someone may have closed the gate."""
        must_ask = context.claim.channel.spec.budget is not None  # Others may spend it at any moment.
        for _ in range(TRIES):
            if self._worker.stopping:
                return False
            now = time.monotonic()
            if now < self._deadline and not must_ask and self.is_closed(context) == self.refuses(context):
                return not self.is_closed(context)
            try:
                must_ask = not self._ask(now)
            except HoldfastError as problem:
                log.debug("consumer %s could not ask what may start: %s", self._worker.consumer.name, problem)
                return False
        return False

    # --- for the worker -----------------------------------------------------------------------------------------------

    def refresh(self, now: bool = False) -> bool:
        """Asks the database, if the last answer is old, or `now`; whether other queues are attached than before."""
        moment, before = time.monotonic(), self._version
        if now or moment >= min(self._confirmed + LOOK_EVERY, self._deadline):
            self._ask(moment)
        self._version = self._worker.attachments.version
        return self._version != before

    @property
    def is_unknown(self) -> bool:
        """Whether nobody has asked yet, or since something was changed here."""
        return self._deadline == -math.inf

    @property
    def is_ajar(self) -> bool:
        """Whether something may not start, or has to ask."""
        return self.until == -math.inf

    def due(self) -> float:
        """Seconds until it is time to ask again."""
        return max(0.0, min(self._confirmed + LOOK_EVERY, self._deadline) - time.monotonic())

    # --- for whoever changes something --------------------------------------------------------------------------------

    def reconsider(self) -> None:
        """Something is not as it was: the next start asks."""
        with self._noting:
            self._changes += 1
            self._deadline = self.until = -math.inf
        self._worker.wake()

    def await_starts(self, concerns: Callable[[Context], bool]) -> None:
        """Waits for handlers that were about to start when the gate was closed: until they have begun, or ended."""
        first_line = self._worker.first_line
        for hand in self._worker.hands:
            context, asked = hand.current, time.monotonic()
            if context is None or not concerns(context) or hand.is_here():
                continue
            while hand.current is context and not (first_line is not None and hand.has_begun(first_line)):
                now = time.monotonic()
                is_blind = first_line is None and now > context.started + UNDER_WAY
                if is_blind or now > asked + LONGEST_WAIT:
                    break
                time.sleep(0.001)

    # --- the answer ---------------------------------------------------------------------------------------------------

    def _ask(self, since: float) -> bool:
        """Asks, or waits for someone who does; whether there is an answer that is newer than that."""
        with self._asking:
            if self._confirmed < since:
                self._read()
            return self._confirmed >= since

    def _read(self) -> None:
        """Reads what may start. The answer does not count if this client has changed something meanwhile."""
        worker, changes, asked = self._worker, self._changes, time.monotonic()
        worker.attachments.read()
        channels = worker.parts.catalog.channels(worker.attachments.queues)
        held = {one.lease.group: one.queue for one in worker.ledger.held()}
        paused = worker.parts.store.channels.paused(sorted({*(one.group for one in channels), *held}))
        with self._noting:
            if self._changes != changes or worker.stopping:
                return
            self._paused = frozenset(paused)
            self._confirmed, self._deadline = asked, asked + CONFIRMED_FOR
            is_plain = not paused and not [one for one in channels if one.spec.budget is not None]
            held = {one.lease.group: one.queue for one in worker.ledger.held()}  # There may be more by now.
            is_plain = is_plain and all(map(worker.attachments.has, held.values()))
            self.until = self._deadline if is_plain else -math.inf
