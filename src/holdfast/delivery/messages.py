"""The life of messages, whoever delivers them: what the database delivers it is asked for, the rest goes through SQS.

The database's word comes first, always: a pointer is deleted when the outcome of its message is stored, and left if it
is not. Nothing depends on a pointer being there, or on its being deleted.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from holdfast.core.lifecycle import Event
from holdfast.core.message import Duplicate, MessageId, NewMessage
from holdfast.core.pointer import Pointer, read_pointer
from holdfast.core.settlement import Settlement
from holdfast.core.sqs_names import made_name
from holdfast.delivery import deaths
from holdfast.delivery.counts import Counts
from holdfast.delivery.disposal import Disposal
from holdfast.delivery.reconciling import reconcile
from holdfast.delivery.sending import Sender, Trouble
from holdfast.delivery.sqs import AT_ONCE, LONGEST, SHORTEST, Received, Sqs, SqsQueue
from holdfast.errors import DeliveryFailed, HoldfastError
from holdfast.events import Listeners
from holdfast.settings import Settings
from holdfast.store.api import Channel, Claimed, ClaimRequest, Grant, Store
from holdfast.store.delivering import Fate
from holdfast.store.delivery_api import Courier

log = logging.getLogger("holdfast")

MOST_IN_HAND = 1_000
"""So many pointers are claimed with in one transaction: none of them may be shown to others before."""

SOON = 1.0
"""Seconds that a claim waits for what it has just handed over itself."""


class InHand(msgspec.Struct):
    """The pointer of a message that is being worked on; all its copies."""

    name: str
    queue: SqsQueue
    copies: list[Received]


class DeliveredMessages:
    """What `store.messages` does, for all queues."""

    def __init__(self, store: Store, settings: Settings, listeners: Listeners, worker: Callable[[], str]) -> None:
        self._store = store
        self._base = store.messages
        self._settings = settings
        self.sqs = Sqs(create=settings.sqs_create)
        self.counts = Counts()
        self.sender = Sender(store, self.counts)
        self._troubles: dict[int, Trouble] = {}
        self._listeners = listeners
        self._worker = worker
        self._tellable: dict[int, Channel] = {}
        self.disposal: Disposal | None = None
        self._in_hand: dict[tuple[int, MessageId], InHand] = {}

    # --- the role -----------------------------------------------------------------------------------------------------

    def insert(self, new: Sequence[NewMessage]) -> list[Duplicate | None]:
        return self._base.insert(new)

    def claim(self, request: ClaimRequest) -> Claimed:
        for channel in request.channels:
            if channel.spec.dead_events is not None:
                self._tellable[channel.group] = channel
        if all(channel.spec.has_lanes for channel in request.channels):
            claimed = self._base.claim(request)
            self._let_go(request.ack, claimed.acked)
            return claimed
        claimed = Claimed([], [], [])
        if request.ack or request.done:
            claimed = self._base.claim(replace(request, channels=[]))
            self._let_go(request.ack, claimed.acked)
        silent: list[Channel] = []
        for channel in request.channels:
            grants = claimed.grants
            part = replace(request, ack=(), done=(), limit=request.limit - len(grants))
            part.alone = request.alone and not grants
            try:
                found = self._claim_from(part, channel)
            except DeliveryFailed:
                if not grants and not request.ack and not request.done:
                    raise
                break  # What is claimed, or settled, has to be told.
            grants += found.grants
            silent += found.silent
            if len(grants) >= request.limit or _is_alone(grants):
                break
        claimed.silent = silent
        return claimed

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        applied = self._base.settle(settlements)
        self._let_go(settlements, applied)
        if self._tellable:
            self._tell_of({one.lease.group for one in settlements if one.event is Event.DIED})
        return applied

    def extend(self, settlements: Sequence[Settlement], micros: int) -> list[int | None]:
        ends = self._base.extend(settlements, micros)
        if self._in_hand:
            self._hide_longer([one for one, end in zip(settlements, ends, strict=True) if end is not None], micros)
        return ends

    def sweep(self, channel: Channel, limit: int, worker: str | None = None) -> int:
        return self._base.sweep(channel, limit, worker)

    # --- through SQS --------------------------------------------------------------------------------------------------

    def queue(self, channel: Channel) -> SqsQueue:
        """Where the pointers of a queue go."""
        made = made_name(self._settings.sqs_prefix, channel.tenant, channel.name)
        return self.sqs.queue(channel.spec.sqs_queue or made)

    def trouble(self, channel: Channel) -> Trouble:
        """How SQS behaves for a queue."""
        return self._troubles.setdefault(channel.id, Trouble())

    def use(self, request: ClaimRequest, channel: Channel, received: Sequence[Received]) -> list[Grant]:
        """Claims what pointers lead to, and does with each what is to be done."""
        queue = self.queue(channel)
        self.counts.add(channel.name, "received", len(received))
        read = [(one, read_pointer(one.body)) for one in received]
        unreadable = [one for one, pointer in read if pointer is None]
        if unreadable:
            log.warning("%d message(s) in %s are no pointers; they are deleted", len(unreadable), queue.name)
            self.counts.add(channel.name, "unreadable", len(unreadable))
        known = [(one, pointer) for one, pointer in read if pointer is not None]
        taken = self._store.deliveries.claim(request, channel, [pointer for _, pointer in known], request.limit)
        fates = [(one, pointer, fate) for (one, pointer), fate in zip(known, taken.fates, strict=True)]
        for one, pointer, fate in fates:
            if fate == Fate.TAKEN:
                self._keep(channel, queue, pointer, one)
        over = [one for one, _, fate in fates if fate == Fate.OVER]
        back = [one for one, _, fate in fates if fate == Fate.BACK]
        self.counts.add(channel.name, "claimed", len(taken.grants))
        self.counts.add(channel.name, "over", len(over))
        self.counts.add(channel.name, "left", sum(fate == Fate.LATER for *_, fate in fates))
        self.counts.add(channel.name, "given_back", len(back))
        self._dispose(channel.name, queue, [*unreadable, *over])
        self._give_back(channel.name, queue, back, soon=request.alone or request.courier is None)
        return taken.grants

    def give_back(self, channel: Channel, received: Sequence[Received]) -> None:
        """Pointers that nobody here wants: whoever asks next may have them."""
        self.counts.add(channel.name, "given_back", len(received))
        self._hide(channel.name, self.queue(channel), received, 0)

    def failed(self, channel: Channel, problem: DeliveryFailed) -> None:
        """SQS refused: it is left alone for a while, longer each time."""
        self.counts.add(channel.name, "failures")
        if self.trouble(channel).note(problem):
            log.warning("%s; messages of %s wait in the database until it goes on", problem, channel.name)

    def well(self, channel: Channel) -> None:
        """SQS answered."""
        if self.trouble(channel).over():
            log.warning("SQS answers again for %s", channel.name)

    def reconcile(self, channels: Sequence[Channel]) -> int:
        """Looks after pointers that nobody has come with, and deaths that nobody was told of; how many."""
        return sum(self._find_lost(one) + self._tell_safely(one) for one in channels)

    def _find_lost(self, channel: Channel) -> int:
        if channel.spec.has_lanes or self.trouble(channel).left() > 0:
            return 0
        try:
            found = reconcile(self._store, channel, self.queue(channel))
        except DeliveryFailed as problem:
            self.failed(channel, problem)
            return 0
        self.counts.add(channel.name, "sent_again", found)
        return found

    def _tell_of(self, groups: set[int]) -> None:
        for group in groups & self._tellable.keys():
            self._tell_safely(self._tellable[group])

    def _tell_safely(self, channel: Channel) -> int:
        """Whatever happens to an event, the death is stored."""
        if channel.spec.dead_events is None:
            return 0
        try:
            found = deaths.tell(self._store, self.sqs, self._listeners, self._worker(), channel)
        except HoldfastError as problem:
            log.warning("an event of a death in %s was not sent: %s; it is tried again", channel.name, problem)
            self.counts.add(channel.name, "failures")
            return 0
        self.counts.add(channel.name, "dead_events", found)
        return found

    def _claim_from(self, request: ClaimRequest, channel: Channel) -> Claimed:
        if channel.spec.has_lanes:
            return self._base.claim(replace(request, channels=[channel]))
        falls_back = self._falls_back(channel)
        if falls_back and (request.courier is not None or self.trouble(channel).left() > 0):
            return self._claim_without_sqs(request, channel)
        if request.courier is not None:
            return Claimed(self._claim_what_came(request, channel, request.courier), [], [])
        self.trouble(channel).check()
        try:
            grants = self._hand_over_and_claim(request, channel)
        except DeliveryFailed as problem:
            self.failed(channel, problem)
            if falls_back:
                return self._claim_without_sqs(request, channel)
            raise
        self.well(channel)
        return Claimed(grants, [], [])

    def _claim_without_sqs(self, request: ClaimRequest, channel: Channel) -> Claimed:
        away = round((channel.spec.sqs_fallback or 0.0) * 1_000_000)
        self._store.deliveries.fall_back(channel, request.limit, away)
        return self._base.claim(replace(request, channels=[channel]))

    def _falls_back(self, channel: Channel) -> bool:
        """Whether SQS was out of reach for so long that the database delivers."""
        fallback = channel.spec.sqs_fallback
        return fallback is not None and self.trouble(channel).lasts() >= fallback

    def _claim_what_came(self, request: ClaimRequest, channel: Channel, courier: Courier) -> list[Grant]:
        """What the courier has, or what is there; otherwise the courier says when there is something."""
        received = courier.take(channel, request.limit)
        if not received and not courier.is_quiet(channel) and not self.trouble(channel).left():
            received = self._fetch(request, channel, courier)
        if not received:
            courier.want(channel, request.limit)
            return []
        grants = self.use(request, channel, received)
        if not grants:
            courier.rest(channel)
            courier.want(channel, request.limit)
        return grants

    def _fetch(self, request: ClaimRequest, channel: Channel, courier: Courier) -> list[Received]:
        """Pointers that wait in SQS; if there are none, perhaps there is something to hand over."""
        most, hidden = min(max(request.limit, courier.appetite(channel)), AT_ONCE), hidden_for(channel)
        try:
            queue = self.queue(channel)
            received = queue.receive(most, 0.0, hidden)
            if not received and self.sender.hand_over(channel, queue, request.limit).is_out:
                received = queue.receive(most, SOON, hidden)
        except DeliveryFailed as problem:
            self.failed(channel, problem)
            return []
        self.well(channel)
        courier.keep(channel, received[request.limit :])
        return received[: request.limit]

    def _hand_over_and_claim(self, request: ClaimRequest, channel: Channel) -> list[Grant]:
        """Everything in one go, for who claims by hand: what is due is sent, received at once, and claimed in order."""
        queue, grants = self.queue(channel), list[Grant]()
        while len(grants) < request.limit:
            try:
                received = self._receive(channel, queue, min(request.limit - len(grants), MOST_IN_HAND))
            except DeliveryFailed:
                if not grants:
                    raise
                break
            part = replace(request, limit=request.limit - len(grants), alone=request.alone and not grants)
            found = self.use(part, channel, received) if received else []
            grants += found
            is_all = len(found) == len(received) and len(received) < MOST_IN_HAND
            if not found or is_all or _is_alone(grants):
                break
        return grants

    def _receive(self, channel: Channel, queue: SqsQueue, most: int) -> list[Received]:
        """As many pointers as there are, up to so many."""
        sent = self.sender.hand_over(channel, queue, most)
        wait, found = SOON if sent.count else 0.0, list[Received]()
        while sent.is_out and len(found) < most:
            try:
                some = queue.receive(most - len(found), wait, hidden_for(channel))
                found += some
                wait = 0.0
                if some:
                    continue
                if not sent.more and (found or not self._find_lost(channel)):
                    break
                sent = self.sender.hand_over(channel, queue, most - len(found))
            except DeliveryFailed:
                if not found:
                    raise
                break  # What has come is worth more than what went wrong.
            if not sent.count:
                break
            wait = SOON
        return found

    def _keep(self, channel: Channel, queue: SqsQueue, pointer: Pointer, received: Received) -> None:
        key = (channel.group, pointer.id)
        held = self._in_hand.get(key)
        if held is None or received.received_at - held.copies[0].received_at > SHORTEST:
            held = self._in_hand[key] = InHand(channel.name, queue, [])
        held.copies.append(received)
        self._forget_lost()

    def _forget_lost(self) -> None:
        """Claims that nobody ever ended: SQS has their pointers again, long since."""
        if len(self._in_hand) % 1_000 == 0:
            now = time.monotonic()
            for key, held in list(self._in_hand.items()):
                if now - held.copies[0].received_at > LONGEST:
                    self._in_hand.pop(key, None)

    def _let_go(self, settlements: Sequence[Settlement], applied: Sequence[bool]) -> None:
        """The outcome is stored: the pointer is deleted. If it is not, it is left, and the lease decides."""
        if not self._in_hand:
            return
        done: list[InHand] = []
        for one, is_stored in zip(settlements, applied, strict=True):
            held = self._in_hand.pop((one.lease.group, one.message_id), None)
            if held is not None and is_stored:
                done.append(held)
        for name, queue, copies in _together(done):
            self._dispose(name, queue, copies)

    def _dispose(self, name: str, queue: SqsQueue, copies: list[Received]) -> None:
        """At once, or beside the work if there is someone for that."""
        if self.disposal is None:
            self.delete(name, queue, copies)
        elif copies:
            self.disposal.put((name, queue, copies))

    def delete(self, name: str, queue: SqsQueue, copies: Sequence[Received]) -> None:
        """Best effort: what is not deleted comes again, and leads to nothing."""
        if not copies:
            return
        try:
            failed = queue.delete([one.handle for one in copies])
        except DeliveryFailed as problem:
            log.warning("%s; %d pointer(s) will come again, for nothing", problem, len(copies))
            self.counts.add(name, "not_deleted", len(copies))
            return
        self.counts.add(name, "deleted", len(copies) - failed)
        if failed:
            log.info("SQS did not delete %d pointer(s) of %s: they were received too long ago", failed, queue.name)
            self.counts.add(name, "not_deleted", failed)

    def _give_back(self, name: str, queue: SqsQueue, copies: Sequence[Received], *, soon: bool) -> None:
        self._hide(name, queue, copies, 0 if soon else 1)

    def _hide(self, name: str, queue: SqsQueue, copies: Sequence[Received], seconds: int) -> None:
        if not copies:
            return
        try:
            failed = queue.hide([one.handle for one in copies], seconds)
        except DeliveryFailed as problem:
            log.warning("%s; %d pointer(s) stay hidden as they were", problem, len(copies))
            failed = len(copies)
        self.counts.add(name, "not_hidden", failed)

    def _hide_longer(self, settlements: Sequence[Settlement], micros: int) -> None:
        """A pointer stays hidden as long as its message is held; after twelve hours SQS shows it, and it is left."""
        now, seconds = time.monotonic(), max(SHORTEST, math.ceil(micros / 1_000_000))
        longer: list[InHand] = []
        for one in settlements:
            held = self._in_hand.get((one.lease.group, one.message_id))
            for copy in held.copies if held is not None else ():
                ends_too_soon = copy.hidden_until - now < micros / 1_000_000
                if held is not None and ends_too_soon and now + seconds <= copy.received_at + LONGEST:
                    copy.hidden_until = now + seconds
                    longer.append(InHand(held.name, held.queue, [copy]))
        for name, queue, copies in _together(longer):
            self._hide(name, queue, copies, seconds)


def _together(held: Sequence[InHand]) -> list[tuple[str, SqsQueue, list[Received]]]:
    """What goes to one queue of SQS, in one piece."""
    pieces: dict[str, tuple[str, SqsQueue, list[Received]]] = {}
    for one in held:
        pieces.setdefault(one.queue.name, (one.name, one.queue, []))[2].extend(one.copies)
    return list(pieces.values())


def hidden_for(channel: Channel) -> int:
    """Seconds for which a pointer is hidden from others at first."""
    return min(LONGEST, max(SHORTEST, math.ceil(channel.spec.lease)))


def _is_alone(grants: Sequence[Grant]) -> bool:
    """Whether a claim may hold a message that shares it with none: on its last attempt, or after a silent one."""
    if len(grants) != 1 or grants[0].member is not None:
        return False
    return grants[0].attempt > 1 or grants[0].channel.spec.max_attempts == 1
