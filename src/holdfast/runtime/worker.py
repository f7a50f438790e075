"""A consumer at work: one thread claims ahead for the hands and settles what they have done."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast import effort, endings
from holdfast.claiming import LONGEST_NAP
from holdfast.claims import Claim
from holdfast.core.pace import Pace
from holdfast.core.settlement import Settlement
from holdfast.endings import Finished
from holdfast.errors import HoldfastError
from holdfast.events import ConsumerStarted, ConsumerStopped, HandlerStopped, MessageStarted, RuntimeEvent
from holdfast.runtime import telling, verdict
from holdfast.runtime.attachments import Attachments
from holdfast.runtime.calling import Call, how_to_call
from holdfast.runtime.consumer import Consumer
from holdfast.runtime.context import Context
from holdfast.runtime.hands import Hand
from holdfast.runtime.ledger import Held, Ledger
from holdfast.runtime.outbox import Outbox, settlements_of
from holdfast.runtime.shelf import Shelf
from holdfast.runtime.stops import Interrupted, Stop
from holdfast.store.api import Bell, ClaimRequest
from holdfast.store.crew import CREW

if TYPE_CHECKING:
    from holdfast.client import Holdfast
    from holdfast.runtime.solitude import Solitude

log = logging.getLogger("holdfast")

SAFETY_NAP = 60.0
"""Seconds after which a hibernating consumer looks, even if nobody woke it."""

STEP_ASIDE = 0.001
"""Seconds for which a worker lets hands begin that were idle: they need Python's lock, which it would hold on to."""

HOARDED = 1.0
"""Seconds that all hands are busy with one message each, after which what lies ready is handed back for others."""

LONGEST_REST = 5.0
"""Seconds between two tries while the database is away."""


