"""What happens to messages of a saga's steps: noted where it happens, dealt with in `sagas.move_on`."""

from __future__ import annotations

from typing import Protocol

import msgspec

from holdfast.core.message import Failure, MessageId


class StepEnding(msgspec.Struct, frozen=True):
    """How a message of a step has ended. With `final`, sending it again would not help."""

    saga: str
    id: MessageId
    succeeded: bool
    output: bytes | None = None
    error: str = ""
    traceback: str | None = None
    final: bool = False
    who: str | None = None
    attempt: int | None = None
    repeated: bool = False
    unknown: bool = False


class FailedAttempt(msgspec.Struct, frozen=True):
    """A message of a step goes on after an attempt that failed, or ended without an answer (`unknown`)."""

    saga: str
    failure: Failure
    attempt: int
    unknown: bool = False


class StepReturned(msgspec.Struct, frozen=True):
    """A message of a step that was to be withdrawn is not claimed any more, and no attempt was made."""

    saga: str


Happening = StepEnding | FailedAttempt | StepReturned


class _Transaction(Protocol):
    endings: list[Happening]


def attempt_failed(
    tx: _Transaction, saga: str | None, failure: Failure, attempt: int, *, unknown: bool = False
) -> None:
    """It is tried again, unless its saga does not want it any more."""
    if saga is not None:
        tx.endings.append(FailedAttempt(saga, failure, attempt, unknown))


def returned(tx: _Transaction, saga: str | None) -> None:
    """It was released or snoozed."""
    if saga is not None:
        tx.endings.append(StepReturned(saga))


def succeeded(
    tx: _Transaction,
    saga: str | None,
    message_id: MessageId,
    output: bytes | None,
    who: str,
    attempt: int,
    repeated: bool,
) -> None:
    """Its handler is through; if `repeated`, because there was nothing left to do."""
    if saga is not None:
        ending = StepEnding(saga, message_id, True, output, who=who, attempt=attempt, repeated=repeated)
        tx.endings.append(ending)


def failed(
    tx: _Transaction,
    saga: str | None,
    message_id: MessageId,
    why: Failure | str,
    *,
    final: bool = False,
    attempt: int | None = None,
    unknown: bool = False,
) -> None:
    """Nobody will do it any more: an attempt was the last, or nobody has to (`why` is text).

    If its outcome is `unknown`, somebody may have done it.
    """
    if saga is None:
        return
    if isinstance(why, str):
        ending = StepEnding(saga, message_id, False, error=why, final=final, attempt=attempt, unknown=unknown)
    else:
        error, traceback, who = why.error, why.traceback, why.worker
        ending = StepEnding(saga, message_id, False, None, error, traceback, final, who, attempt, unknown=unknown)
    tx.endings.append(ending)
