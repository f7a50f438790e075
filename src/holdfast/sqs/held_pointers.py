"""Pointers in hand: kept while their messages are worked on, hidden from others, deleted in the end.

SQS hears of all that beside the work, where consumers run: see `Beside`.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Sequence

import msgspec

from holdfast.core.message import MessageId
from holdfast.core.settlement import Settlement
from holdfast.errors import DeliveryFailed
from holdfast.sqs.background_calls import BackgroundCalls
from holdfast.sqs.counters import Counts
from holdfast.sqs.queue import LONGEST, SHORTEST, Received, SqsQueue
from holdfast.sqs.rules.pointer import Pointer
from holdfast.store import fork_safety

log = logging.getLogger("holdfast")

TOGETHER = 0.05
"""Seconds for which a few deletions wait for others to go with them."""

Place = tuple[str, SqsQueue]
"""The name of a queue, and the one of SQS."""


class HeldPointer(msgspec.Struct):
    """The pointer of a message that is being worked on; all its copies."""

    place: Place
    pointer: Pointer
    copies: list[Received]


class Pointers(fork_safety.Guarded):
    """Those of a process."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._in_hand: dict[tuple[MessageId, int], HeldPointer] = {}
        self._deletes: BackgroundCalls[Place, str] = BackgroundCalls("deletes", self._delete, TOGETHER)
        self._hides: BackgroundCalls[tuple[Place, int], str] = BackgroundCalls("hides", self._hide)
        self.besides = (self._deletes, self._hides)
        fork_safety.guard(self)

    def after_fork_in_child(self) -> None:
        """What is in the parent's hands is not in ours."""
        self._in_hand = {}

    def keep(self, place: Place, token: int, pointer: Pointer, received: Received) -> None:
        """Its message is claimed under a token. Who claims it again, when that is over, has another one."""
        self._in_hand.setdefault((pointer.id, token), HeldPointer(place, pointer, [])).copies.append(received)
        self._forget_lost()

    def let_go(self, settlements: Sequence[Settlement], applied: Sequence[bool]) -> dict[int, list[HeldPointer]]:
        """The outcome is stored: the pointer is deleted. If it is not, the lease was lost: those pointers, by group."""
        lost: dict[int, list[HeldPointer]] = {}
        if not self._in_hand:
            return lost
        done: list[HeldPointer] = []
        for one, is_stored in zip(settlements, applied, strict=True):
            held = self._in_hand.pop((one.message_id, one.lease.token), None)
            if held is not None and is_stored:
                done.append(held)
            elif held is not None:
                lost.setdefault(one.lease.group, []).append(held)
        self.drop(done)
        return lost

    def drop(self, held: Sequence[HeldPointer]) -> None:
        """Nothing will come of these any more."""
        for place, copies in _together(held):
            self.delete(place, copies)

    def hide_longer(self, settlements: Iterable[Settlement], micros: int) -> None:
        """A pointer stays hidden as long as its message is held; after twelve hours SQS shows it, and it is left."""
        if not self._in_hand:
            return
        now, seconds = time.monotonic(), max(SHORTEST, math.ceil(micros / 1_000_000))
        longer: list[HeldPointer] = []
        for one in settlements:
            held = self._in_hand.get((one.message_id, one.lease.token))
            for copy in held.copies if held is not None else ():
                ends_too_soon = copy.hidden_until - now < micros / 1_000_000
                if held is not None and ends_too_soon and now + seconds <= copy.came_at + LONGEST:
                    copy.hidden_until = now + seconds
                    longer.append(HeldPointer(held.place, held.pointer, [copy]))
        for place, copies in _together(longer):
            self.hide(place, copies, seconds)

    def delete(self, place: Place, copies: Iterable[Received]) -> None:
        """Best effort: what is not deleted comes again, and leads to nothing."""
        self._deletes.put(place, [one.handle for one in copies])

    def hide(self, place: Place, copies: Iterable[Received], seconds: int) -> None:
        """For so long from now on, or no longer."""
        self._hides.put((place, seconds), [one.handle for one in copies])

    def _forget_lost(self) -> None:
        """Claims that nobody ever ended: SQS has their pointers again, long since."""
        if len(self._in_hand) % 1_000 == 0:
            now = time.monotonic()
            for key, held in list(self._in_hand.items()):
                if now - held.copies[0].came_at > LONGEST:
                    self._in_hand.pop(key, None)

    def _delete(self, place: Place, handles: list[str]) -> None:
        name, queue = place
        try:
            failed = queue.delete(handles)
        except DeliveryFailed as problem:
            log.warning("%s; %d pointer(s) will come again, for nothing", problem, len(handles))
            self._counts.add(name, "not_deleted", len(handles))
            return
        self._counts.add(name, "deleted", len(handles) - failed)
        if failed:
            log.info("SQS did not delete %d pointer(s) of %s: they were received too long ago", failed, queue.name)
            self._counts.add(name, "not_deleted", failed)

    def _hide(self, place_and_time: tuple[Place, int], handles: list[str]) -> None:
        (name, queue), seconds = place_and_time
        try:
            failed = queue.hide(handles, seconds)
        except DeliveryFailed as problem:
            log.warning("%s; %d pointer(s) stay hidden as they were", problem, len(handles))
            failed = len(handles)
        self._counts.add(name, "not_hidden", failed)


def _together(held: Sequence[HeldPointer]) -> list[tuple[Place, list[Received]]]:
    """What goes to one queue of SQS, in one piece."""
    pieces: dict[Place, list[Received]] = {}
    for one in held:
        pieces.setdefault(one.place, []).extend(one.copies)
    return list(pieces.items())
