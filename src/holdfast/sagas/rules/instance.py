"""What every move of a saga is made of, and when time has something to do with one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from holdfast.errors import InvalidInput
from holdfast.sagas.rules.declaration import Instance, SagaSpec, SentMessage, Status, StepRecord, StepState
from holdfast.sagas.rules.events import MessageEnded, Move, Note, Send, Withdraw

LATEST = 2**62
"""A time that every database can hold."""

FARTHEST = 10**12
"""Seconds from 1970, in both directions: no calendar goes that far."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def sent(saga: Instance, send: Send, message_id: str, group: int) -> None:
    """A message is on its way."""
    saga.steps[send.step].out.append(SentMessage(message_id, group, send.undo))


def withdrawn(withdraw: Withdraw) -> MessageEnded:
    """A message ends because it was withdrawn: nobody had claimed it."""
    return MessageEnded(withdraw.step, withdraw.undo, withdraw.id, False, error="withdrawn", final=True)


def look_again(saga: Instance, withdraw: Withdraw, at: int | None) -> None:
    """A message could not be withdrawn: when to try again."""
    for one in saga.steps[withdraw.step].out:
        if one.id == withdraw.id:
            one.look = at


def next_due(saga: Instance) -> int | None:
    """When time has something to do with the saga."""
    times = [step.due for step in saga.steps if step.due is not None and step.state is StepState.RUNNING]
    times += [one.look for step in saga.steps for one in step.out if one.look is not None]
    if saga.due is not None and saga.status is Status.PENDING:
        times.append(saga.due)
    return min(times, default=None)


def is_over(spec: SagaSpec, saga: Instance) -> bool:
    """Whether it has ended, and does not wait for what an operator decides."""
    return saga.has_ended and not (spec.on_failure == "stop" and saga.can_resume)


def moment(value: Any) -> int:
    """When `until` is, in microseconds since 1970: seconds since then, or a time as text, as JSON has it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return round(max(-FARTHEST, min(value, FARTHEST)) * 1_000_000)
    try:
        found = datetime.fromisoformat(value)
        if found.tzinfo is not None:
            return round((found - _EPOCH).total_seconds() * 1_000_000)
    except (TypeError, ValueError):
        pass
    raise InvalidInput("it did not come to a number of seconds since 1970, nor to a time with its zone")


def micros(seconds: float) -> int:
    """A time of a definition as the database has it."""
    return round(seconds * 1_000_000)


class Moving:
    """A saga, and what has come of an event so far."""

    def __init__(self, spec: SagaSpec, saga: Instance, now: int) -> None:
        self.spec = spec
        self.saga = saga
        self.now = now
        self.came_of = Move()

    def _complete(self, number: int, output: Any, what: str, who: str | None, attempt: int | None = None) -> None:
        saga, step = self.saga, self.saga.steps[number]
        saga.completed += 1
        step.order, step.undoing, step.undoable, step.withdrawn = saga.completed, False, True, False
        step.unknown = False
        self._end(step, StepState.COMPLETED)
        saga.data[self.spec.steps[number].name] = output
        self._note(what, number, who, attempt, output=output)

    def _withdraw(self, number: int, undo: bool | None = None) -> None:
        """What was sent for a step is not wanted any more; what was about to be is not sent."""
        effects = self.came_of.effects
        effects[:] = [one for one in effects if not (isinstance(one, Send) and one.step == number)]
        for one in self.saga.steps[number].out:
            if not one.unwanted and (undo is None or one.undo == undo):
                one.unwanted = True
                effects.append(Withdraw(number, one.undo, one.group, one.id))

    def _withdraw_again(self, number: int) -> None:
        """What could not be withdrawn before may be free by now."""
        for one in self.saga.steps[number].out:
            if one.unwanted:
                one.look = None
                self.came_of.effects.append(Withdraw(number, one.undo, one.group, one.id))

    def _end(self, step: StepRecord, state: StepState, error: str | None = None, traceback: str | None = None) -> None:
        step.state, step.error, step.due, step.ended_at = state, error, None, self.now
        step.traceback = traceback

    def _finish(self, status: Status) -> None:
        self.saga.status = status
        self._note(status.value, error=None if status is Status.COMPLETED else self.saga.error)

    def _refuse(self) -> None:
        self.came_of.accepted = False

    def _note(
        self,
        what: str,
        step: int | None = None,
        who: str | None = None,
        attempt: int | None = None,
        error: str | None = None,
        output: Any = None,
        traceback: str | None = None,
    ) -> None:
        self.came_of.notes.append(Note(what, step, who, attempt, error, output, traceback))