class Worker:
    """One consumer of this process. Started by the runner, stopped by `stop`, or by an empty queue if told so."""

    def __init__(
        self,
        hf: Holdfast,
        consumer: Consumer,
        solitude: Solitude,
        make_hand: Callable[[Worker], Hand],
        pool: str | None = None,
    ) -> None:
        self.hf = hf
        self.consumer = consumer
        self.pool = pool
        self.id = f"{hf.worker}:{consumer.name}:{os.urandom(3).hex()}"
        self.attachments = Attachments(consumer)
        self.on_progress: Callable[[], None] = lambda: None
        self.shelf = Shelf()
        self.ledger = Ledger()
        self.outbox = Outbox(self)
        self.hands: list[Hand] = []
        self._make_hand = make_hand
        self._solitude = solitude
        self._solitary: Context | None = None
        self._listeners = hf._listeners
        self._pace = Pace()
        self._done: deque[Context] = deque()
        self._wake = threading.Event()
        self._bell: Bell | None = None
        self._low = 0
        self._busy = 0.0
        self._hibernates = False
        self._rung = False
        self._stopping = False
        self._grace_ends = math.inf
        self._troubles = 0
        self.failed = False
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"holdfast-{consumer.name}-claims", daemon=True)
        self.call = self._how_to_call()

    # --- for the runner -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins to claim."""
        self.hands = [self._make_hand(self) for _ in range(self.consumer.concurrency)]
        self._thread.start()

    def stop(self, grace: float) -> None:
        """No more claims; what is not begun goes back, what runs has `grace` seconds. Again: less of them."""
        self._grace_ends = min(self._grace_ends, time.monotonic() + grace)
        self._stopping = True
        self.wake()

    def wake(self) -> None:
        """Makes the worker look at what has changed."""
        self._wake.set()
        bell = self._bell
        if bell is not None:
            bell.poke()

    # --- for the hands ------------------------------------------------------------------------------------------------

    def finished(self, context: Context, result: Any, problem: BaseException | None) -> None:
        """A handler has ended; its outcome is settled soon."""
        context.ended = True
        context.took = time.monotonic() - context.started
        if problem is not None or result is not None or context.following:
            context.settlement = self._judged(context, result, problem)
        if context.callbacks:
            context.callbacks = ()  # They may know the context, and nobody would ever clean up such a circle.
        self._done.append(context)
        if len(self.shelf.waiting) <= self._low and not self._wake.is_set():
            self.wake()

    def _judged(self, context: Context, result: Any, problem: BaseException | None) -> Settlement:
        """What a handler hands over may be anything, also something that raises when it is looked at."""
        try:
            if problem is None:
                return verdict.succeeded(context, result)
            return verdict.failed(self.consumer, context, problem)
        except Exception as trouble:
            return verdict.failed_with(context, trouble)

    def skip(self, context: Context) -> None:
        """Its time was over before a hand was free: as if it had never been claimed."""
        (context.settlement,) = endings.released([context.claim])
        self._done.append(context)
        self.wake()

    def cut_off(self, context: Context) -> None:
        """The handler was ended by someone who ends everything."""
        context.stop = Stop.SHUTDOWN
        self.finished(context, None, Interrupted())

    def give_up(self, context: Context) -> None:
        """The handler did not stop when told to: another hand takes over, and its outcome no longer counts."""
        if context.hand is not None and context.hand.abandon(context):
            self.finished(context, None, Interrupted())
            self.hands = [hand for hand in self.hands if not hand.abandoned] + [self._make_hand(self)]

    def stopped(self, context: Context, reason: Stop) -> None:
        """A handler is told to stop."""
        telling.tell(self._listeners, HandlerStopped, self, context, reason=str(reason))

    @property
    def state(self) -> str:
        """What it is doing, in a word."""
        if self._stopping:
            return "draining"
        if self.ledger.unfinished:
            return "working"
        return "hibernating" if self._hibernates else "idle"

    def busy_seconds(self) -> float:
        """How long its handlers have run in all."""
        now = time.monotonic()
        return self._busy + sum(now - context.started for context in self.running())

    @property
    def stopping(self) -> bool:
        """Whether what is not begun is handed back."""
        return self._stopping

    def running(self) -> list[Context]:
        """What the hands are working on."""
        return [context for hand in self.hands if (context := hand.current) is not None]

    # --- the loop -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._tell(ConsumerStarted, queues=list(self.consumer.queues))
        try:
            with self.hf._bells.borrowed() as bell:
                while self._turn_safely(bell):
                    pass
        except BaseException:
            self.failed = True
            log.exception("consumer %s has failed", self.consumer.name)
        finally:
            self.shelf.close()
            self._tell(ConsumerStopped, reason="stopped" if self._stopping else "empty")
            self.ended.set()

    def _turn_safely(self, bell: Bell) -> bool:
        """Whatever goes wrong, there are handlers that run and outcomes to store: it goes on."""
        try:
            goes_on = self._turn(bell)
            self._troubles = 0
        except Exception as problem:
            self._troubles += 1
            if self._troubles == 1:
                unexpected = None if isinstance(problem, HoldfastError) else problem
                log.warning("consumer %s: %s; it goes on", self.consumer.name, problem, exc_info=unexpected)
            self._wake.wait(min(LONGEST_REST, 0.1 * 2 ** min(self._troubles, 10)))
            return not (self._stopping and time.monotonic() > self._grace_ends)
        return goes_on

    def _turn(self, bell: Bell) -> bool:
        """One look around; False when everything is over."""
        self._wake.clear()
        self._collect()
        if self._stopping:
            return self._wind_down()
        if self.attachments.are_unknown:
            self.attachments.refresh()
        room = self._room()
        if room == 0:
            self.outbox.settle(self.ledger.ready(time.monotonic(), everything=False))
            self._wait_for_hands()
            return True
        request = self._request(room)
        claimed = self._claim(request)
        if self.attachments.refresh(now=self._rung and not claimed):
            return True
        return claimed or self._sleep(request, bell)

    def _collect(self) -> None:
        take = self._done.popleft
        ended = [take() for _ in range(len(self._done))]
        if not ended:
            return
        took = sum([context.took for context in ended])
        self._busy += took
        self._pace.note(took, len(ended))
        self.ledger.end(ended, time.monotonic())
        if self._solitary is not None and self._solitary in ended:
            self._solitary = None
            self._solitude.give_back()

    def _room(self) -> int:
        """How many to claim; 0 while there is enough."""
        most = self.consumer.concurrency + self._ahead()
        self._low = max(self.consumer.concurrency - 1, most // 2)
        return most - self.ledger.unfinished if self.ledger.unfinished <= self._low else 0

    def _request(self, room: int) -> ClaimRequest:
        channels = self.attachments.channels()
        lease = None if self.consumer.lease is None else round(self.consumer.lease * 1_000_000)
        return ClaimRequest(channels, room, self.id, lease)

    def _claim(self, request: ClaimRequest) -> bool:
        """Settles what is ready and claims, in one transaction where that is possible."""
        done, ready = self._to_settle(request)
        finished = Finished([one.claim for one in ready], [[one.claim for one in held.contexts] for held in done])
        request.done, request.ack = finished.leases, settlements_of(ready)
        request.alone = self._solitary is None and self._solitude.take()
        lost: list[Claim] = []
        self.hf._claiming.begin(request)
        started = time.monotonic()
        try:
            claims = self.hf._claiming.once(request, finished, lost)
        except BaseException:
            if request.alone:
                self._solitude.give_back()
            raise
        self.outbox.settled(ready, lost)
        for held in done:
            self.outbox.closed(held, lost)
        make = self._context_class()
        contexts = [make(self, claim, started) for claim in claims]
        self._keep_apart(contexts, request)
        self.ledger.open(contexts, {one.group: request.term(one) / 1_000_000 for one in request.channels}, started)
        if any(channel.spec.max_time is not None for channel in request.channels):
            self._note_time(contexts)
        self.shelf.put(contexts)
        if 0 < len(contexts) <= self.consumer.concurrency:
            self._wake.wait(STEP_ASIDE)
        return bool(contexts)

    def _to_settle(self, request: ClaimRequest) -> tuple[list[Held], list[Context]]:
        """What ends with this claim, whole runs first. What is left for later takes room: all together is bounded."""
        done, now, room = self.ledger.done(), time.monotonic(), request.limit
        ready = self.ledger.ready(now, everything=self.ledger.unfinished == 0, but=done)
        left = self.ledger.ended - len(ready) - sum(len(held.ended) for held in done)
        if left >= room:
            ready, left = self.ledger.ready(now, everything=True, but=done), 0
        request.limit = room - left
        return done, self.outbox.settle_first(ready)

    def _note_time(self, contexts: list[Context]) -> None:
        """Where a queue limits the time of all attempts together, each claim knows what is left of it."""
        try:
            self._note_begin(contexts)
        except HoldfastError:
            self.shelf.put(contexts)  # They are ours, whatever is known of their time.
            raise

    def _note_begin(self, contexts: list[Context]) -> None:
        for context, begun in zip(contexts, effort.begin(self.hf, [one.claim for one in contexts]), strict=True):
            if begun is not None:
                context.begun = begun
                context.time_left = effort.time_left(begun, context.claim.channel.spec, context.claim.lease.since)

    def _keep_apart(self, contexts: list[Context], request: ClaimRequest) -> None:
        """A process holds at most one message on its last attempt, so that a crash ends at most one of them."""
        if not request.alone:
            return
        self._solitary = next((context for context in contexts if _is_last(context)), None)
        if self._solitary is None:
            self._solitude.give_back()

    def _wait_for_hands(self) -> None:
        due = self.ledger.due(time.monotonic())
        self._wake.wait(HOARDED if due is None else min(due, HOARDED))
        self._share()

    def _share(self) -> None:
        """What lies behind slow handlers is handed back, for other consumers."""
        running = self.running()
        if not len(self.shelf) or len(running) < len(self.hands):
            return
        slow_for = time.monotonic() - max(context.started for context in running)
        if slow_for > HOARDED:
            self._pace.note(slow_for, 1)
            self._hand_back(self.shelf.clear())

    def _hand_back(self, contexts: list[Context]) -> None:
        for context in contexts:
            (context.settlement,) = endings.released([context.claim])
        self.ledger.end(contexts, time.monotonic())
        self.outbox.settle(self.ledger.ready(time.monotonic(), everything=True))

    def _sleep(self, request: ClaimRequest, bell: Bell) -> bool:
        """Nothing to claim; False if that is the end."""
        if self._is_over(request):
            return False
        due = self.ledger.due(time.monotonic())
        self._hibernates = all(self.attachments.empty(channel) == "hibernate" for channel in request.channels)
        nap = SAFETY_NAP if self._hibernates else LONGEST_NAP
        if len(self.shelf):
            nap = HOARDED
        self._bell = bell
        try:
            self._rung = not self._wake.is_set() and self.hf._claiming.nap(
                request, bell, nap if due is None else due, CREW
            )
        finally:
            self._bell = None
            self._hibernates = False
        self._share()
        return True

    def _is_over(self, request: ClaimRequest) -> bool:
        if self.ledger.unfinished or self.ledger.held():
            return False
        ending = [channel for channel in request.channels if self.attachments.empty(channel) == "terminate"]
        self.attachments.end(ending)
        return bool(ending) and not self.attachments.queues

    def _wind_down(self) -> bool:
        self._hand_back(self.shelf.clear())
        self.outbox.settle(self.ledger.ready(time.monotonic(), everything=True))
        if not self.ledger.unfinished:
            return False
        left = self._grace_ends - time.monotonic()
        if left <= 0:
            for context in self.running():
                context.halt(Stop.SHUTDOWN)
        self._wake.wait(min(max(left, 0.1), LONGEST_NAP))
        return True

    def _ahead(self) -> int:
        """How much to claim beyond what can begin at once; nothing where others wait for the places."""
        specs = [channel.spec for channel in self.hf._book.channels(self.attachments.queues)]
        if any(spec.is_limited for spec in specs):
            return 0
        lease = self.consumer.lease or min((spec.lease for spec in specs), default=1.0)
        return self._pace.ahead(self.consumer.concurrency, lease)

    def _tell(self, kind: type[RuntimeEvent], **more: Any) -> None:
        if self._listeners.want(kind):
            self._listeners.tell(kind(consumer=self.consumer.name, worker=self.id, **more))

    # --- calling the handler ------------------------------------------------------------------------------------------

    def _how_to_call(self) -> Call:
        call = how_to_call(self.hf, self.consumer)
        if not self._listeners.want(MessageStarted):
            return call

        def told(context: Context) -> Any:
            telling.tell(self._listeners, MessageStarted, self, context)
            return call(context)

        return told

    def _context_class(self) -> type[Context]:
        if not self.consumer.is_async:
            return Context
        from holdfast.runtime.loop import AsyncContext

        return AsyncContext


def _is_last(context: Context) -> bool:
    """Whether it is a message in trouble, on its last attempt."""
    return context.claim.member is None and context.attempt > 1 and context.attempt >= context.max_attempts
