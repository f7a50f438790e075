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


class FailedAttempt(msgspec.Struct, frozen=True):
    """A message of a step goes on after an attempt that failed."""

    saga: str
    failure: Failure
    attempt: int


Happening = StepEnding | FailedAttempt


class _Transaction(Protocol):
    endings: list[Happening]


def attempt_failed(tx: _Transaction, saga: str | None, failure: Failure, attempt: int) -> None:
    """It is tried again."""
    if saga is not None:
        tx.endings.append(FailedAttempt(saga, failure, attempt))


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
) -> None:
    """Nobody will do it any more: an attempt was the last, or nobody has to (`why` is text)."""
    if saga is None:
        return
    if isinstance(why, str):
        tx.endings.append(StepEnding(saga, message_id, False, error=why, final=final, attempt=attempt))
        return
    error, traceback, who = why.error, why.traceback, why.worker
    tx.endings.append(StepEnding(saga, message_id, False, None, error, traceback, final, who, attempt))
