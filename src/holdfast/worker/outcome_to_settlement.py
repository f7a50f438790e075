"""What a handler did, as the settlement that ends its claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.client import settlements
from holdfast.core.settlement import Settlement
from holdfast.errors import HoldfastError, ProgramFailed
from holdfast.worker.executors.ipc_errors import HandlerFailed
from holdfast.worker.outcomes import Cancel, DeadLetter, Retry, Snooze
from holdfast.worker.stop_reasons import Stop

if TYPE_CHECKING:
    from holdfast.worker.consumer import Consumer
    from holdfast.worker.context import Context


def succeeded(context: Context, result: Any) -> Settlement:
    """It returned: done, with its result and what it wanted to follow."""
    try:
        (settlement,) = settlements.acked([context.claim], result)
    except HoldfastError as problem:
        return failed_with(context, problem)
    settlement.followed_by = context.following
    settlement.receipt, settlement.repeated = context.receipt, context.repeated
    return settlement


def failed(consumer: Consumer, context: Context, problem: BaseException) -> Settlement:
    """It raised. An outcome is a decision; anything else is a failure, for good if the consumer says so."""
    claim = context.claim
    if context.stop is not None and not isinstance(problem, Snooze | Cancel | DeadLetter):
        return stopped(consumer, context, problem)
    match problem:
        case Snooze():
            return settlements.snoozed([claim], problem.delay(context.now()))[0]
        case Cancel():
            return settlements.canceled([claim], str(problem))[0]
        case DeadLetter():
            return settlements.nacked([claim], str(problem), None, permanent=True)[0]
        case Retry():
            return settlements.nacked([claim], str(problem), problem.after, permanent=False)[0]
        case HandlerFailed():
            permanent = problem.is_one_of(consumer.permanent)
            (settlement,) = settlements.nacked([claim], problem.trouble, None, permanent=permanent)
            settlement.unknown = problem.crashed
            return settlement
    return settlements.nacked([claim], problem, None, permanent=isinstance(problem, consumer.permanent))[0]


def failed_with(context: Context, problem: BaseException) -> Settlement:
    """The work was done, and could not be recorded as it was meant to be."""
    return settlements.nacked([context.claim], problem, None, permanent=False)[0]


def stopped(consumer: Consumer, context: Context, problem: BaseException) -> Settlement:
    """It had to stop. An attempt that has begun is spent, whoever's fault it was.

    A handler that raised an error of its own has given up. One that was interrupted may have been done before.
    """
    reason = str(context.stop)
    if context.stop is Stop.TIMEOUT:
        reason = f"{Stop.TIMEOUT} after {consumer.timeout:g} s"
    delay = 0 if context.stop is Stop.SHUTDOWN else None
    (settlement,) = settlements.nacked([context.claim], reason, delay, permanent=context.stop is Stop.TIME)
    settlement.unknown = not _gave_up(problem)
    return settlement


def _gave_up(problem: BaseException) -> bool:
    """Whether a handler that was told to stop ended by an error of its own. A program or a process was killed."""
    if isinstance(problem, HandlerFailed):
        return not problem.crashed and not problem.is_one_of([ProgramFailed])
    return isinstance(problem, Exception) and not isinstance(problem, ProgramFailed)
