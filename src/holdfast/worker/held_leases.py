"""What a worker holds: its leases, the claims under each, and which of them have ended and wait to be settled."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.core.message import Lease

if TYPE_CHECKING:
    from holdfast.worker.context import Context

SETTLE_WITHIN = 0.05
"""Seconds that an outcome may wait for the rest of its run. A run that is settled whole costs the least."""


class HeldLease:
    """One lease of this worker, and how long it surely lasts by this process's own clock.

    `extended` is the end that a handler has asked for. Who stores a new end holds `storing`: of two at once, nobody
    could tell whose end it is.
    """

    __slots__ = ("contexts", "ended", "extended", "first_ended", "lease", "left", "queue", "renewed", "storing", "term")

    def __init__(self, lease: Lease, term: float, renewed: float) -> None:
        self.lease = lease
        self.term = term
        self.renewed = renewed
        self.extended = -math.inf
        self.storing = threading.Lock()
        self.contexts: list[Context] = []
        self.left = 0
        self.ended: list[Context] = []
        self.first_ended = 0.0
        self.queue = ""

    @property
    def is_done(self) -> bool:
        """Whether it is a whole run, handled to the last message, and nothing else is to be said of any."""
        return (
            self.left == 0
            and self.contexts[0].claim.member is not None
            and len(self.contexts) == self.lease.size
            and len(self.ended) == self.lease.size
            and not [context for context in self.ended if context.settlement is not None]
        )

    @property
    def ends(self) -> float:
        """Before this moment nobody else can have its messages."""
        return max(self.renewed + self.term, self.extended)

    def span(self, now: float) -> float:
        """How long it has to last from now on when its end is stored anew: for its term, or what was asked for."""
        return max(self.term, self.extended - now)

    def unsettled(self) -> list[Context]:
        """The claims that this lease is still needed for."""
        return [context for context in self.contexts if not context.settled]


class HeldLeases:
    """Written by the worker's own thread only; others may look."""

    def __init__(self) -> None:
        self._held: dict[int, HeldLease] = {}
        self.unfinished = 0
        self.ended = 0

    def open(self, contexts: Sequence[Context], terms: Mapping[int, float], claimed: float) -> None:
        """New claims. `terms` is how long a lease of each group lasts."""
        for lease, mine in _by_lease(contexts):
            held = self._held[id(lease)] = HeldLease(lease, terms[lease.group], claimed)
            held.contexts = list(mine)
            held.left = len(mine)
            held.queue = mine[0].claim.channel.name
        self.unfinished += len(contexts)

    def end(self, contexts: Sequence[Context], now: float) -> None:
        """Their handlers are done, or never began."""
        for lease, mine in _by_lease(contexts):
            held = self._held[id(lease)]
            if not held.ended:
                held.first_ended = now
            held.ended += mine
            held.left -= len(mine)
        self.unfinished -= len(contexts)
        self.ended += len(contexts)

    def done(self) -> list[HeldLease]:
        """Runs that can be settled whole."""
        return [held for held in self._held.values() if held.is_done]

    def ready(self, now: float, everything: bool, but: Sequence[HeldLease] = ()) -> list[Context]:
        """What is to be settled now: runs that are through, and what has waited long enough for the rest of its run."""
        return [
            context
            for held in self._held.values()
            if held.ended and (everything or held.left == 0 or now - held.first_ended >= SETTLE_WITHIN)
            if held not in but
            for context in held.ended
        ]

    def close(self, held: HeldLease) -> None:
        """A whole run is settled."""
        self.ended -= len(held.ended)
        held.contexts = []
        del self._held[id(held.lease)]

    def settled(self, contexts: Sequence[Context]) -> None:
        """They are settled, or lost."""
        for lease, mine in _by_lease(contexts):
            self.ended -= len(mine)
            for context in mine:
                context.settled = True
            held = self._held[id(lease)]
            held.ended = [context for context in held.ended if not context.settled]
            if not held.ended and held.left == 0:
                del self._held[id(lease)]

    def due(self, now: float) -> float | None:
        """Seconds until something has waited long enough; None if nothing waits."""
        waiting = [held.first_ended for held in self._held.values() if held.ended]
        return max(0.0, min(waiting) + SETTLE_WITHIN - now) if waiting else None

    def find(self, lease: Lease) -> HeldLease | None:
        """What is known of a lease; None if nothing is left under it."""
        return self._held.get(id(lease))

    def held(self) -> list[HeldLease]:
        """All leases, for those who renew them and watch over them."""
        return list(self._held.values())


def _by_lease(contexts: Sequence[Context]) -> Iterable[tuple[Lease, Sequence[Context]]]:
    """In groups. Most often it is one."""
    lease = contexts[0].claim.lease if contexts else None
    if lease is not None and not [one for one in contexts if one.claim.lease is not lease]:
        return [(lease, contexts)]
    found: dict[int, tuple[Lease, list[Context]]] = {}
    before: Lease | None = None
    for context in contexts:
        lease = context.claim.lease
        if lease is not before:
            before, mine = lease, found.setdefault(id(lease), (lease, []))[1]
        mine.append(context)
    return found.values()
