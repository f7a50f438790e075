"""In a process that runs consumers: one thread hands over what is due, and one per queue waits for pointers.

As long as there is something, workers fetch it themselves, from whatever queue it is the turn of, and wait a moment for
the answer. Who finds nothing says so, and is poked when something has come, or was sent. Whoever waits longer for SQS
is a thread of its own, and nobody waits for those when everything stops.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.client.client import internals
from holdfast.errors import DeliveryFailed, HoldfastError
from holdfast.sqs import send
from holdfast.sqs.messages import DeliveredMessages
from holdfast.sqs.queue import AT_ONCE, Received
from holdfast.store.api import Channel, Waiter

if TYPE_CHECKING:
    from holdfast.client.client import Holdfast

log = logging.getLogger("holdfast")

LONG_POLL = 20.0
"""Seconds that SQS waits for a message before it says that there is none."""

HOARDED = 3.0
"""Seconds after which pointers that no worker of this process wants any more are given back, for others."""

FRESH = 10.0
"""Seconds that a pointer has to be hidden for still, to be worth a claim."""

QUICK = 0.5
"""Seconds within which fetched pointers are used up by those who may fetch more at once."""

UNCLAIMABLE = 2.0
"""Seconds without a poll after pointers that lead to nothing now: a paused queue, a limit."""

ANSWERED = 1.5
"""Seconds that a worker waits for what it fetches; what comes later is for whoever takes next."""

SHORTEST_POLL = 1.0
"""Seconds between two polls that bring nothing, if SQS does not wait as it was asked to."""

LONGEST_NAP, SAFETY_NAP = 5.0, 60.0
"""Seconds after which the sender looks, even if nobody rang; the longer one where all workers hibernate."""

SHORTEST_NAP = 0.05

SENDER_ENDS_WITHIN = 2.0
"""Seconds that whoever stops waits for the thread that hands over: it may be in the middle of a call of SQS."""

SOON = 0.5
"""Seconds until the sender looks again where pointers go, if that has just changed."""

Poke = Callable[[], object]
Fetch = Callable[[int], Sequence[Received]]


class Round:
    """What has come of one queue, and who wants it."""

    def __init__(self, messages: DeliveredMessages, channel: Channel) -> None:
        self.channel = channel
        self._messages = messages
        self._came: deque[Received] = deque()
        self._changed = threading.Condition()
        self._wanted = 0
        self._pokes: set[Poke] = set()
        self.is_quiet = False
        self.appetite = 1
        self._fetched = 0.0
        self._rest_until = 0.0
        self._unanswered: set[threading.Event] = set()
        self._was_empty = False
        self._over = False

    def start(self) -> None:
        """Begins to poll."""
        threading.Thread(target=self._run, name=f"holdfast-sqs-{self.channel.name}", daemon=True).start()

    def stop(self) -> None:
        """Ends soon; what has come goes back."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
            left = list(self._came)
            self._came.clear()
        self._give_back(left)

    def take(self, channel: Channel, most: int) -> list[Received]:
        """What has come."""
        with self._changed:
            self.channel = channel
            taken: list[Received] = []
            while self._came and len(taken) < most:
                one = self._came.popleft()
                if one.hidden_until - time.monotonic() > FRESH:
                    taken.append(one)
            return taken

    def fetch(self, channel: Channel, most: int, fetch: Fetch) -> list[Received]:
        """What SQS answers within a moment. As long as it owes an answer, nobody else waits for one; and if that was
        that there is nothing, nobody has heard of it yet."""
        if self._unanswered or self._was_empty:
            self._was_empty = False
            return []
        answered, wanted = threading.Event(), min(max(most, self.appetite), AT_ONCE)
        threading.Thread(
            target=self._fetch, args=(fetch, wanted, answered), name=f"holdfast-sqs-{channel.name}-fetch", daemon=True
        ).start()
        if not answered.wait(ANSWERED):
            with self._changed:
                if not answered.is_set():
                    self._unanswered.add(answered)
        return self.take(channel, most)

    def _fetch(self, fetch: Fetch, most: int, answered: threading.Event) -> None:
        try:
            self._keep(fetch(most))
        except Exception as problem:
            log.warning("fetching from SQS for %s: %s; it goes on", self.channel.name, problem)
        finally:
            with self._changed:
                answered.set()
                is_late = answered in self._unanswered
                self._unanswered.discard(answered)
                self._was_empty = is_late and not self._came
            if is_late:
                self.stir()

    def _keep(self, received: Sequence[Received]) -> None:
        """For whoever takes next. Who asks again so soon is quick, and gets more the next time."""
        with self._changed:
            now = time.monotonic()
            self.appetite = min(AT_ONCE, 2 * self.appetite) if now - self._fetched < QUICK else 1
            self._fetched = now
            if not self._over:
                self._came.extend(received)
                return
        self._give_back(list(received))

    @property
    def owes(self) -> bool:
        """Whether SQS owes an answer that somebody has waited for."""
        return bool(self._unanswered)

    def wait(self, seconds: float) -> None:
        """Until the poll brings something, for so long at most."""
        with self._changed:
            self._changed.wait_for(lambda: self._came or self._over, seconds)

    def want(self, most: int, poke: Poke) -> None:
        """There is nothing: whoever wants it is poked when something comes."""
        with self._changed:
            self.is_quiet = not self._came
            self._wanted = max(self._wanted, most)
            self._pokes.add(poke)
            self._changed.notify_all()

    def stir(self) -> None:
        """Something is there, or on its way."""
        with self._changed:
            self.is_quiet = False
            pokes, self._pokes = self._pokes, set()
        for poke in pokes:
            poke()

    def rest(self, seconds: float) -> None:
        """What comes leads to nothing at the moment."""
        self._rest_until = time.monotonic() + seconds

    def _run(self) -> None:
        while self._wait():
            try:
                self._poll()
            except DeliveryFailed:
                continue
            except Exception:
                log.exception("polling SQS for %s failed; it goes on", self.channel.name)
                self.rest(UNCLAIMABLE)

    def _wait(self) -> bool:
        """Until someone wants something; False at the end. What nobody wants for long is given back."""
        while True:
            with self._changed:
                rest = max(self._rest_until - time.monotonic(), self._messages.trouble(self.channel).receiving.left())
                if self._over:
                    return False
                if self._wanted and rest <= 0:
                    return True
                self._changed.wait(min(1.0, max(rest, 0.01)) if self._wanted else 1.0)
                hoarded = self._take_hoarded()
            self._give_back(hoarded)

    def _poll(self) -> None:
        began = time.monotonic()
        found = self._messages.receive(self.channel, min(self._wanted, AT_ONCE), LONG_POLL)
        if not found:
            self.rest(began + SHORTEST_POLL - time.monotonic())
        with self._changed:
            self._came.extend(found)
            self._changed.notify_all()
            self._wanted = max(0, self._wanted - len(found)) if found else self._wanted
            is_over = self._over
        if is_over:
            self._give_back(list(found))
        elif found:
            self.stir()

    def _take_hoarded(self) -> list[Received]:
        now, old = time.monotonic(), []
        while self._came and now - self._came[0].came_at > HOARDED:
            old.append(self._came.popleft())
        if old:
            self._wanted = 0
        return old

    def _give_back(self, received: list[Received]) -> None:
        if received:
            self._messages.give_back(self.channel, received)


