"""The life of messages, whoever delivers them: what the database delivers it is asked for, the rest goes through SQS.

The database's word comes first, always: a pointer is deleted when the outcome of its message is stored, and left if it
is not. Nothing depends on a pointer being there, or on its being deleted.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.core.lifecycle import LifecycleEvent
from holdfast.core.message import Duplicate, NewMessage
from holdfast.core.settlement import Settlement
from holdfast.errors import DeliveryFailed, HoldfastError
from holdfast.events import Listeners
from holdfast.settings import Settings
from holdfast.sqs.background_calls import BackgroundCalls
from holdfast.sqs.circuit_breaker import CircuitBreaker, Troubles
from holdfast.sqs.counters import Counts
from holdfast.sqs.held_pointers import Pointers
from holdfast.sqs.queue import ANSWER_WITHIN, LONGEST, SHORTEST, Received, Sqs, SqsQueue
from holdfast.sqs.reconcile import DEATHS, LOST, Aftercare
from holdfast.sqs.rules.names import made_name
from holdfast.sqs.rules.pointer import Pointer, read_pointer
from holdfast.sqs.send import PointerSender, SendResult
from holdfast.sqs.steps.deliver import PointerFate
from holdfast.sqs.steps.values import Courier
from holdfast.store import fork_safety
from holdfast.store.api import Channel, ClaimRequest, ClaimResult, Grant, Granted, Make, Store

log = logging.getLogger("holdfast")

MOST_IN_HAND = 1_000
"""So many pointers are claimed with in one transaction: none of them may be shown to others before."""

MOST_STALE = 1_000
"""After so many pointers that lead to nothing, a claim by hand finds nothing."""

HELD_FOR, HELD_PAUSE = 0.5, 0.01
"""Seconds that a claim waits for whoever holds what it came for, and between two looks."""

SOON = 1.0
"""Seconds that a claim waits for what it has just handed over itself."""

ENDS_WITHIN = 2.0
"""Seconds that whoever stops waits for SQS to hear of what was done."""


class DeliveredMessages(fork_safety.Guarded):
    """What `store.messages` does, for all queues."""

    def __init__(self, store: Store, settings: Settings, listeners: Listeners, worker: Callable[[], str]) -> None:
        self._store = store
        self._base = store.messages
        self._settings = settings
        self.sqs = Sqs(create=settings.sqs_create)
        self.counts = Counts()
        self.sender = PointerSender(store, self.counts)
        self.pointers = Pointers(self.counts)
        self.aftercare = Aftercare(store, self.sqs, self.counts, listeners, worker, self.queue, self.trouble)
        self._troubles: dict[int, Troubles] = {}
        self._tellable: dict[int, Channel] = {}
        self._couriers = 0
        self._lock = threading.Lock()
        fork_safety.guard(self)

    def after_fork_in_child(self) -> None:
        """Whoever waits for SQS does that in the parent."""
        self._lock = threading.Lock()
        self._couriers = 0
        self._troubles = {}

    # --- the role -----------------------------------------------------------------------------------------------------

    def insert(self, new: Sequence[NewMessage]) -> list[Duplicate | None]:
        return self._base.insert(new)

    def claim(self, request: ClaimRequest, make: Make[Granted]) -> ClaimResult[Granted]:
        if not self._attend(request):
            claimed = self._base.claim(request, make)
            if request.ack:
                self._let_go(request.ack, claimed.acked)
            return claimed
        claimed = ClaimResult[Granted]([], [], [])
        if request.ack or request.done:
            claimed = self._base.claim(replace(request, channels=[], shares=None), make)
            self._let_go(request.ack, claimed.acked)
        refusal = self._claim_from_each(request, make, claimed)
        if refusal is not None and not (claimed.grants or claimed.silent or request.ack or request.done):
            raise refusal  # What is claimed, or settled, has to be told.
        return claimed

    def _claim_from_each(
        self, request: ClaimRequest, make: Make[Granted], claimed: ClaimResult[Granted]
    ) -> HoldfastError | None:
        """Adds what the channels give in their turn; what the first that refused has said, if one did."""
        silent: list[Channel] = []
        refusal: HoldfastError | None = None
        short: set[int] = set()
        grants = claimed.grants
        for channel, share in request.parts():
            if share is None and len(grants) >= request.limit:
                break
            if channel.id in short:
                continue
            limit, alone = share or request.limit - len(grants), request.alone and not grants
            part = replace(request, ack=(), done=(), limit=limit, alone=alone, shares=None)
            asked = time.monotonic()
            try:
                found = self._claim_from(part, make, channel)
            except DeliveryFailed as problem:
                refusal = refusal or problem  # Other queues may have something.
                short.add(channel.id)
                continue
            except HoldfastError as problem:
                refusal = problem
                break
            if found.grants and not grants:
                claimed.asked = found.asked or asked
            grants += found.grants
            silent += found.silent
            if len(found.grants) < part.limit:
                short.add(channel.id)
            if _is_alone(grants) or (request.strict and found.more):
                break
        claimed.silent = silent
        return refusal

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        applied = self._base.settle(settlements)
        self._let_go(settlements, applied)
        if self._tellable:
            died = {one.lease.group for one in settlements if one.event is LifecycleEvent.DIED} & self._tellable.keys()
            self.aftercare.look_after([self._tellable[group] for group in died], DEATHS)
        return applied

    def extend(self, settlements: Sequence[Settlement], micros: int) -> list[int | None]:
        ends = self._base.extend(settlements, micros)
        renewed = [one for one, end in zip(settlements, ends, strict=True) if end]
        self.pointers.hide_longer(renewed, micros)
        lost = [one for one, end in zip(settlements, ends, strict=True) if end is None]
        if lost:
            self._let_go(lost, [False] * len(lost))
        return ends

    def sweep(self, channel: Channel, limit: int, worker: str | None = None) -> int:
        return self._base.sweep(channel, limit, worker)

    # --- through SQS --------------------------------------------------------------------------------------------------

    def queue(self, channel: Channel) -> SqsQueue:
        """Where the pointers of a queue go."""
        made = made_name(self._settings.sqs_prefix, channel.tenant, channel.name)
        return self.sqs.queue(channel.spec.sqs_queue or made)

    def trouble(self, channel: Channel) -> Troubles:
        """How SQS behaves for a queue."""
        return self._troubles.setdefault(channel.id, Troubles())

    def begin_beside(self) -> None:
        """A courier begins: from now on nobody who works waits for SQS."""
        with self._lock:
            self._couriers += 1
            for one in self._besides:
                one.switch_on()

    def end_beside(self) -> None:
        """A courier has ended. With the last one ends what is done beside; SQS is given a moment for the rest."""
        with self._lock:
            self._couriers -= 1
            if self._couriers:
                return
            for one in self._besides:
                one.switch_off()
        deadline = time.monotonic() + ENDS_WITHIN
        for one in self._besides:
            one.finish(max(0.0, deadline - time.monotonic()))

    def hand_over(self, channel: Channel, limit: int) -> SendResult:
        """One batch of what is due. A refusal is noted, and raised."""
        trouble = self.trouble(channel).sending
        try:
            sent = self.sender.hand_over(channel, self.queue(channel), limit)
        except DeliveryFailed as problem:
            self._note_refusal(channel, trouble, problem)
            raise
        if sent.count and trouble.over():
            log.warning("SQS takes pointers of %s again", channel.name)
        return sent

    def receive(self, channel: Channel, most: int, wait: float) -> list[Received]:
        """Pointers, up to ten. A refusal is noted, and raised."""
        trouble = self.trouble(channel).receiving
        try:
            found = self.queue(channel).receive(most, wait, hidden_for(channel))
        except DeliveryFailed as problem:
            self._note_refusal(channel, trouble, problem)
            raise
        if trouble.over():
            log.warning("SQS answers again for %s", channel.name)
        return found

    def use(
        self, request: ClaimRequest, make: Make[Granted], channel: Channel, received: Sequence[Received]
    ) -> ClaimResult[Granted]:
        """Claims what pointers lead to, and does with each what is to be done with it. Only if some lead to what cannot
        be claimed now, there is no use in asking for more at once."""
        queue = self.queue(channel)
        place = (channel.name, queue)
        self.counts.add(channel.name, "received", len(received))
        read = [(one, read_pointer(one.body)) for one in received]
        unreadable = [one for one, pointer in read if pointer is None]
        if unreadable:
            log.warning("%d message(s) in %s are no pointers; they are deleted", len(unreadable), queue.name)
            self.counts.add(channel.name, "unreadable", len(unreadable))
        known = [(one, pointer) for one, pointer in read if pointer is not None]
        grants, fates, asked = self._take(request, make, channel, known)
        over = [one for one, fate in fates if fate == PointerFate.OVER]
        back = [one for one, fate in fates if fate in (PointerFate.BACK, PointerFate.HELD)]
        self.counts.add(channel.name, "claimed", len(grants))
        self.counts.add(channel.name, "over", len(over))
        left = sum(fate == PointerFate.LATER for _, fate in fates)
        self.counts.add(channel.name, "left", left)
        self.counts.add(channel.name, "given_back", len(back))
        self.pointers.delete(place, [*unreadable, *over])
        self.pointers.hide(place, back, 0 if request.alone or request.courier is None else 1)
        return ClaimResult(grants, [], [], more=not (left or back), asked=asked)

    def _take(
        self,
        request: ClaimRequest,
        make: Make[Granted],
        channel: Channel,
        known: Sequence[tuple[Received, Pointer]],
    ) -> tuple[list[Granted], list[tuple[Received, str]], float]:
        """Claims, and says what becomes of each pointer, and when the database was asked. Who holds a row for a moment
        is waited for."""
        place, deadline = (channel.name, self.queue(channel)), time.monotonic() + HELD_FOR
        grants, fates = list[Granted](), list[tuple[Received, str]]()
        asked = time.monotonic()
        while True:
            part = replace(request, limit=request.limit - len(grants), alone=request.alone and not grants)
            try:
                if not grants:
                    asked = time.monotonic()
                taken = self._store.deliveries.claim(part, make, channel, [pointer for _, pointer in known], part.limit)
            except HoldfastError:
                if not grants:
                    raise
                break  # What is claimed has to be told.
            for (one, pointer), fate in zip(known, taken.fates, strict=True):
                if fate == PointerFate.TAKEN:
                    self.pointers.keep(place, taken.grants[0].lease.token, pointer, one)
                elif fate != PointerFate.HELD:
                    fates.append((one, fate))
            grants += taken.grants
            known = [one for one, fate in zip(known, taken.fates, strict=True) if fate == PointerFate.HELD]
            is_enough = len(grants) >= request.limit or _is_alone(grants)
            if not known or is_enough or time.monotonic() >= deadline:
                break
            time.sleep(HELD_PAUSE)
        return grants, [*fates, *((one, PointerFate.HELD) for one, _ in known)], asked

    def give_back(self, channel: Channel, received: Sequence[Received]) -> None:
        """Pointers that nobody here wants: whoever asks next may have them."""
        self.counts.add(channel.name, "given_back", len(received))
        self.pointers.hide((channel.name, self.queue(channel)), received, 0)

    def reconcile(self, channels: Sequence[Channel]) -> int:
        """Looks after pointers that nobody has come with, and deaths that nobody was told of; how many."""
        return sum(self.aftercare.look(one) for one in channels)

    @property
    def _besides(self) -> tuple[BackgroundCalls[Any, str], ...]:
        return (*self.pointers.besides, self.aftercare.beside)

    def _attend(self, request: ClaimRequest) -> bool:
        """Notes what SQS has to do with; whether it delivers any of these queues."""
        delivers = False
        for channel in request.channels:
            if channel.spec.reaches_outside:
                delivers = delivers or not channel.spec.has_lanes
                if channel.spec.dead_events is not None:
                    self._tellable[channel.group] = channel
                if request.courier is not None:
                    request.courier.attend(channel)
        return delivers

    def _let_go(self, settlements: Sequence[Settlement], applied: Sequence[bool]) -> None:
        """Deletes the pointers of messages that have ended. Whoever has lost a lease asks whether the message was
        canceled, or ended in another way: its pointer would come again for nothing. Others may need it still."""
        for group, held in self.pointers.let_go(settlements, applied).items():
            try:
                over = self._store.deliveries.are_over(group, [one.pointer for one in held])
            except HoldfastError as problem:
                log.debug("%s; %d pointer(s) are left", problem, len(held))
                continue
            self.pointers.drop([one for one, is_over in zip(held, over, strict=True) if is_over])

    def _note_refusal(self, channel: Channel, trouble: CircuitBreaker, problem: DeliveryFailed) -> None:
        """SQS is left alone for a while, longer each time."""
        self.counts.add(channel.name, "failures")
        if trouble.note(problem):
            log.warning("%s; messages of %s wait in the database until it goes on", problem, channel.name)

    def _claim_from(self, request: ClaimRequest, make: Make[Granted], channel: Channel) -> ClaimResult[Granted]:
        if channel.spec.has_lanes:
            return self._base.claim(replace(request, channels=[channel]), make)
        falls_back = self._falls_back(channel)
        if request.courier is not None:
            found = self._claim_without_sqs(request, make, channel) if falls_back else None
            return found if found and found.grants else self._claim_what_came(request, make, channel, request.courier)
        if falls_back and self.trouble(channel).left() > 0:
            return self._claim_without_sqs(request, make, channel)
        self.trouble(channel).check()
        try:
            return ClaimResult(self._hand_over_and_claim(request, make, channel), [], [])
        except DeliveryFailed:
            if falls_back:
                return self._claim_without_sqs(request, make, channel)
            raise

    def _claim_without_sqs(self, request: ClaimRequest, make: Make[Granted], channel: Channel) -> ClaimResult[Granted]:
        away = round((channel.spec.sqs_fallback or 0.0) * 1_000_000)
        self._store.deliveries.fall_back(channel, request.limit, away)
        return self._base.claim(replace(request, channels=[channel]), make)

    def _falls_back(self, channel: Channel) -> bool:
        """Whether SQS was out of reach for so long that the database delivers."""
        fallback = channel.spec.sqs_fallback
        return fallback is not None and self.trouble(channel).lasts() >= fallback

    def _claim_what_came(
        self, request: ClaimRequest, make: Make[Granted], channel: Channel, courier: Courier
    ) -> ClaimResult[Granted]:
        """What the courier has, or what is there; otherwise the courier says when there is something."""
        received = courier.take(channel, request.limit)
        if not received and not self.trouble(channel).left():
            if not courier.is_quiet(channel):
                received = courier.fetch(channel, request.limit, lambda most: self._fetch(request, channel, most))
            elif request.strict:
                received = courier.fetch(channel, request.limit, lambda _: self._await(request, channel, courier))
        if not received:
            courier.want(channel, request.limit)
            received = courier.take(channel, request.limit)  # It may have come at this moment, and poked nobody.
        if not received:
            is_slow = courier.owes(channel) and not self.trouble(channel).lasts()
            return ClaimResult([], [], [], more=is_slow)
        claimed = self.use(request, make, channel, received)
        if not claimed.grants and not claimed.more:
            courier.rest(channel)
            courier.want(channel, request.limit)
        elif not claimed.grants:
            courier.again(channel)
        claimed.more = claimed.more or bool(claimed.grants)
        return claimed

    def _fetch(self, request: ClaimRequest, channel: Channel, most: int) -> list[Received]:
        """Pointers that wait in SQS; if there are none, perhaps there is something to hand over."""
        try:
            received = self.receive(channel, most, 0.0)
            if not received and self.hand_over(channel, request.limit).is_out:
                received = self.receive(channel, most, SOON)
        except DeliveryFailed:
            return []
        return received

    def _await(self, request: ClaimRequest, channel: Channel, courier: Courier) -> list[Received]:
        """SQS had nothing, and is being polled: only what is due since then, or just being sent, can come."""
        try:
            sent = self.hand_over(channel, request.limit)
        except DeliveryFailed:
            return []
        if sent.count or sent.is_coming:
            courier.wait(channel, SOON)
        return []

    def _hand_over_and_claim(self, request: ClaimRequest, make: Make[Granted], channel: Channel) -> list[Granted]:
        """Everything in one go, for who claims by hand: what is due is sent, received at once, and claimed in order."""
        grants, stale = list[Granted](), 0
        deadline = time.monotonic() + hidden_for(channel) - ANSWER_WITHIN
        while len(grants) < request.limit and stale < MOST_STALE and not (grants and time.monotonic() >= deadline):
            part = replace(request, limit=request.limit - len(grants), alone=request.alone and not grants)
            try:
                received = self._receive(channel, min(part.limit, MOST_IN_HAND), deadline)
                claimed = self.use(part, make, channel, received) if received else ClaimResult[Granted]([], [], [])
            except HoldfastError:
                if not grants:
                    raise
                break  # What is claimed has to be told.
            found = claimed.grants
            grants += found
            stale += 0 if found else len(received)
            is_all = len(found) == len(received) and len(received) < MOST_IN_HAND
            if is_all or (not claimed.more and not found) or _is_alone(grants):
                break
        return grants

    def _receive(self, channel: Channel, most: int, deadline: float) -> list[Received]:
        """As many pointers as there are, up to so many. A slow SQS gives fewer: before it shows the first of them to
        others, and to us again, they have to be claimed."""
        sent = self.hand_over(channel, most)
        wait, found = SOON if sent.count or sent.is_coming else 0.0, list[Received]()
        while sent.is_out and len(found) < most and not (found and time.monotonic() >= deadline):
            try:
                some = self.receive(channel, most - len(found), wait)
                found += some
                if some or wait:  # A busy SQS may say once that there is nothing, of what it has just been sent.
                    wait = 0.0
                    continue
                if not sent.more and (found or not self.aftercare.look(channel, [LOST])):
                    break
                sent = self.hand_over(channel, most - len(found))
            except DeliveryFailed:
                if not found:
                    raise
                break  # What has come is worth more than what went wrong.
            if not sent.count:
                break
            wait = SOON
        return found


def hidden_for(channel: Channel) -> int:
    """Seconds for which a pointer is hidden from others at first."""
    return min(LONGEST, max(SHORTEST, math.ceil(channel.spec.lease)))


def _is_alone(grants: Sequence[Grant]) -> bool:
    """Whether a claim may hold a message that shares it with none: on its last attempt, or after a silent one."""
    if len(grants) != 1 or grants[0].member is not None:
        return False
    return grants[0].attempt > 1 or grants[0].channel.spec.max_attempts == 1
