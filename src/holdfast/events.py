"""What happens while consumers work, as values: `hf.on(MessageFailed, callback)`.

Told after it has been stored, on the thread that stored it; a callback should be quick, and its errors are only logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import msgspec

log = logging.getLogger("holdfast")


class RuntimeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened. `consumer` is the declared name, `worker` the one at work."""

    consumer: str
    worker: str


class MessageEvent(RuntimeEvent, frozen=True, kw_only=True):
    """Something that happened to a message."""

    queue: str
    id: str
    attempt: int


class MessageStarted(MessageEvent, frozen=True, kw_only=True):
    """A handler begins."""


class MessageSucceeded(MessageEvent, frozen=True, kw_only=True):
    """The handler returned, and the ack is stored. `seconds` is how long the handler took."""

    seconds: float


class MessageFailed(MessageEvent, frozen=True, kw_only=True):
    """The attempt failed, and the message comes again after `delay` seconds."""

    error: str
    traceback: str | None = None
    delay: float
    seconds: float


class MessageDied(MessageEvent, frozen=True, kw_only=True):
    """The last attempt failed, or another makes no sense: there is a dead letter."""

    error: str
    traceback: str | None = None
    seconds: float


class MessageSnoozed(MessageEvent, frozen=True, kw_only=True):
    """The handler wants it later."""

    delay: float


class MessageCanceled(MessageEvent, frozen=True, kw_only=True):
    """The handler found that nobody needs it, for the `reason` that it gave."""

    reason: str


class MessageReleased(MessageEvent, frozen=True, kw_only=True):
    """Handed back without having been begun."""


class MessageLost(MessageEvent, frozen=True, kw_only=True):
    """The lease was gone when its end was to be stored; someone else has the message, or it was canceled."""


class HandlerStopped(MessageEvent, frozen=True, kw_only=True):
    """A handler was told to stop: its lease was lost, its time was over, or the process ends."""

    reason: str


class ConsumerStarted(RuntimeEvent, frozen=True, kw_only=True):
    """A consumer begins to claim."""

    queues: list[str]


class ConsumerStopped(RuntimeEvent, frozen=True, kw_only=True):
    """A consumer has ended. `reason` is "stopped", or "empty" if it was to end when there is nothing to do."""

    reason: str


class PoolScaled(RuntimeEvent, frozen=True, kw_only=True):
    """A pool gets more or fewer consumers: this supervisor has started some, or drains some, so that `before` become
    `wanted`."""

    pool: str
    before: int
    wanted: int


class MemberCrashed(RuntimeEvent, frozen=True, kw_only=True):
    """A consumer of a pool has ended as it should not."""

    pool: str
    words: str


class PoolGaveUp(RuntimeEvent, frozen=True, kw_only=True):
    """A pool whose consumers only crash is left alone, but for one consumer that is tried every few minutes."""

    pool: str
    error: str


class DeadTaskEvent(RuntimeEvent, frozen=True, kw_only=True):
    """A death in a queue with `dead_events`, told after it is stored, where consumers run by a thread beside them.
    `worker` tells of it, `worker_id` failed."""

    consumer: str = ""
    queue: str
    task_id: str
    worker_id: str
    attempt_count: int
    max_attempts: int
    error: str
    traceback: str | None
    timestamp: datetime


class GroupEvent(RuntimeEvent, frozen=True, kw_only=True):
    """Something that happened to a group of a topic. `worker` is the client that found out; there is no consumer."""

    consumer: str = ""
    topic: str
    group: str


class GroupDied(GroupEvent, frozen=True, kw_only=True):
    """Nothing was heard of the group for its timeout: nothing is kept for it any more."""


class GroupRevived(GroupEvent, frozen=True, kw_only=True):
    """The group was dead and is alive again. Until someone decides about `missing` messages it claims nothing."""

    missing: int


class GroupOutOfRange(GroupEvent, frozen=True, kw_only=True):
    """The topic's retention removed `lost` messages that the group had not claimed."""

    lost: int


Happened = TypeVar("Happened", bound=RuntimeEvent)
Listener = Callable[[Any], object]


class Listeners:
    """Who wants to hear of what."""

    def __init__(self) -> None:
        self._listeners: dict[type[RuntimeEvent], list[Listener]] = {}

    def add(self, kind: type[RuntimeEvent], listener: Listener) -> None:
        """Also hears of all kinds below this one."""
        for below in _with_subclasses(kind):
            self._listeners.setdefault(below, []).append(listener)

    def __bool__(self) -> bool:
        """Whether anyone wants to hear of anything."""
        return bool(self._listeners)

    def want(self, kind: type[RuntimeEvent]) -> bool:
        """Whether it is worth making one."""
        return kind in self._listeners

    def tell(self, event: RuntimeEvent) -> None:
        """Everyone who wants to hear of it."""
        for listener in self._listeners.get(type(event), ()):
            try:
                listener(event)
            except Exception:
                log.exception("a listener for %s failed", type(event).__name__)


def _with_subclasses(kind: type[RuntimeEvent]) -> list[type[RuntimeEvent]]:
    return [kind, *(below for child in kind.__subclasses__() for below in _with_subclasses(child))]
