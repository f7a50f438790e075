"""Events of a worker: how the begin and the end of a claim are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast import events
from holdfast.core.lifecycle import LifecycleEvent
from holdfast.events import Listeners, MessageEvent

if TYPE_CHECKING:
    from holdfast.worker.call import Call
    from holdfast.worker.context import Context
    from holdfast.worker.worker import Worker

KINDS: dict[LifecycleEvent, type[MessageEvent]] = {
    LifecycleEvent.ACKED: events.MessageSucceeded,
    LifecycleEvent.FAILED: events.MessageFailed,
    LifecycleEvent.DIED: events.MessageDied,
    LifecycleEvent.SNOOZED: events.MessageSnoozed,
    LifecycleEvent.CANCELED: events.MessageCanceled,
    LifecycleEvent.RELEASED: events.MessageReleased,
}


def tell(listeners: Listeners, kind: type[MessageEvent], worker: Worker, context: Context, **more: Any) -> None:
    """Of something that happened to a message, if anyone wants to hear."""
    if listeners.want(kind):
        claim = context.claim
        listeners.tell(
            kind(
                consumer=worker.consumer.name,
                worker=worker.id,
                queue=claim.queue,
                id=claim.message.id,
                attempt=claim.attempt,
                **more,
            )
        )


def told(listeners: Listeners, worker: Worker, call: Call) -> Call:
    """The same call of a handler, told of when it begins, if anyone wants to hear."""
    if not listeners.want(events.MessageStarted):
        return call

    def tell_and_call(context: Context) -> Any:
        tell(listeners, events.MessageStarted, worker, context)
        return call(context)

    return tell_and_call


def tell_end(listeners: Listeners, worker: Worker, context: Context) -> None:
    """Of how a claim has ended."""
    settlement = context.settlement
    kind = KINDS[settlement.event if settlement is not None else LifecycleEvent.ACKED]
    if not listeners.want(kind):
        return
    more: dict[str, Any] = {}
    if kind in (events.MessageSucceeded, events.MessageFailed, events.MessageDied):
        more["seconds"] = context.took
    if settlement is not None and settlement.failure is not None:
        more["reason" if kind is events.MessageCanceled else "error"] = settlement.failure.error
        if kind in (events.MessageFailed, events.MessageDied):
            more["traceback"] = settlement.failure.traceback
    if kind in (events.MessageFailed, events.MessageSnoozed):
        assert settlement is not None, "only an ack has none"
        more["delay"] = settlement.delay / 1_000_000
    tell(listeners, kind, worker, context, **more)
