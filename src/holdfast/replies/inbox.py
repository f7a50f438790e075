"""The desk of a process that asks: its reply queue, who waits for which answer, and who of them listens for all.

There is no thread of its own. Whoever waits while nobody listens, listens: it claims from the reply queue as any
consumer would, woken by the bell, and hands to the others what is theirs. When it has its own, the next one does.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.client import settlements
from holdfast.client.claim import Claim
from holdfast.client.claim_loop import LONGEST_NAP
from holdfast.core.message import Message, id_text
from holdfast.errors import HoldfastError, NoAnswer, RequestDied
from holdfast.replies.rules import DIED, REPLIES, REPLY_SPEC
from holdfast.store import fork_safety
from holdfast.store.api import Channel, ClaimRequest, Waiter
from holdfast.store.ids import new_id
from holdfast.store.interrupt_shield import shielded

if TYPE_CHECKING:
    from holdfast.client.parts import ClientParts

ANSWERS_AT_ONCE = 100

OPEN_EVERY = 600.0
"""Seconds after which a reply queue is opened again; unopened for an hour, it is taken for one of a dead process."""


class Expected:
    """An answer that someone waits for. `wake` is called when it is there, and when it is this one's turn to listen."""

    def __init__(self, queue: str, patience: float, wake: Callable[[], object]) -> None:
        self.id = id_text(new_id())
        self.wake = wake
        self.answer: Message | None = None
        self.over = False
        self.bell: Waiter | None = None
        self._queue = queue
        self._patience = patience
        self._deadline = time.monotonic() + patience

    @property
    def left(self) -> float:
        """Seconds until nobody waits for it any more; none when it is over."""
        return 0.0 if self.over else self._deadline - time.monotonic()

    def body(self) -> Any:
        """What was answered, if anything was."""
        if self.answer is None:
            raise NoAnswer(
                f"nobody has answered within {self._patience:g} s what was asked of {self._queue!r}: is a consumer "
                "running that calls context.reply(), and is the timeout long enough for its retries?"
            )
        if DIED in self.answer.headers:
            error = str(self.answer.body).strip().partition("\n")[0]
            raise RequestDied(f"what was asked of {self._queue!r} is a dead letter now: {error}")
        return self.answer.body


class ReplyInbox(fork_safety.Guarded):
    """One per client and process: a forked child has a reply queue of its own."""

    def __init__(self, parts: ClientParts) -> None:
        self._parts = parts
        self.after_fork_in_child()
        fork_safety.guard(self)

    def after_fork_in_child(self) -> None:
        """Whoever waits is waiting in the parent, and the answers come there."""
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self.name = REPLIES + secrets.token_hex(8)
        self._channel: Channel | None = None
        self._opened = 0.0
        self._waiting: dict[str, Expected] = {}
        self._listener: Expected | None = None

    @property
    def is_open(self) -> bool:
        """Whether `open` has nothing to do."""
        # Not the monotonic clock: it stands still while a computer sleeps, and the database's goes on.
        return self._channel is not None and abs(time.time() - self._opened) < OPEN_EVERY

    @shielded
    def open(self) -> Channel:
        """Where answers go. It is opened again now and then, so that everyone sees that this process still asks."""
        with self._opening:
            if self._channel is None or not self.is_open:
                self._parts.catalog.open()
                self._channel = self._parts.store.replies.open(self._parts.settings.tenant, self.name, REPLY_SPEC)
                self._opened = time.time()
            return self._channel

    @shielded
    def expect(self, expected: Expected) -> None:
        """From here on its answer is kept for it."""
        with self._lock:
            self._waiting[expected.id] = expected

    @shielded
    def forget(self, expected: Expected) -> None:
        """Nobody waits for it any more; if it was listening, someone else does."""
        expected.over = True
        bell = expected.bell
        if bell is not None:
            bell.poke()
        with self._lock:
            self._waiting.pop(expected.id, None)
            if self._listener is expected:
                self._listener = None
            if self._listener is None and self._waiting:
                next(iter(self._waiting.values())).wake()

    @shielded
    def listens(self, expected: Expected) -> bool:
        """Whether it is this one's turn to listen, for all who wait."""
        with self._lock:
            if self._listener is None:
                self._listener = expected
            return self._listener is expected

    def listen(self, expected: Expected) -> None:
        """Hands out answers until its own is there, or its time is over."""
        with self._parts.bells.borrowed() as bell:
            expected.bell = bell
            try:
                while expected.left > 0:
                    channels, worker, claiming = [self.open()], self._parts.worker, self._parts.claiming
                    claiming.sweep_due(channels, worker)
                    alone_first = claiming.is_turn_of_alone()
                    request = ClaimRequest(channels, ANSWERS_AT_ONCE, worker, alone_first=alone_first)
                    if claims := claiming.once(request):
                        self._hand_out(claims)
                    elif expected.left > 0:
                        self._parts.claiming.nap(request, bell, min(expected.left, LONGEST_NAP))
            finally:
                expected.bell = None

    @shielded
    def _hand_out(self, claims: Sequence[Claim]) -> None:
        """To each its own. What comes too late is nobody's, and thrown away."""
        with self._lock:
            for claim in claims:
                expected = self._waiting.pop(claim.message.correlation_id or "", None)
                if expected is not None:
                    expected.answer = claim.message
                    expected.over = True
                    expected.wake()
        with suppress(HoldfastError):  # What cannot be acked now comes again, and is nobody's by then.
            self._parts.settlements.call(settlements.acked(claims))
