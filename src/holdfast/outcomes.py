"""What a handler may raise to say how its message goes on."""

from __future__ import annotations

from holdfast.core.duration import Duration


class Outcome(Exception):
    """An end of an attempt that is neither a result nor an error."""


class Retry(Outcome):
    """Try it again, after the queue's backoff or `after`; the attempt counts."""

    def __init__(self, reason: str = "", *, after: Duration | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.after = after


class Snooze(Outcome):
    """Not yet: try it again after `delay`, as if nothing had happened."""

    def __init__(self, delay: Duration) -> None:
        super().__init__(delay)
        self.delay = delay


class Cancel(Outcome):
    """Nobody needs this message any more."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class DeadLetter(Outcome):
    """No retry will change it: bury the message now."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