class ReceiverSeat:
    """A worker's place at the courier's: who gets nothing here is poked when something comes."""

    def __init__(self, courier: ProcessCourier, poke: Poke) -> None:
        self._courier = courier
        self._poke = poke

    def attend(self, channel: Channel) -> None:
        """SQS has to do with a queue of this worker: with its pointers, or its deaths."""
        self._courier.attend(channel)

    def take(self, channel: Channel, most: int) -> list[Received]:
        """Pointers of a queue that have come."""
        return self._courier.round(channel).take(channel, most)

    def is_quiet(self, channel: Channel) -> bool:
        """Whether it is not worth asking SQS."""
        return self._courier.round(channel).is_quiet

    def owes(self, channel: Channel) -> bool:
        """Whether something may come at any moment that was asked for."""
        return self._courier.round(channel).owes

    def wait(self, channel: Channel, seconds: float) -> None:
        """Until something comes, for so long at most."""
        self._courier.round(channel).wait(seconds)

    def want(self, channel: Channel, most: int) -> None:
        """Nothing was there: poke when something is."""
        self._courier.round(channel).want(most, self._poke)

    def fetch(self, channel: Channel, most: int, fetch: Fetch) -> list[Received]:
        """What there is in SQS, if it says so within a moment."""
        return self._courier.round(channel).fetch(channel, most, fetch)

    def again(self, channel: Channel) -> None:
        """What came led to nothing, and there may be more."""
        self._poke()

    def rest(self, channel: Channel) -> None:
        """The pointers of a queue lead to nothing at the moment."""
        self._courier.round(channel).rest(UNCLAIMABLE)


