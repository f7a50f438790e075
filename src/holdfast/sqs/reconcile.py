"""Pointers that got lost in SQS, and deaths that nobody outside was told of: looked for beside the work."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from holdfast.errors import DeliveryFailed, HoldfastError
from holdfast.events import Listeners
from holdfast.sqs import dead_events
from holdfast.sqs.background_calls import BackgroundCalls
from holdfast.sqs.circuit_breaker import CircuitBreaker, Troubles
from holdfast.sqs.counters import Counts
from holdfast.sqs.health import REDRIVE
from holdfast.sqs.lost_pointers import reconcile
from holdfast.sqs.queue import Sqs, SqsQueue
from holdfast.sqs.rules.names import CALLBACK
from holdfast.store.api import Channel, Store

log = logging.getLogger("holdfast")

LOST, DEATHS = "lost pointers", "deaths"


class Aftercare:
    """Of all queues that SQS has to do with. `queue` and `trouble` are those of a channel."""

    def __init__(
        self,
        store: Store,
        sqs: Sqs,
        counts: Counts,
        listeners: Listeners,
        worker: Callable[[], str],
        queue: Callable[[Channel], SqsQueue],
        trouble: Callable[[Channel], Troubles],
    ) -> None:
        self._store = store
        self._sqs = sqs
        self._counts = counts
        self._listeners = listeners
        self._worker = worker
        self._queue = queue
        self._trouble = trouble
        self._event_troubles: dict[str, CircuitBreaker] = {}
        self._known: dict[int, Channel] = {}
        self._looked_at: set[str] = set()
        self.beside: BackgroundCalls[int, str] = BackgroundCalls("aftercare", self._look)

    def look_after(self, channels: Iterable[Channel], *what: str, never_waits: bool = False) -> None:
        """Soon; or at once, where nothing is done beside the work and whoever asks may wait."""
        for channel in channels:
            if channel.spec.reaches_outside:
                self._known[channel.group] = channel
                self.beside.put(channel.group, what or (LOST, DEATHS), never_waits=never_waits)

    def events(self, target: str) -> CircuitBreaker:
        """How SQS behaves for events of deaths that go to one of its queues."""
        return self._event_troubles.setdefault(target, CircuitBreaker())

    def find_lost(self, channel: Channel) -> int:
        """How many pointers are to be sent again."""
        trouble = self._trouble(channel)
        if channel.spec.has_lanes or max(trouble.left(), trouble.counting.left()) > 0:
            return 0
        try:
            found = reconcile(self._store, channel, self._queue(channel))
        except DeliveryFailed as problem:
            self._counts.add(channel.name, "failures")
            if trouble.counting.note(problem):
                log.warning("%s; lost pointers of %s are looked for later", problem, channel.name)
            return 0
        trouble.counting.over()
        self._counts.add(channel.name, "sent_again", found)
        return found

    def tell(self, channel: Channel) -> int:
        """How many deaths were told."""
        target = channel.spec.dead_events
        if target is None or self.events(target).left() > 0:
            return 0
        try:
            found = dead_events.tell(self._store, self._sqs, self._listeners, self._worker(), channel)
        except DeliveryFailed as problem:
            self._counts.add(channel.name, "failures")
            if self.events(target).note(problem):
                log.warning("an event of a death in %s was not sent: %s; it is tried again", channel.name, problem)
            return 0
        if target != CALLBACK and found:
            self.events(target).over()
        self._counts.add(channel.name, "dead_events", found)
        return found

    def look(self, channel: Channel, what: Iterable[str] = (LOST, DEATHS)) -> int:
        """Now; how many. What SQS refuses is tried again later."""
        if LOST in what:
            self._warn_once(channel)
        found = self.find_lost(channel) if LOST in what else 0
        return found + (self.tell(channel) if DEATHS in what else 0)

    def _warn_once(self, channel: Channel) -> None:
        """Of a redrive policy, which moves pointers away that are still worth something."""
        if channel.spec.has_lanes or self._trouble(channel).left() > 0:
            return
        queue = self._queue(channel)
        if queue.name in self._looked_at:
            return
        self._looked_at.add(queue.name)
        try:
            redrive = queue.state().redrive
        except DeliveryFailed as problem:
            log.warning("%s; whether it has a redrive policy is not known", problem)
            return
        if redrive is not None:
            log.warning("the SQS queue %s of %s has a redrive policy. %s", queue.name, channel.name, REDRIVE)

    def _look(self, group: int, what: list[str]) -> None:
        channel = self._known[group]
        try:
            self.look(channel, what)
        except HoldfastError as problem:
            log.warning("looking after pointers and deaths of %s: %s; it goes on", channel.name, problem)
