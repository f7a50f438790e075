"""Calling a handler: what stands around it, and what has to be true before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast import effort
from holdfast.core.commitments import failed_text
from holdfast.errors import ProgramFailed
from holdfast.runtime.consumer import Consumer, Middleware
from holdfast.runtime.context import Context

if TYPE_CHECKING:
    from holdfast.client import Holdfast

Call = Callable[[Context], Any]


def how_to_call(hf: Holdfast, consumer: Consumer) -> Call:
    """The handler with everything around it, as one function; awaited if the handler is."""
    if consumer.is_async:
        from holdfast.runtime.loop import awaited

        call = awaited(consumer)
    else:
        call = _plain(consumer)
    for middleware in reversed([*hf._middleware_for(consumer), *consumer.middleware]):
        call = _around(middleware, call)
    return call


def _plain(consumer: Consumer) -> Call:
    handler = consumer.handler
    wants_context = consumer.wants_context

    def call(context: Context) -> Any:
        before(context)
        message = context.claim.message
        result = handler(message, context) if wants_context else handler(message)
        if has_promises(context):
            verify(consumer, context, result)
        return result

    return call


def _around(middleware: Middleware, call: Call) -> Call:
    return lambda context: middleware(context, lambda: call(context))


def before(context: Context) -> None:
    """Refuses to begin what has used up its time."""
    if context.begun is not None:
        effort.check(context.claim, context.begun)


def has_promises(context: Context) -> bool:
    """Whether there may be commitments to check; of most messages it is known at once that there are none."""
    return context.claim.message.raw_headers is not None or bool(context.claim.channel.spec.commitments)


def verify(consumer: Consumer, context: Context, result: Any) -> None:
    """Done is not complete: what was promised is checked here, outside of the handler, and kept."""
    from holdfast.runtime.commitments import check_done, commitments_of

    claim, hf = context.claim, consumer.hf
    commitments = commitments_of(claim.channel.spec.commitments, claim.message, consumer.trust_commitments)
    if not commitments:
        return
    results = check_done(commitments, claim.message, context, result, secrets=(hf.settings.url,))
    hf.store.commitments.keep(claim.lease.group, claim.message.raw_id, claim.attempt, results)
    if words := failed_text(results):
        raise ProgramFailed(words)
