"""What will happen to a message next, in words."""

from __future__ import annotations

from datetime import datetime

from holdfast.core.lifecycle import WAITING, State
from holdfast.core.message import MessageStatus
from holdfast.core.times import utc


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
