"""The enqueuer: finds what is due, sends pointers to SQS, and notes what SQS has confirmed."""

from __future__ import annotations

import logging
import time

import msgspec

from holdfast.core.pointer import Pointer
from holdfast.delivery.counts import Counts
from holdfast.delivery.sqs import SqsQueue, in_batches
from holdfast.errors import DeliveryFailed
from holdfast.store.api import Channel, Store

log = logging.getLogger("holdfast")

HOLD = 60.0
"""Seconds that a sender has to tell what became of what it was sending; then someone else sends it."""

PATIENCE = 60.0
"""Seconds after which somebody asks after a pointer that nobody has come with."""

BATCH = 100
"""So many messages are handed over in one transaction."""

FIRST_REST, LONGEST_REST = 0.2, 30.0
"""Seconds between two tries while SQS refuses."""


class Sent(msgspec.Struct):
    """How many pointers SQS has got, whether there may be more to send, and whether SQS has any of this queue."""

    count: int
    is_out: bool
    more: bool


class Trouble:
    """While SQS refuses, nobody asks it more often than this allows."""

    def __init__(self) -> None:
        self._failures = 0
        self._since = 0.0
        self._rest_until = 0.0
        self._problem = ""

    def check(self) -> None:
        """Raises what went wrong last, for as long as it is not worth another try."""
        if time.monotonic() < self._rest_until:
            raise DeliveryFailed(self._problem)

    def note(self, problem: DeliveryFailed) -> bool:
        """It went wrong again; whether that is news."""
        now = time.monotonic()
        is_news = self._failures == 0
        if is_news:
            self._since = now
        self._failures += 1
        self._problem = str(problem)
        self._rest_until = now + self.rest
        return is_news

    def over(self) -> bool:
        """It went well; whether that is news."""
        was, self._failures, self._rest_until = self._failures, 0, 0.0
        return was > 0

    @property
    def rest(self) -> float:
        """How long to leave SQS alone."""
        return min(LONGEST_REST, FIRST_REST * 2.0 ** min(self._failures, 10))

    def left(self) -> float:
        """For how many seconds SQS is still left alone."""
        return max(0.0, self._rest_until - time.monotonic())

    def lasts(self) -> float:
        """For how many seconds nothing has gone well; 0 if it does."""
        return time.monotonic() - self._since if self._failures else 0.0


class Sender:
    """Hands messages over to SQS. Any number of them, in any number of processes, may do so at once."""

    def __init__(self, store: Store, counts: Counts) -> None:
        self._store = store
        self._counts = counts

    def hand_over(self, channel: Channel, queue: SqsQueue, limit: int) -> Sent:
        """One batch: marked in the database, sent, and confirmed as far as SQS says so."""
        handed = self._store.deliveries.hand_over(channel, min(limit, BATCH), round(HOLD * 1_000_000))
        if not handed.pointers:
            return Sent(0, handed.is_out, more=False)
        problem, confirmed = self._send(queue, handed.pointers)
        unsent = [one for one in handed.pointers if one not in confirmed]
        self._store.deliveries.confirm(channel, list(confirmed), unsent, round(PATIENCE * 1_000_000))
        self._counts.add(channel.name, "sent", len(confirmed))
        self._counts.add(channel.name, "unsent", len(unsent))
        if problem is not None:
            raise problem
        if not confirmed:
            raise DeliveryFailed(f"SQS has taken none of {len(unsent)} pointers for {queue.name!r}")
        return Sent(len(confirmed), is_out=True, more=len(confirmed) >= min(limit, BATCH))

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
