"""OpenTelemetry, for those who want it: `instrument(hf)` after `pip install 'holdfast[otel]'`.

An enqueue is a span whose place in its trace travels in the headers of the messages (W3C `traceparent` and
`tracestate`); working on one of them is a span below it, whichever process does it and however much later.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from holdfast import events
from holdfast.client.client import Holdfast
from holdfast.client.middleware import Outgoing, Proceed
from holdfast.client.receipts import Receipt
from holdfast.core.message import Message
from holdfast.errors import InvalidInput, shown
from holdfast.worker.context import Context as HandlerContext
from holdfast.worker.outcomes import Cancel, Snooze

try:
    from opentelemetry import metrics, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanKind, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as problem:
    raise ImportError("holdfast.telemetry needs OpenTelemetry: pip install 'holdfast[otel]'") from problem

if TYPE_CHECKING:
    from holdfast.client.async_client import AsyncHoldfast

SCOPE = "holdfast"
CARRIED = ("traceparent", "tracestate")
OUTCOMES: dict[type[events.MessageEvent], str] = {
    events.MessageSucceeded: "succeeded",
    events.MessageFailed: "failed",
    events.MessageDied: "dead",
    events.MessageSnoozed: "snoozed",
    events.MessageCanceled: "canceled",
    events.MessageReleased: "released",
    events.MessageLost: "lost",
}
GROUPS: dict[type[events.GroupEvent], str] = {
    events.GroupDied: "died",
    events.GroupRevived: "revived",
    events.GroupOutOfRange: "out_of_range",
}
SECONDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
"""The bounds that the semantic conventions advise for durations."""

_propagator = TraceContextTextMapPropagator()
_instrumented: weakref.WeakSet[Holdfast] = weakref.WeakSet()


def instrument(
    hf: Holdfast | AsyncHoldfast,
    *,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
) -> None:
    """Traces and measures what this client enqueues and what its consumers do. Call it first, and once.

    Functions that are put around enqueue or execute later run inside of its spans. The providers are OpenTelemetry's
    global ones unless given.
    """
    client = _synchronous(hf)
    if client is None:
        raise InvalidInput(f"hf must be a Holdfast or an AsyncHoldfast, not {shown(hf)}")
    _check(tracer_provider, "tracer_provider", "get_tracer")
    _check(meter_provider, "meter_provider", "get_meter")
    if client in _instrumented:
        raise InvalidInput("this client is instrumented already: every span would be there twice")
    _instrumented.add(client)
    _trace(client, trace.get_tracer(SCOPE, tracer_provider=tracer_provider))
    _measure(client, metrics.get_meter(SCOPE, meter_provider=meter_provider))


def _synchronous(hf: Any) -> Holdfast | None:
    """The client whose verbs an asyncio client awaits; a `Holdfast` is its own."""
    if isinstance(hf, Holdfast):
        return hf
    from holdfast.client.async_client import AsyncHoldfast, async_internals

    return async_internals(hf).hf if isinstance(hf, AsyncHoldfast) else None


def _check(provider: Any, name: str, method: str) -> None:
    if provider is not None and not callable(getattr(provider, method, None)):
        raise InvalidInput(f"{name} must be one of OpenTelemetry's, with {method}(), not {shown(provider)}")


# --- traces -----------------------------------------------------------------------------------------------------------


def _trace(client: Holdfast, tracer: trace.Tracer) -> None:
    @client.around_enqueue
    def enqueue(outgoing: Outgoing, proceed: Proceed) -> list[Receipt]:
        with _producing(tracer, outgoing) as span:
            return _sent(span, outgoing, proceed())

    @client.around_enqueue
    async def enqueue_awaited(outgoing: Outgoing, proceed: Proceed) -> list[Receipt]:
        with _producing(tracer, outgoing) as span:
            return _sent(span, outgoing, await proceed())

    @client.around_execute
    def process(context: HandlerContext, proceed: Proceed) -> Any:
        with _processing(tracer, context):
            return proceed()

    @client.around_execute
    async def process_awaited(context: HandlerContext, proceed: Proceed) -> Any:
        with _processing(tracer, context):
            return await proceed()


@contextmanager
def _producing(tracer: trace.Tracer, outgoing: Outgoing) -> Iterator[Span]:
    """A span around an enqueue. All messages of a batch carry the same place in the trace."""
    attributes = _described("enqueue", "send", outgoing.queue)
    if len(outgoing.bodies) != 1:
        attributes["messaging.batch.message_count"] = len(outgoing.bodies)
    with _span(tracer, f"enqueue {outgoing.queue}", kind=SpanKind.PRODUCER, attributes=attributes) as span:
        outgoing.headers = _with_place(outgoing.headers)
        try:
            yield span
        except BaseException as problem:
            _note_error(span, problem, problem)
            raise


def _with_place(headers: dict[str, Any] | None) -> dict[str, Any] | None:
    """Headers that say where in a trace they were sent; what was forwarded of an older place is replaced."""
    place: dict[str, str] = {}
    _propagator.inject(place)
    if not place:
        return headers
    return {**{name: value for name, value in (headers or {}).items() if name not in CARRIED}, **place}


def _sent(span: Span, outgoing: Outgoing, receipts: list[Receipt]) -> list[Receipt]:
    if span.is_recording():
        # Checked only now: an exporter might choke on what was refused.
        if outgoing.correlation_id is not None:
            span.set_attribute("messaging.message.conversation_id", outgoing.correlation_id)
        if len(receipts) == 1:
            span.set_attribute("messaging.message.id", receipts[0].id)
            span.set_attribute("messaging.holdfast.message.duplicate", receipts[0].duplicate)
    return receipts


@contextmanager
def _processing(tracer: trace.Tracer, context: HandlerContext) -> Iterator[None]:
    """A span around a handler, below the one that enqueued its message."""
    message = context.message
    attributes = _described("process", "process", context.queue)
    attributes["messaging.message.id"] = message.id
    if message.correlation_id is not None:
        attributes["messaging.message.conversation_id"] = message.correlation_id
    attributes["messaging.holdfast.message.attempt"] = context.attempt
    # What is open here is no cause of the message; whoever started the consumers may even have closed it by now.
    here = trace.get_current_span()
    links = [Link(here.get_span_context())] if here.is_recording() else []
    with _span(
        tracer,
        f"process {context.queue}",
        context=_place(message),
        kind=SpanKind.CONSUMER,
        attributes=attributes,
        links=links,
    ) as span:
        try:
            yield
        except BaseException as problem:
            _note_outcome(span, context, problem)
            raise
        span.set_attribute("messaging.holdfast.outcome", "succeeded")


def _span(tracer: trace.Tracer, name: str, **options: Any) -> AbstractContextManager[Span]:
    """The current span of a block. How it fails is noted by us: to snooze is not an error, to be stopped is one."""
    return tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False, **options)


def _place(message: Message) -> Context:
    """Where in a trace it was sent. Anyone may have written its headers: what makes no sense says nothing."""
    try:
        headers = dict(message.headers)
    except Exception:
        return Context()
    return _propagator.extract({name: headers[name] for name in CARRIED if isinstance(headers.get(name), str)})


def _note_outcome(span: Span, context: HandlerContext, problem: BaseException) -> None:
    if isinstance(problem, Snooze | Cancel):
        span.set_attribute("messaging.holdfast.outcome", "snoozed" if isinstance(problem, Snooze) else "canceled")
        return
    span.set_attribute("messaging.holdfast.outcome", "failed")
    _note_error(span, problem, context.stop or problem)


def _note_error(span: Span, problem: BaseException, why: object) -> None:
    kind = type(problem)
    span.set_attribute("error.type", f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."))
    span.set_status(StatusCode.ERROR)
    # An exception that cannot be put into words must not be replaced by the one that says so.
    with suppress(Exception):
        span.set_status(StatusCode.ERROR, str(why))
        span.record_exception(problem)


def _described(name: str, kind: str, queue: str) -> dict[str, str | int]:
    """What the semantic conventions for messaging say about every span."""
    return {
        "messaging.system": "holdfast",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.destination.name": queue,
    }


# --- metrics ----------------------------------------------------------------------------------------------------------


def _measure(client: Holdfast, meter: metrics.Meter) -> None:
    outcomes = meter.create_counter(
        "messaging.holdfast.worker.outcomes", unit="{message}", description="Attempts of consumers, by how they ended."
    )
    duration = meter.create_histogram(
        "messaging.process.duration",
        unit="s",
        description="How long handlers took.",
        explicit_bucket_boundaries_advisory=SECONDS,
    )

    def note(event: events.MessageEvent) -> None:
        about = {
            "messaging.system": "holdfast",
            "messaging.destination.name": event.queue,
            "messaging.consumer.group.name": event.consumer,
            "messaging.holdfast.outcome": OUTCOMES[type(event)],
        }
        outcomes.add(1, about)
        if isinstance(event, events.MessageSucceeded | events.MessageFailed | events.MessageDied):
            duration.record(event.seconds, {"messaging.operation.name": "process", **about})

    for kind in OUTCOMES:
        client.on(kind, note)
    _measure_groups(client, meter)


def _measure_groups(client: Holdfast, meter: metrics.Meter) -> None:
    changes = meter.create_counter(
        "messaging.holdfast.group.changes", unit="{change}", description="Groups that died, came back or lost messages."
    )
    lost = meter.create_counter(
        "messaging.holdfast.group.lost", unit="{message}", description="Messages that went before a group got them."
    )

    def note(event: events.GroupEvent) -> None:
        about = {
            "messaging.system": "holdfast",
            "messaging.destination.name": event.topic,
            "messaging.consumer.group.name": event.group,
            "messaging.holdfast.outcome": GROUPS[type(event)],
        }
        changes.add(1, about)
        if isinstance(event, events.GroupOutOfRange):
            lost.add(event.lost, about)

    for kind in GROUPS:
        client.on(kind, note)
