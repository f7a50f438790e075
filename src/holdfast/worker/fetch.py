"""Claiming ahead for the hands: how much, and what is settled on the way."""

from __future__ import annotations

import math
import time
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.budgets import spend_reports
from holdfast.client.claim import Claim
from holdfast.client.claim_loop import Told
from holdfast.client.settlements import NOTHING, Finished
from holdfast.errors import CursorOutOfRange, HoldfastError
from holdfast.store.api import ClaimRequest
from holdfast.worker.context import Context
from holdfast.worker.held_leases import HeldLease
from holdfast.worker.pace import HandlingPace
from holdfast.worker.settler import settlements_of

if TYPE_CHECKING:
    from holdfast.worker.last_attempt_permit import Solitude
    from holdfast.worker.worker import Worker


AS_BEFORE = 0.5
"""Seconds for which a worker that is woken asks as it did; then it thinks again about what to ask for."""


class Fetching:
    """A worker's. When no more than `low` are left on the shelf, it is time for more."""

    def __init__(self, worker: Worker, solitude: Solitude) -> None:
        self._worker = worker
        self._parts = worker.parts
        self._claiming = worker.parts.claiming
        self._consumer = worker.consumer
        self._ledger = worker.ledger
        self._outbox = worker.outbox
        self._solitude = solitude
        self._solitary: Context | None = None
        self._pace = HandlingPace()
        self._thought = 0.0
        self.low = 0

    def note_ended(self, ended: list[Context], took: float) -> None:
        """So long they took, in all."""
        self._pace.note(took, len(ended))
        if self._solitary is not None and self._solitary in ended:
            self._solitary = None
            self._solitude.give_back()

    @property
    def takes(self) -> float:
        """Seconds of a handler, as far as is known."""
        return math.inf if self._pace.mean is None else self._pace.mean

    def note_slow(self, seconds: float) -> None:
        """One is not through after such a time."""
        self._pace.note(seconds, 1)

    def room(self) -> int:
        """How many to claim; 0 while there is enough."""
        most = self._consumer.concurrency + self._ahead()
        self.low = max(self._consumer.concurrency - 1, most // 2)
        if self._ledger.unfinished <= self.low:
            return most - self._ledger.unfinished
        shelf = self._worker.shelf
        is_held_up = shelf.awaited is not None and len(shelf.waiting) < self._consumer.concurrency
        return max(1, most - self._ledger.unfinished) if is_held_up else 0

    def request(self, room: int) -> ClaimRequest:
        """For so many, from the queues whose turns are next."""
        channels, shares = self._worker.attachments.channels(), None
        turns, shelf = self._worker.attachments.turns, self._worker.shelf
        shelf.take_turns(turns if turns.rotation.has_turns else None)
        if turns.rotation.has_turns:
            needs = turns.shares(room + shelf.held_back, shelf.stock)
            order = {name: place for place, name in enumerate(needs)}
            channels.sort(key=lambda channel: order.get(channel.name, len(order)))
            shares = [needs.get(channel.name, 0) for channel in channels]
        lease = None if self._consumer.lease is None else round(self._consumer.lease * 1_000_000)
        strict = self._consumer.policy == "strict"
        self._claiming.sweep_due(channels, self._worker.id)
        request = ClaimRequest(
            channels,
            room,
            self._worker.id,
            lease,
            alone_first=self._claiming.is_turn_of_alone(),
            courier=self._worker.courier,
            strict=strict,
            shares=shares,
        )
        self._thought = time.monotonic()
        return request

    def is_as_before(self, request: ClaimRequest) -> bool:
        """Whether nothing can have changed since the last request was made but what there is to claim."""
        is_busy = not self._worker.works_alone or self._ledger.unfinished or self._ledger.ended
        if is_busy or time.monotonic() - self._thought > AS_BEFORE:
            return False
        return self._worker.attachments.hold(request.channels)

    def fetch(self, request: ClaimRequest) -> tuple[ClaimRequest, list[Context]]:
        """Settles what is ready and claims, in one transaction where that is possible.

        Returns the request as it may be asked again, and what was claimed.
        """
        done, ready, finished, limit = self._to_settle(request)
        alone = self._solitary is None and self._solitude.take()
        look = replace(request, limit=limit, ack=settlements_of(ready), done=finished.leases, alone=alone)
        told = Told()
        started = time.monotonic()
        try:
            request, claims = self._claim(request, look, finished, told)
        except BaseException:
            if alone:
                self._solitude.give_back()
            raise
        started = told.asked or started
        if ready:
            self._outbox.settled(ready, told.lost)
        for held in done:
            self._outbox.closed(held, told.lost)
        contexts = list(map(self._make_context, repeat(self._worker), claims, repeat(started)))
        if request.shares is not None:
            found, open_ones = {one.queue for one in contexts}, {channel.name for channel in request.channels}
            self._worker.shelf.note_claim(_asked(look, contexts), found, open_ones)
        if alone:
            self._keep_apart(contexts)
        terms = {one.group: request.term(one) / 1_000_000 for one in request.channels}
        self._ledger.open(contexts, terms, started)
        if contexts:
            self._worker.on_held(min(terms.values()))
        if claims and spend_reports.are_limited(request.channels, claims):
            self._note_time(contexts)
        return request, contexts

    def _claim(
        self, request: ClaimRequest, look: ClaimRequest, finished: Finished, told: Told
    ) -> tuple[ClaimRequest, list[Claim]]:
        """What came along is settled, even if a group has lost something and refuses: that one rests alone, and is not
        asked again."""
        try:
            return request, self._claiming.once(look, finished, told)
        except CursorOutOfRange as problem:
            self._worker.attachments.rest(problem)
            left = [one for one in request.channels if one.name != problem.group]
            return replace(request, channels=left, shares=None), []

    def _to_settle(self, request: ClaimRequest) -> tuple[list[HeldLease], list[Context], Finished, int]:
        """What ends with this claim, whole runs first, and how many may be claimed then: what is left for later takes
        room, so that all together is bounded."""
        if not self._ledger.ended:
            return [], [], NOTHING, request.limit
        done, now, room = self._ledger.done(), time.monotonic(), request.limit
        ready = self._ledger.ready(now, everything=self._ledger.unfinished == 0, but=done)
        left = self._ledger.ended - len(ready) - sum(len(held.ended) for held in done)
        if left >= room:
            ready, left = self._ledger.ready(now, everything=True, but=done), 0
        ready = self._outbox.settle_first(ready)
        runs = [[one.claim for one in held.contexts] for held in done]
        return done, ready, Finished([one.claim for one in ready], runs), room - left

    def _note_time(self, contexts: list[Context]) -> None:
        """Where time or budget of all attempts together is limited, each claim knows what is left of it."""
        try:
            self._note_begin(contexts)
        except HoldfastError:
            self._worker.shelf.put(contexts)  # They are ours, whatever is known of their time.
            raise

    def _note_begin(self, contexts: list[Context]) -> None:
        for context, begun in zip(
            contexts, spend_reports.begin(self._parts, [one.claim for one in contexts]), strict=True
        ):
            if begun is not None:
                context.begun = begun
                context.time_left = spend_reports.time_left(
                    begun, context.claim.channel.spec, context.claim.lease.since_us
                )

    def _keep_apart(self, contexts: list[Context]) -> None:
        """A process holds at most one message on its last attempt, so that a crash ends at most one of them."""
        for context in contexts:
            if context.claim.member is None and _is_last(context):
                self._solitary = context
                return
        self._solitude.give_back()

    def _ahead(self) -> int:
        """How much to claim beyond what can begin at once; nothing where others wait for the places."""
        specs = [channel.spec for channel in self._parts.catalog.channels(self._worker.attachments.queues)]
        if any(spec.is_limited for spec in specs):
            return 0
        lease = self._consumer.lease or min((spec.lease for spec in specs), default=1.0)
        return self._pace.ahead(self._consumer.concurrency, lease)

    @cached_property
    def _make_context(self) -> type[Context]:
        if not self._consumer.is_async:
            return Context
        from holdfast.worker.executors.asyncio import AsyncContext

        return AsyncContext


def _is_last(context: Context) -> bool:
    """Whether it is a message in trouble, on its last attempt."""
    return context.attempt > 1 and context.attempt >= context.max_attempts


def _asked(request: ClaimRequest, contexts: list[Context]) -> set[str]:
    """The queues that a claim has looked at."""
    assert request.shares is not None, "only where there are turns"
    if len(contexts) == 1 and _may_be_alone(contexts[0]):
        return set()  # It may have ended with the first.
    is_filled = len(contexts) >= request.limit
    asked = zip(request.channels, request.shares, strict=True)
    return {channel.name for channel, share in asked if share or not is_filled}


def _may_be_alone(context: Context) -> bool:
    """Whether the claim may have ended with this one, since it is held alone."""
    return context.claim.member is None and (context.attempt > 1 or context.max_attempts == 1)
