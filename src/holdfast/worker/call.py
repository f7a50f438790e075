"""Calling a handler: what stands around it, and what has to be true before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.budgets import spend_reports
from holdfast.client import settlements
from holdfast.client.client import internals
from holdfast.commitments.rules import Commitment, CommitmentResult, failed_text
from holdfast.errors import ProgramFailed
from holdfast.worker.consumer import Consumer, Middleware
from holdfast.worker.context import Context

if TYPE_CHECKING:
    from holdfast.client.client import Holdfast

Call = Callable[[Context], Any]

NOTHING: list[Commitment] = []


def how_to_call(hf: Holdfast, consumer: Consumer) -> Call:
    """The handler with everything around it, as one function; awaited if the handler is."""
    if consumer.is_async:
        from holdfast.worker.executors.asyncio import awaited

        call = awaited(consumer)
    else:
        call = _plain(consumer)
    for middleware in reversed([*internals(hf).consumers.middleware_for(consumer), *consumer.middleware]):
        call = _around(middleware, call)
    return call


def _plain(consumer: Consumer) -> Call:
    if consumer.isolation == "process":
        from holdfast.worker.executors.process import call_in_process

        return _checked(consumer, call_in_process)
    handler = consumer.handler
    if consumer.wants_context:
        return _checked(consumer, lambda context: handler(context.claim.message, context))
    checked = _checked(consumer, lambda context: handler(context.claim.message))

    def call(context: Context) -> Any:
        claim = context.claim
        message = claim.message
        if message.raw_headers is None and context.begun is None and not claim.channel.spec.commitments:
            return handler(message)  # There is nothing to look at before and after.
        return checked(context)

    return call


def _checked(consumer: Consumer, handler: Call) -> Call:
    def call(context: Context) -> Any:
        promises = before(consumer, context)
        result = handler(context)
        if promises:
            verify(consumer, context, promises, result)
        return result

    return call


def _around(middleware: Middleware, call: Call) -> Call:
    return lambda context: middleware(context, lambda: call(context))


def before(consumer: Consumer, context: Context) -> list[Commitment]:
    """What has to be checked when the handler is done; refuses to begin what has used up its time."""
    claim = context.claim
    if context.begun is not None:
        spend_reports.check(claim, context.begun)
    if claim.message.raw_headers is None and not claim.channel.spec.commitments:
        return NOTHING
    from holdfast.worker.commitment_checks import commitments_of

    return commitments_of(claim.channel.spec.commitments, claim.message, consumer.trust_commitments)


def verify(consumer: Consumer, context: Context, promises: list[Commitment], result: Any) -> None:
    """Done is not complete: what was promised is checked here, outside of the handler, and kept."""
    from holdfast.worker.commitment_checks import check_done
    from holdfast.worker.programs.exec_handler import ExecHandler

    claim, hf, handler = context.claim, consumer.hf, consumer.handler
    around: dict[str, Any] = {"secrets": (hf.settings.url,)}
    if isinstance(handler, ExecHandler):
        around = {"env": handler.env, "cwd": handler.cwd, "secrets": handler.secrets}
    [settlement] = settlements.acked([claim])

    def keep(results: list[CommitmentResult]) -> None:
        if not internals(hf).store.commitments.keep(settlement, results):
            settlements.refuse([claim])

    context.is_checking = True
    results = check_done(promises, claim.message, context, result, on_checked=keep, **around)
    if words := failed_text(results):
        raise ProgramFailed(words)
