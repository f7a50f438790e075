"""What happened to a message, in the order in which it happened."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from holdfast.core.lifecycle import State
from holdfast.core.message import MessageStatus


def timeline(status: MessageStatus) -> list[dict[str, Any]]:
    """From the enqueue through the attempts that failed, each with its claim, to the claim that it is in or was ended
    by, and its end."""
    steps: list[dict[str, Any]] = [{"event": "enqueued", "at": status.enqueued_at}]
    for one in status.history:
        if one.claimed_at is not None:
            steps.append(_claimed(one.claimed_at, one.attempt, one.worker))
        steps.append(
            {
                "event": "failed",
                "at": one.at,
                "attempt": one.attempt,
                "worker": one.worker,
                "error": one.error,
                "traceback": one.traceback,
            }
        )
    if status.claimed_at is not None and not _is_told(status):
        steps.append(_claimed(status.claimed_at, status.attempts, status.worker))
    if status.finished_at is not None:
        steps.append({"event": str(status.state), "at": status.finished_at})
    return steps


def _claimed(at: datetime, attempt: int, worker: str | None) -> dict[str, Any]:
    return {"event": "claimed", "at": at, "attempt": attempt, "worker": worker}


def _is_told(status: MessageStatus) -> bool:
    """Whether the last claim is that of the last failure: a death, or a handler that canceled its message."""
    ended = status.state in (State.DEAD, State.CANCELED)
    return ended and bool(status.history) and status.history[-1].claimed_at_us == status.claimed_at_us