class ProcessCourier:
    """All of a process. `is_awake` says whether any of its workers does not hibernate."""

    def __init__(self, hf: Holdfast, is_awake: Callable[[], bool]) -> None:
        self._parts = internals(hf)
        self._is_awake = is_awake
        self._messages = internals(hf).transport.through_sqs()
        self._rounds: dict[int, Round] = {}
        self._attended: dict[int, Channel] = {}
        self._look_at = 0.0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._bell: Waiter | None = None
        self._thread: threading.Thread | None = None

    def attend(self, channel: Channel) -> None:
        """From now on it is looked after: lost pointers, untold deaths."""
        self._attended[channel.id] = channel
        if self._thread is None:
            with self._lock:
                self._open()

    def round(self, channel: Channel) -> Round:
        """That of a queue; the first who asks begins it."""
        return self._rounds.get(channel.id) or self._begin(channel)

    def stop(self) -> None:
        """End, without waiting for SQS for more than a moment."""
        with self._lock:
            self._over.set()
            sender, self._thread = self._thread, None
        if self._bell is not None:
            self._bell.poke()
        for one in list(self._rounds.values()):
            one.stop()
        if sender is not None:
            self._messages.end_beside()
            sender.join(SENDER_ENDS_WITHIN)  # The client may be closed next, and its file removed.

    def _open(self) -> None:
        if self._thread is None and not self._over.is_set():
            self._messages.begin_beside()
            self._thread = threading.Thread(target=self._run, name="holdfast-sqs-sender", daemon=True)
            self._thread.start()

    def _begin(self, channel: Channel) -> Round:
        with self._lock:
            if channel.id not in self._rounds:
                self._rounds[channel.id] = Round(self._messages, channel)
                if self._over.is_set():
                    self._rounds[channel.id].stop()
                self._rounds[channel.id].start()
                self._open()
                if self._bell is not None:
                    self._bell.poke()
            return self._rounds[channel.id]

    def _run(self) -> None:
        with self._parts.bells.borrowed() as bell:
            self._bell = bell
            while not self._over.is_set():
                try:
                    self._turn(bell)
                except HoldfastError as problem:  # Its sleep looks into the database, too.
                    if not self._over.is_set():
                        log.warning("handing over to SQS: %s; it goes on", problem)
                        self._over.wait(SOON)
            self._bell = None

    def _turn(self, bell: Waiter) -> None:
        """Hands over all that is due, then sleeps until there is more."""
        channels = [self._refresh(one) for one in list(self._rounds.values())]
        nap = min(self._look_after(), LONGEST_NAP if self._is_awake() else SAFETY_NAP)
        for channel in channels:
            nap = min(nap, self._send_safely(channel))
            rest = self._messages.trouble(channel).sending.left()
            nap = min(nap, rest) if rest > 0 else nap
        if not self._over.is_set():
            bell.wait([channel.id for channel in channels], max(nap, SHORTEST_NAP))

    def _refresh(self, one: Round) -> Channel:
        """Where its pointers go may have changed."""
        try:
            one.channel = self._parts.catalog.channel(one.channel.name)
        except HoldfastError as problem:
            if not self._over.is_set():
                log.warning("handing over to SQS: %s; it goes on", problem)
        return one.channel

    def _look_after(self) -> float:
        """Now and then, whoever sleeps: a lost pointer wakes nobody. After how many seconds it is time again."""
        now, every = time.monotonic(), min(SAFETY_NAP, send.PATIENCE)
        if now >= self._look_at:
            self._look_at = now + every
            self._messages.aftercare.look_after(list(self._attended.values()))
        return self._look_at - now

    def _send_safely(self, channel: Channel) -> float:
        """After how many seconds there may be more without a bell."""
        try:
            return self._send(channel)
        except DeliveryFailed:
            return SAFETY_NAP
        except HoldfastError as problem:
            if not self._over.is_set():
                log.warning("handing over to SQS: %s; it goes on", problem)
        except Exception:
            if not self._over.is_set():
                log.exception("handing over to SQS failed; it goes on")
        return 1.0

    def _send(self, channel: Channel) -> float:
        """All that is due of a queue."""
        if self._messages.trouble(channel).sending.left() > 0:
            return SAFETY_NAP
        while not self._over.is_set():
            sent = self._messages.hand_over(channel, send.BATCH)
            if sent.count:
                self._rounds[channel.id].stir()
            if not sent.is_current:
                return SOON
            if not sent.more:
                break
        due = self._parts.store.reads.next_due([channel])
        if due is not None and due <= 0:
            self._parts.claiming.sweep([channel], self._parts.worker)
        return SAFETY_NAP if due is None else max(due, SHORTEST_NAP)
