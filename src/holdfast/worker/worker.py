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

from holdfast.client import settlements
from holdfast.client.claim_loop import LONGEST_NAP
from holdfast.client.client import internals
from holdfast.consumers.steps.consumers import CREW
from holdfast.core.settlement import Settlement
from holdfast.errors import HoldfastError, UnknownGroup
from holdfast.events import ConsumerStarted, ConsumerStopped, HandlerStopped, RuntimeEvent
from holdfast.sqs.steps.values import Courier
from holdfast.store.api import ClaimRequest, Waiter
from holdfast.worker import emit_events, outcome_to_settlement
from holdfast.worker.attachments import AttachmentWatcher
from holdfast.worker.call import how_to_call
from holdfast.worker.consumer import Consumer
from holdfast.worker.context import Context
from holdfast.worker.executors.threads import Hand, OwnHand, Relieved, ThreadHand
from holdfast.worker.fetch import Fetching
from holdfast.worker.gate import Gate
from holdfast.worker.handler_begin import first_line_of
from holdfast.worker.held_leases import SETTLE_WITHIN, HeldLeases
from holdfast.worker.inline_backoff import THREADS_HELP, Apart
from holdfast.worker.pools.member_status import RETRIED
from holdfast.worker.ready_queue import Shelf
from holdfast.worker.settler import Outbox
from holdfast.worker.stop_reasons import Interrupted, Stop

if TYPE_CHECKING:
    from holdfast.client.client import Holdfast
    from holdfast.worker.last_attempt_permit import Solitude

log = logging.getLogger("holdfast")

SAFETY_NAP = 60.0
"""Seconds after which a hibernating consumer looks, even if nobody woke it."""

STEP_ASIDE = 0.001
"""Seconds for which a worker lets hands begin that were idle: they need Python's lock, which it would hold on to."""

HOARDED = 1.0
"""Seconds that all hands are busy with one message each, after which what lies ready is handed back for others."""

