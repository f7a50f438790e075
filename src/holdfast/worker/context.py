"""What a handler may know and do about the message that it works on."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.budgets import spend_reports
from holdfast.budgets.rules import Effort
from holdfast.client import settlements
from holdfast.client.claim import Claim
from holdfast.client.compose import EnqueueOptions
from holdfast.client.middleware import outgoing_of, put_through
from holdfast.client.receipts import Receipt
from holdfast.client.validate import checked_term
from holdfast.commands.rules import CommandReceipt
from holdfast.consumers.rules import Work
from holdfast.core import priority as priorities
from holdfast.core.duration import Duration
from holdfast.core.message import Message, NewMessage, encode_json
from holdfast.core.settlement import Settlement
from holdfast.errors import InvalidInput
from holdfast.sagas.rules.step_messages import KEY_HEADER
from holdfast.store.api import Joined
from holdfast.store.interrupt_shield import shielded
from holdfast.worker.stop_reasons import Stop

if TYPE_CHECKING:
    from holdfast.worker.consumer import Consumer
    from holdfast.worker.executors.threads import Hand
    from holdfast.worker.worker import Worker

log = logging.getLogger("holdfast")

HURRY = 1.0
"""Seconds that a program has at most to end when its worker has to go at once."""

_callbacks = threading.Lock()


class Context(msgspec.Struct, eq=False, gc=False):
    """The second argument of a handler, if it has one.

    >>> @hf.consumer("emails")
    ... def send(message, context):
    ...     context.progress(0.5)
    ...     context.enqueue("log", {"sent": message.body, "attempt": context.attempt})
    """

    _worker: Worker
    claim: Claim
    claimed: float
    started: float = 0.0
    took: float = 0.0
    stopped_at: float = 0.0
    settled: bool = False
    ended: bool = False
    hand: Hand | None = None
    stop: Stop | None = None
    settlement: Settlement | None = None
    begun: Effort | None = None
    time_left: float | None = None
    following: Sequence[NewMessage] = ()
    replied: bool = False
    callbacks: Sequence[Callable[[], object]] = ()
    idempotency_key: str | None = None
    joined: Joined | None = None
    receipt: CommandReceipt | None = None
    repeated: bool = False
    is_checking: bool = False
    _progress: Any = None

    @property
    def message(self) -> Message:
        """The message."""
        return self.claim.message

    @property
    def queue(self) -> str:
        """The name of the queue that it came from."""
        return self.claim.channel.name

    @property
    def attempt(self) -> int:
        """1 for the first attempt."""
        return self.claim.attempt

    @property
    def max_attempts(self) -> int:
        """How many there may be."""
        return self.claim.channel.spec.max_attempts

    @property
    def step_key(self) -> str | None:
        """For a step of a saga: the same text at every attempt, so that what was done before is not done twice."""
        return self.message.headers.get(KEY_HEADER)

    @property
    def deadline(self) -> datetime | None:
        """When this attempt's time is over, by this computer's clock; None if it is not limited."""
        ends = self.ends
        return None if ends is None else datetime.fromtimestamp(time.time() + ends - time.monotonic(), UTC)

    @property
    def session(self) -> str | None:
        """A text that is kept with the message from attempt to attempt, such as the id of a conversation."""
        return spend_reports.session(self._worker.parts, self.claim)

    @session.setter
    def session(self, text: str | None) -> None:
        spend_reports.remember(self._worker.parts, self.claim, text)

    @property
    def cancelled(self) -> bool:
        """Whether to stop: the lease was lost, the timeout is over, a saga withdrew the step, or the process ends."""
        return self.stop is not None

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """Calls this, from another thread, when the handler is to stop; at once if it is."""
        with _callbacks:
            if self.stop is None:
                self.callbacks = (*self.callbacks, callback)
                return
        callback()

    def progress(self, value: Any) -> None:
        """Says how far it is, as any JSON value: seen with `hf.status(id)` and `hf.consumers.list()` a second later."""
        encode_json(value, "progress")
        self._progress = value
        self._worker.on_progress()

    def extend(self, duration: Duration | None = None) -> None:
        """Makes the lease last for `duration` from now even if it cannot be renewed, and never for less than it did.

        Seldom needed: it is renewed while the handler runs. Messages that were claimed together share a lease.
        """
        self._extend(0.0 if duration is None else checked_term(duration, "duration") / 1_000_000)

    def enqueue(
        self,
        queue: str,
        body: Any,
        *,
        priority: int | str = priorities.NORMAL,
        key: str | None = None,
        delay: Duration = 0,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        ttl: Duration | None = None,
        idempotency_key: str | None = None,
        budget: float | None = None,
        commitments: Sequence[Any] | None = None,
    ) -> Receipt:
        """A message that arrives in the transaction of this one's ack; if the attempt fails, it never was."""
        options = EnqueueOptions(
            priority=priority,
            key=key,
            delay=delay,
            headers=headers,
            correlation_id=correlation_id,
            reply_to=reply_to,
            ttl=ttl,
            idempotency_key=idempotency_key,
            budget=budget,
            commitments=commitments,
        )
        new: list[NewMessage] = []
        draft, around = partial(self._draft, new), self._worker.parts.around_enqueue.plain
        if around:
            [receipt] = put_through(around, draft, outgoing_of(queue, [body], options))
        else:
            [receipt] = draft(queue, [body], options)
        self.following = [*self.following, *new]
        return receipt

    def reply(self, body: Any, *, headers: dict[str, Any] | None = None) -> Receipt:
        """Answers whoever asked, in the transaction of this message's ack; if the attempt fails, it never was.

        Once per message, and only if it has a `reply_to`. A handler that returns without it has not answered.
        """
        receipt = self.enqueue(self._asker(), body, headers=headers, correlation_id=self.message.correlation_id)
        self.replied = True
        return receipt

    def spend(self, amount: float) -> float:
        """Counts what this message costs, in whatever you count; what it has cost in all.

        Ends the attempt when the message's or the queue's budget is over.
        """
        return spend_reports.spend(self._worker.parts, self.claim, amount).spent

    def action(self, text: str) -> None:
        """Says what is about to be done; ends the attempt when it was the same too often in a row (`max_repeats`)."""
        spend_reports.act(self._worker.parts, self.claim, text)

    def _asker(self) -> str:
        """Where the answer goes, if there may be one."""
        if not self.message.reply_to:
            raise InvalidInput("reply() without a question: this message has no reply_to, as hf.ask() would have set")
        if self.replied:
            raise InvalidInput("reply() a second time: a message is answered once")
        return self.message.reply_to

    # --- for the runtime ----------------------------------------------------------------------------------------------

    @shielded
    def _extend(self, asked: float) -> None:
        held = self._worker.ledger.find(self.claim.lease)
        if held is None:
            settlements.refuse([self.claim])
        assert held is not None, "a lost claim was refused"
        with held.storing:
            now = time.monotonic()
            span = max(asked, held.span(now))
            self._worker.hf.extend(self.claim, span)
            held.extended = now + span

    def _draft(self, new: list[NewMessage], queue: str, bodies: list[Any], options: EnqueueOptions) -> list[Receipt]:
        """Adds to `new`, which is sure to follow only when every function around the enqueue has returned."""
        drafted = self._worker.parts.producer.drafted(queue, bodies, options, self.joined)
        new += drafted
        return [Receipt(message.id) for message in drafted]

    @property
    def consumer(self) -> Consumer:
        """Whose handler it is."""
        return self._worker.consumer

    @property
    def ends(self) -> float | None:
        """When its time is over, by this process's clock. A check of its commitments has a time of its own."""
        timeout = None if self.is_checking else self._worker.consumer.timeout
        limits = [] if timeout is None else [self.started + timeout]
        if self.time_left is not None:
            limits.append(self.claimed + self.time_left)
        return min(limits, default=None)

    def is_timed_out(self, now: float) -> bool:
        """Whether this attempt alone has taken too long."""
        timeout = None if self.is_checking else self._worker.consumer.timeout
        return timeout is not None and now >= self.started + timeout

    def grace(self, wanted: float) -> float:
        """How many of the `wanted` seconds a program has that must stop now: nobody else may have the message before
        it is gone, and who has to go at once does not wait for long."""
        if self.stop is Stop.LOST:
            return 0.0
        if self.stop is Stop.SHUTDOWN and self._worker.hurries:
            wanted = min(wanted, HURRY)
        left = (self.claim.lease.until_us - self.now()) / 1_000_000
        return max(0.0, min(wanted, left / 2))

    def halt(self, stop: Stop) -> None:
        """Tells the handler to stop; once, and not if it has ended."""
        with _callbacks:
            if self.stop is not None or self.ended:
                return
            self.stop = stop
            self.stopped_at = time.monotonic()
            callbacks = list(self.callbacks)
        self._worker.stopped(self, stop)
        if callbacks:  # Whoever says stop has others to look after, and callbacks may take their time.
            threading.Thread(target=_call_all, args=(callbacks,), name="holdfast-cancel", daemon=True).start()
        if self.hand is not None:
            self.hand.interrupt(self)

    def now(self) -> int:
        """About what the database's clock shows, whatever this computer's does."""
        return self.claim.lease.since_us + round((time.monotonic() - self.claimed) * 1_000_000)

    def work(self) -> Work:
        """What is being done, for the list of consumers."""
        return Work(self.claim.message.id, self.queue, self.attempt, self.claim.lease.since_us, self._progress)


def _call_all(callbacks: list[Callable[[], object]]) -> None:
    for callback in callbacks:
        try:
            callback()
        except Exception:
            log.exception("a callback for the end of a handler failed")
