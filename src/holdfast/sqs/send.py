"""The enqueuer: finds what is due, sends pointers to SQS, and notes what SQS has confirmed."""

from __future__ import annotations

import msgspec

from holdfast.errors import DeliveryFailed
from holdfast.sqs.counters import Counts
from holdfast.sqs.queue import SqsQueue, in_batches
from holdfast.sqs.rules.pointer import Pointer
from holdfast.store.api import Channel, Store

HOLD = 60.0
"""Seconds that a sender has to tell what became of what it was sending; then someone else sends it."""

PATIENCE = 60.0
"""Seconds after which somebody asks after a pointer that nobody has come with."""

BATCH = 100
"""So many messages are handed over in one transaction."""


class SendResult(msgspec.Struct):
    """How many pointers SQS has got, whether it has any of this queue, and whether there may be more to send; somebody
    else may be sending some now (`is_coming`)."""

    count: int
    is_out: bool
    more: bool
    is_current: bool = True
    is_coming: bool = False


class PointerSender:
    """Hands messages over to SQS. Any number of them, in any number of processes, may do so at once."""

    def __init__(self, store: Store, counts: Counts) -> None:
        self._store = store
        self._counts = counts

    def hand_over(self, channel: Channel, queue: SqsQueue, limit: int) -> SendResult:
        """One batch: marked in the database, sent, and confirmed as far as SQS says so."""
        handed = self._store.deliveries.hand_over(channel, min(limit, BATCH), round(HOLD * 1_000_000))
        if not handed.pointers:
            return SendResult(0, handed.is_out, False, handed.is_current, handed.is_coming)
        problem, confirmed = self._send(queue, handed.pointers)
        unsent = [one for one in handed.pointers if one not in confirmed]
        self._store.deliveries.confirm(channel, list(confirmed), unsent, round(PATIENCE * 1_000_000))
        self._counts.add(channel.name, "sent", len(confirmed))
        self._counts.add(channel.name, "unsent", len(unsent))
        if problem is not None:
            raise problem
        if not confirmed:
            raise DeliveryFailed(f"SQS has taken none of {len(unsent)} pointers for {queue.name!r}")
        return SendResult(len(confirmed), is_out=True, more=len(confirmed) >= min(limit, BATCH))

    def _send(self, queue: SqsQueue, pointers: list[Pointer]) -> tuple[DeliveryFailed | None, set[Pointer]]:
        """What SQS has confirmed before the first call that failed."""
        confirmed: set[Pointer] = set()
        for some in in_batches(pointers):
            try:
                answers = queue.send([one.text() for one in some])
            except DeliveryFailed as problem:
                return problem, confirmed
            confirmed.update(one for one, has_it in zip(some, answers, strict=True) if has_it)
        return None, confirmed