QUICK = 0.05
"""Seconds that a handler may take in the thread that claims; then another one takes that over."""

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
        self.parts = internals(hf)
        self.consumer = consumer
        self.pool = pool
        self.id = f"{hf.worker}:{consumer.name}:{os.urandom(3).hex()}"
        self.attachments = AttachmentWatcher(consumer)
        self.open_desk: Callable[[Worker], Courier] | None = None
        self._desk: Courier | None = None
        self.on_progress: Callable[[], None] = lambda: None
        self.on_held: Callable[[float], None] = lambda term: None
        self.shelf = Shelf()
        self.ledger = HeldLeases()
        self.outbox = Outbox(self)
        self.gate = Gate(self)
        self.hands: list[Hand] = []
        self._fetching = Fetching(self, solitude)
        self._make_hand = make_hand
        self._listeners = self.parts.listeners
        self.done: deque[Context] = deque()
        self._wake = threading.Event()
        self._bell: Waiter | None = None
        self._busy = 0.0
        self._hibernates = False
        self.naps = 0
        self._rung = False
        self._asked: ClaimRequest | None = None
        self.stopping = False
        self.hurries = False
        self._grace_ends = math.inf
        self._troubles = 0
        self.failed = False
        self.turned_at = time.monotonic()
        self.ended = threading.Event()
        self.call = emit_events.told(self._listeners, self, how_to_call(hf, consumer))
        self.first_line = first_line_of(hf, consumer)
        self.works_alone = make_hand is ThreadHand
        self._apart = Apart()

    @property
    def courier(self) -> Courier | None:
        """Who waits for SQS on its behalf, once there is a queue that SQS has to do with."""
        if self._desk is None and self.open_desk is not None and self.parts.transport.sqs is not None:
            self._desk = self.open_desk(self)
        return self._desk

    # --- for the runner -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins to claim."""
        self.parts.starts.gates.add(self.gate)
        self._tell(ConsumerStarted, queues=list(self.consumer.queues))
        if not self.works_alone:
            self.hands = [self._make_hand(self) for _ in range(self.consumer.concurrency)]
        self._claim_in_thread()

    def _claim_in_thread(self) -> None:
        threading.Thread(target=self._run, name=f"holdfast-{self.consumer.name}-claims", daemon=True).start()

    def stop(self, grace: float) -> None:
        """No more claims; what is not begun goes back, what runs has `grace` seconds. Again: less of them."""
        self._grace_ends = min(self._grace_ends, time.monotonic() + grace)
        self.stopping, self.hurries = True, self.hurries or grace <= 0
        self.gate.reconsider()

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
        has_more = context.following or context.receipt is not None or context.repeated
        if problem is not None or result is not None or has_more:
            context.settlement = self._judged(context, result, problem)
        if context.callbacks:
            context.callbacks = ()  # They may know the context, and nobody would ever clean up such a circle.
        context.claim.message.unread()
        self.done.append(context)
        if not self.works_alone and len(self.shelf.waiting) <= self._fetching.low and not self._wake.is_set():
            self.wake()

    def _judged(self, context: Context, result: Any, problem: BaseException | None) -> Settlement:
        """What a handler hands over may be anything, also something that raises when it is looked at."""
        try:
            if problem is None:
                return outcome_to_settlement.succeeded(context, result)
            return outcome_to_settlement.failed(self.consumer, context, problem)
        except BaseException as trouble:
            return outcome_to_settlement.failed_with(context, trouble)

    def skip(self, context: Context) -> None:
        """Its time was over before a hand was free: as if it had never been claimed."""
        (context.settlement,) = settlements.released([context.claim])
        self.done.append(context)
        self.wake()

    def cut_off(self, context: Context) -> None:
        """The handler was ended by someone who ends everything."""
        context.stop = Stop.SHUTDOWN
        self.finished(context, None, Interrupted())

    def relieve(self, now: float) -> None:
        """A handler takes its time in the thread that should claim and settle: another thread does that from now on."""
        for context in self.running():
            hand = context.hand
            if isinstance(hand, OwnHand) and now > context.started + QUICK and hand.relieve(context):
                self._call_others()

    def give_up(self, context: Context) -> None:
        """The handler did not stop when told to: another hand takes over, and its outcome no longer counts."""
        if context.hand is not None and context.hand.abandon(context):
            self.finished(context, None, Interrupted())
            self.hands = [hand for hand in self.hands if not hand.abandoned] + [self._make_hand(self)]

    def stopped(self, context: Context, reason: Stop) -> None:
        """A handler is told to stop."""
        emit_events.tell(self._listeners, HandlerStopped, self, context, reason=str(reason))

    @property
    def state(self) -> str:
        """What it is doing, in a word."""
        if self.stopping:
            return "draining"
        if self.ledger.unfinished:
            return "working"
        return "hibernating" if self._hibernates else "idle"

    def busy_seconds(self) -> float:
        """How long its handlers have run in all."""
        now = time.monotonic()
        return self._busy + sum(now - context.started for context in self.running())

    def running(self) -> list[Context]:
        """What the hands are working on."""
        return [context for hand in self.hands if (context := hand.current) is not None]

    # --- the loop -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        if not self.hands and self.works_alone:
            self.hands = [OwnHand(self)]
        try:
            with self.parts.bells.borrowed() as bell:
                while self._turn_safely(bell):
                    pass
        except Relieved as relieved:
            relieved.hand.serve()
            return
        except BaseException:
            self.failed = True
            log.exception("consumer %s has failed", self.consumer.name)
            self._leave_to_others()
        self.parts.starts.gates.discard(self.gate)
        self.shelf.close()
        self._tell(ConsumerStopped, reason="stopped" if self.stopping else "empty")
        self.ended.set()

    def _leave_to_others(self) -> None:
        """It has failed, and keeps no lease: what is done is stored, and what was not begun goes back."""
        for step in (self._collect, lambda: self._hand_back(self.shelf.clear())):
            try:
                step()
            except BaseException as problem:
                log.warning("consumer %s: %s; others have to wait for its leases", self.consumer.name, problem)

    def _turn_safely(self, bell: Waiter) -> bool:
        """Whatever goes wrong, there are handlers that run and outcomes to store: it goes on."""
        self.turned_at = time.monotonic()
        try:
            goes_on = self._turn(bell)
            self._troubles = 0
        except Exception as problem:
            if isinstance(problem, UnknownGroup) and self._leave_ended_groups():
                return True
            self._troubles += 1
            if self._troubles == 1:
                unexpected = None if isinstance(problem, HoldfastError) else problem
                log.warning("consumer %s: %s; it goes on", self.consumer.name, problem, exc_info=unexpected)
            self._wake.wait(min(LONGEST_REST, 0.1 * 2 ** min(self._troubles, 10)))
            return not (self.stopping and time.monotonic() > self._grace_ends)
        return goes_on

    def _leave_ended_groups(self) -> bool:
        """Someone has put an end to a group: nothing is claimed there any more. Who has nothing else to do stops."""
        left = self.attachments.leave_ended_groups()
        for queue in left:
            log.warning("consumer %s: the group %s has ended; it takes nothing from there", self.consumer.name, queue)
        if left and not self.attachments.queues:
            self.stop(math.inf)
        return bool(left)

    def _turn(self, bell: Waiter) -> bool:
        """One look around; False when everything is over."""
        if self._asked is not None:
            return self._look(self._asked, bell)
        self._wake.clear()
        self._collect()
        if self.stopping:
            return self._wind_down()
        if self.gate.is_unknown or self.ledger.unfinished:
            self._look_around()
        room = self._fetching.room()
        patience = HOARDED
        if not self.works_alone and self.shelf.awaited is None and self._apart.is_over(self._fetching.takes):
            if not self.ledger.unfinished:
                self._send_home()
                return True
            if any(time.monotonic() > context.started + QUICK for context in self.running()):
                self._apart.begin()  # Nobody should wait for such a handler.
            else:
                room, self._fetching.low, patience = 0, 0, QUICK
        if room == 0:
            self.outbox.settle(self.ledger.ready(time.monotonic(), everything=False))
            if not self._work_off():
                self._wait_for_hands(patience)
            return True
        return self._look(self._fetching.request(room), bell)

    def _look(self, request: ClaimRequest, bell: Waiter) -> bool:
        """Claims, works or sleeps."""
        self._asked = None
        request, claimed = self._claim(request)
        self._work_off()
        if self._look_around(now=self._rung and not claimed):
            return True
        return claimed or self._sleep(request, bell)

    def _look_around(self, now: bool = False) -> bool:
        """What may start, if it is time to ask; whether other queues are attached than before. What was claimed ahead
        and may not start is handed back."""
        is_new = self.gate.refresh(now)
        if self.gate.is_ajar and any(self.gate.refuses(one) for one in self.shelf.everything()):
            taken = self.shelf.clear()
            kept = [one for one in taken if not self.gate.refuses(one)]
            refused = {id(one) for one in taken} - {id(one) for one in kept}
            self.shelf.put(kept, wakes=not self.works_alone)
            self._hand_back([one for one in taken if id(one) in refused])
        return is_new

    def _collect(self) -> None:
        take = self.done.popleft
        ended = [take() for _ in range(len(self.done))]
        if not ended:
            return
        took = sum([context.took for context in ended])
        self._busy += took
        self.ledger.end(ended, time.monotonic())
        self._fetching.note_ended(ended, took)

    def _claim(self, request: ClaimRequest) -> tuple[ClaimRequest, bool]:
        """The request as it may be asked again, and whether anything was claimed."""
        request, contexts = self._fetching.fetch(request)
        if contexts and not self.attachments.hold(request.channels):
            self.gate.reconsider()  # Meanwhile a hand has learned of a detachment that the request did not know.
        if self.outbox.on_news is not None and any(context.attempt > 1 for context in contexts):
            self.outbox.tell(RETRIED)
        self.shelf.put(contexts, wakes=not self.works_alone)
        if 0 < len(contexts) <= self.consumer.concurrency and not self.works_alone:
            self._wake.wait(STEP_ASIDE)
        return request, bool(contexts)

    def _work_off(self) -> bool:
        """Runs handlers in this thread, if it works alone, for as long as nothing has to be settled; whether it did."""
        waiting, ends = self.shelf.waiting, time.monotonic() + SETTLE_WITHIN
        if not self.works_alone or not waiting:
            return False
        hand = self.hands[0]
        assert isinstance(hand, OwnHand), "who works alone has no other"
        has_waited = hand.work_off(waiting, ends, THREADS_HELP if self.consumer.concurrency > 1 else math.inf)
        if has_waited and not hand.is_relieved:
            hand.is_relieved = True
            self._call_others()
        if hand.is_relieved:
            raise Relieved(hand)
        return True

    def _call_others(self) -> None:
        """From here on every hand is a thread, and so is the claiming, until handlers are quick again."""
        self.works_alone = False
        self._apart.begin()
        self.hands = [*self.hands, *(self._make_hand(self) for _ in range(self.consumer.concurrency - 1))]
        self._claim_in_thread()

    def _send_home(self) -> None:
        """Nothing is under way: the threads go, and this one runs handlers itself."""
        self.shelf.close()
        self.shelf = Shelf()
        self.works_alone = True
        self.hands = [OwnHand(self)]

    def _wait_for_hands(self, patience: float) -> None:
        due = self.ledger.due(time.monotonic())
        if len(self.shelf):
            patience = min(patience, self.gate.due())
        self._wake.wait(patience if due is None else min(due, patience))
        self._share()

    def _share(self) -> None:
        """What lies behind slow handlers is handed back, for other consumers."""
        running = self.running()
        if not len(self.shelf) or len(running) < len(self.hands):
            return
        slow_for = time.monotonic() - max(context.started for context in running)
        if slow_for > HOARDED:
            self._fetching.note_slow(slow_for)
            self._hand_back(self.shelf.clear())

    def _hand_back(self, contexts: list[Context]) -> None:
        for context in contexts:
            (context.settlement,) = settlements.released([context.claim])
        self.ledger.end(contexts, time.monotonic())
        self.outbox.settle(self.ledger.ready(time.monotonic(), everything=True))

    def _sleep(self, request: ClaimRequest, bell: Waiter) -> bool:
        """Nothing to claim; False if that is the end."""
        if self._is_over(request):
            return False
        due = self.ledger.due(time.monotonic())
        self._hibernates = all(self.attachments.empty(channel) == "hibernate" for channel in request.channels)
        self.naps += 1
        nap = SAFETY_NAP if self._hibernates else LONGEST_NAP
        if len(self.shelf):
            nap = min(HOARDED, self.gate.due())
        nap = min(nap if due is None else due, self.attachments.rest_left())
        self._bell = bell
        try:
            self._rung = not self._wake.is_set() and self.parts.claiming.nap(request, bell, nap, CREW)
        finally:
            self._bell = None
            self._hibernates = False
        if self._rung and not self._wake.is_set() and self._fetching.is_as_before(request):
            self._asked = request
        else:
            self._share()
        return True

    def _is_over(self, request: ClaimRequest) -> bool:
        is_busy = bool(self.ledger.unfinished or self.ledger.held())
        return not is_busy and self.attachments.end_empty(request.channels)

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

    def _tell(self, kind: type[RuntimeEvent], **more: Any) -> None:
        if self._listeners.want(kind):
            self._listeners.tell(kind(consumer=self.consumer.name, worker=self.id, **more))
