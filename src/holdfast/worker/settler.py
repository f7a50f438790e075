"""Storing how claims have ended, together where that is possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.client import settlements as settling
from holdfast.client.claim import Claim
from holdfast.core.lifecycle import LifecycleEvent
from holdfast.core.settlement import Settlement
from holdfast.errors import HoldfastError, Unavailable
from holdfast.events import MessageLost
from holdfast.worker import emit_events, outcome_to_settlement
from holdfast.worker.pools.member_status import SETTLED

if TYPE_CHECKING:
    from holdfast.worker.context import Context
    from holdfast.worker.held_leases import HeldLease
    from holdfast.worker.worker import Worker


class Outbox:
    """A worker's. `handled` and `failures` count since its start."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._settlements = worker.parts.settlements
        self._listeners = worker.parts.listeners
        self.handled = 0
        self.failures = 0
        self.on_news: Callable[[bytes], None] | None = None
        self._told: set[bytes] = set()

    def tell(self, news: bytes) -> None:
        """To the supervisor, if there is one in another process; once."""
        if self.on_news is not None and news not in self._told:
            self._told.add(news)
            self.on_news(news)

    def settle(self, ended: list[Context]) -> None:
        """In one transaction, but for those that could be refused for reasons of their own."""
        left = self.settle_first(ended)
        if left:
            settlements = settlements_of(left)
            applied = self._settlements.call(settlements)
            self.settled(left, settling.note([context.claim for context in left], settlements, applied))

    def settle_first(self, ended: list[Context]) -> list[Context]:
        """Settles alone what brings messages along, which may not fit; the others are left."""
        for context in ended:
            if context.following and context.settlement is not None:
                self._settle_alone(context, context.settlement)
        return [context for context in ended if not context.settled]

    def closed(self, held: HeldLease, lost: Sequence[Claim]) -> None:
        """A run was settled whole, but for what was lost of it."""
        contexts = held.contexts
        self._worker.ledger.close(held)
        if lost or self._listeners:
            self._tell(contexts, lost)
        else:
            self._handled(len(contexts))

    def settled(self, contexts: Sequence[Context], lost: Sequence[Claim]) -> None:
        """Notes that they are settled, or lost, and tells of it."""
        self._worker.ledger.settled(contexts)
        self._tell(contexts, lost)

    def _tell(self, contexts: Sequence[Context], lost: Sequence[Claim]) -> None:
        gone = {id(claim) for claim in lost}
        if not gone and not self._listeners:
            self._count(contexts)
            return
        for context in contexts:
            if id(context.claim) in gone:
                self.failures += 1
                emit_events.tell(self._listeners, MessageLost, self._worker, context)
            else:
                self._count([context])
                emit_events.tell_end(self._listeners, self._worker, context)

    def _settle_alone(self, context: Context, settlement: Settlement) -> None:
        try:
            applied = self._settlements.call([settlement])
        except Unavailable:
            raise
        except HoldfastError as problem:
            context.settlement = outcome_to_settlement.failed_with(context, problem)
            applied = self._settlements.call([context.settlement])
        self.settled([context], [] if applied[0] else [context.claim])

    def _count(self, contexts: Sequence[Context]) -> None:
        decided = [one.settlement.event for one in contexts if one.settlement is not None]
        self._handled(
            len(contexts) - sum(event in (LifecycleEvent.RELEASED, LifecycleEvent.SNOOZED) for event in decided)
        )
        self.failures += sum(event in (LifecycleEvent.FAILED, LifecycleEvent.DIED) for event in decided)

    def _handled(self, count: int) -> None:
        self.handled += count
        if count:
            self.tell(SETTLED)


def settlements_of(contexts: Sequence[Context]) -> list[Settlement]:
    """How their claims end; unless something else was decided, the work is done."""
    return [
        one.settlement
        or Settlement(
            one.claim.lease, one.claim.message.raw_id, one.claim.attempt, LifecycleEvent.ACKED, one.claim.member
        )
        for one in contexts
    ]
