"""What is known of a message, in words and in the order in which it happened."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from holdfast.core.lifecycle import WAITING, State
from holdfast.core.message import MessageStatus
from holdfast.core.moments import utc


def retry_state(status: MessageStatus, now: int) -> str:
    """What will happen to it next, for people."""
    if status.state in WAITING:
        return _waiting(status, now)
    if status.state is State.PROCESSING:
        return f"attempt {status.attempts} is under way, leased until {moment(status.until or utc(now))}"
    if status.state is State.DEAD:
        return f"gave up after {_attempts(status.attempts)}; replay its dead letter to try again"
    if status.state is State.SUCCEEDED:
        return f"done after {_attempts(status.attempts)}; nothing more will happen"
    return f"{status.state} after {_attempts(status.attempts)}; nothing more will happen"


def timeline(status: MessageStatus) -> list[dict[str, Any]]:
    """From the enqueue through the attempts that failed to the end."""
    begin = [{"event": "enqueued", "at": status.enqueued_at}]
    failures = [
        {
            "event": "failed",
            "at": one.at,
            "attempt": one.attempt,
            "worker": one.worker,
            "error": one.error,
            "traceback": one.traceback,
        }
        for one in status.history
    ]
    end = [{"event": str(status.state), "at": status.finished_at}] if status.finished_at is not None else []
    return begin + failures + end


def moment(at: datetime) -> str:
    """A time as people write it."""
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _waiting(status: MessageStatus, now: int) -> str:
    is_due = status.due_at_us is None or status.due_at_us <= now
    when = "is due, and waits for a consumer" if is_due else f"is due at {moment(status.due_at or utc(now))}"
    if not status.attempts:
        return f"the first attempt {when}"
    return f"attempt {status.attempts} failed; the next one {when}"


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"
