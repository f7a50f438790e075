"""What a handler may raise to say how its message is to end. Anything else that it raises is a failure: try again."""

from __future__ import annotations

from datetime import datetime

from holdfast.core.duration import Duration, seconds
from holdfast.core.times import given


class Outcome(Exception):
    """A decision of the handler about its message, not an error of the program."""


class Retry(Outcome):
    """The attempt failed: once more, `after` this long or after the queue's backoff; dead when attempts are used up.

    >>> raise Retry("5m", reason="the mail server is busy")
    Traceback (most recent call last):
    holdfast.worker.outcomes.Retry: the mail server is busy
    """

    def __init__(self, after: Duration | None = None, *, reason: str = "") -> None:
        super().__init__(reason or "the handler asked for another try")
        self.after = None if after is None else seconds(after, "after")


class Snooze(Outcome):
    """Not now: again `until` a moment, or after so long, and no attempt is spent.

    >>> raise Snooze("1h")
    Traceback (most recent call last):
    holdfast.worker.outcomes.Snooze: later, in 3600 s
    """

    def __init__(self, until: Duration | datetime) -> None:
        self.until = until if isinstance(until, datetime) else seconds(until, "until")
        if isinstance(until, datetime):
            given(until, "until")
            super().__init__(f"later, at {until.isoformat()}")
        else:
            super().__init__(f"later, in {self.until:g} s")

    def delay(self, now: int) -> float:
        """Seconds from `now`, microseconds since 1970 on the database's clock."""
        if isinstance(self.until, datetime):
            return max(0.0, (given(self.until, "until") - now) / 1_000_000)
        return self.until


class Cancel(Outcome):
    """Nobody needs this any more: the message ends as canceled, without a dead letter.

    >>> raise Cancel("the account is gone")
    Traceback (most recent call last):
    holdfast.worker.outcomes.Cancel: the account is gone
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "the handler canceled it")


class DeadLetter(Outcome):
    """It will never work: a dead letter now, whatever attempts are left.

    >>> raise DeadLetter("no such address")
    Traceback (most recent call last):
    holdfast.worker.outcomes.DeadLetter: no such address
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason or "the handler gave up on it")


class GaveUp(DeadLetter):
    """The message has spent its budget or its time, or its handler does the same thing again and again."""


class BudgetSpent(Snooze):
    """The queue's budget is spent and the queue is paused; the message goes back, and no attempt is spent.

    `is_first` is True if this report has paused the queue; its owner has a notice of that.
    """

    def __init__(self, reason: str, *, is_first: bool) -> None:
        super().__init__(0)
        self.args = (reason,)
        self.is_first = is_first
