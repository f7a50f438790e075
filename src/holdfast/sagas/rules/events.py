"""What can happen to a saga, and what has to be done about it."""

from __future__ import annotations

from typing import Any

import msgspec


class Begin(msgspec.Struct, frozen=True):
    """It was started, `delay` microseconds before it is to begin."""

    delay: int = 0
    who: str | None = None


class MessageEnded(msgspec.Struct, frozen=True):
    """A message of a step has ended. With `final`, sending it again would not help.

    `repeated` says that what it stands for had been done before, under the same key, and was not done again; `unknown`
    that it ended without an answer, so that it may have been done.
    """

    step: int
    undo: bool
    id: str
    succeeded: bool
    output: Any = None
    error: str = ""
    final: bool = False
    who: str | None = None
    attempt: int | None = None
    repeated: bool = False
    traceback: str | None = None
    unknown: bool = False


class AttemptFailed(msgspec.Struct, frozen=True):
    """An attempt at a message of a step has failed, or ended without an answer (`unknown`); there may be another."""

    step: int
    undo: bool
    error: str
    who: str | None = None
    attempt: int | None = None
    traceback: str | None = None
    unknown: bool = False


class MessageReturned(msgspec.Struct, frozen=True):
    """A message that was to be withdrawn is not claimed any more, and no attempt was made."""

    step: int


class Tick(msgspec.Struct, frozen=True):
    """Time has passed."""


class Signal(msgspec.Struct, frozen=True):
    """Something happened outside."""

    name: str
    data: Any = None
    who: str | None = None


class CancelSaga(msgspec.Struct, frozen=True):
    """Nobody wants it any more."""

    reason: str | None = None
    who: str | None = None


class RetryStep(msgspec.Struct, frozen=True):
    """An operator: try the step, or its undo, once more."""

    step: int
    who: str | None = None


class SkipStep(msgspec.Struct, frozen=True):
    """An operator: go on without the step, or without its undo."""

    step: int
    reason: str
    who: str | None = None


class MarkDone(msgspec.Struct, frozen=True):
    """An operator: the step, or its undo, was done by hand."""

    step: int
    output: Any = None
    who: str | None = None


Event = (
    Begin
    | MessageEnded
    | AttemptFailed
    | MessageReturned
    | Tick
    | Signal
    | CancelSaga
    | RetryStep
    | SkipStep
    | MarkDone
)


class Send(msgspec.Struct, frozen=True):
    """A message of a step is to be sent, `delay` microseconds from now."""

    step: int
    undo: bool
    number: int
    delay: int = 0


class Withdraw(msgspec.Struct, frozen=True):
    """A message is to end. If it is claimed, its holder is told to stop; the end of the claim says what came of it."""

    step: int
    undo: bool
    group: int
    id: str


class Escalate(msgspec.Struct, frozen=True):
    """Someone has to look."""

    error: str
    traceback: str | None = None


class Relieve(msgspec.Struct, frozen=True):
    """Nobody has to look any more."""

    who: str | None


Effect = Send | Withdraw | Escalate | Relieve


class Note(msgspec.Struct, frozen=True):
    """A line for the history."""

    what: str
    step: int | None = None
    who: str | None = None
    attempt: int | None = None
    error: str | None = None
    output: Any = None
    traceback: str | None = None


def sent_note(send: Send) -> Note:
    """The line for a message that was sent. Which of its step's it is, stands as its attempt."""
    return Note("undo_sent" if send.undo else "sent", send.step, attempt=send.number)


class Move(msgspec.Struct):
    """What came of an event. `accepted` is false where it makes no sense for a saga that is where this one is."""

    effects: list[Effect] = []
    notes: list[Note] = []
    accepted: bool = True
