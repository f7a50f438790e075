"""How SQS behaves: while it refuses, nobody asks it more often than this allows."""

from __future__ import annotations

import time

from holdfast.errors import DeliveryFailed

FIRST_REST, LONGEST_REST = 0.2, 30.0
"""Seconds between two tries while SQS refuses."""


class CircuitBreaker:
    """One kind of calls."""

    def __init__(self) -> None:
        self._failures = 0
        self._since = 0.0
        self._rest_until = 0.0
        self._problem = ""

    def check(self) -> None:
        """Raises what went wrong last, for as long as it is not worth another try."""
        if self.left() > 0:
            raise DeliveryFailed(self._problem)

    def note(self, problem: DeliveryFailed) -> bool:
        """It went wrong again; whether that is news."""
        now = time.monotonic()
        is_news = self._failures == 0
        if is_news:
            self._since = now
        self._failures += 1
        self._problem = str(problem)
        self._rest_until = now + self.rest
        return is_news

    def over(self) -> bool:
        """It went well; whether that is news."""
        was, self._failures, self._rest_until = self._failures, 0, 0.0
        return was > 0

    @property
    def rest(self) -> float:
        """How long to leave SQS alone."""
        return min(LONGEST_REST, FIRST_REST * 2.0 ** min(self._failures, 10))

    def left(self) -> float:
        """For how many seconds SQS is still left alone."""
        return max(0.0, self._rest_until - time.monotonic())

    def lasts(self) -> float:
        """For how many seconds nothing has gone well; 0 if it does."""
        return time.monotonic() - self._since if self._failures else 0.0


class Troubles:
    """Of one queue. SQS may refuse to take while it gives, and the other way round: neither makes the other good."""

    def __init__(self) -> None:
        self.sending = CircuitBreaker()
        self.receiving = CircuitBreaker()
        self.counting = CircuitBreaker()
        """Whoever may not ask how many wait there can work all the same."""

    def check(self) -> None:
        """Raises what went wrong last, as long as it is not worth another try."""
        self.sending.check()
        self.receiving.check()

    def over(self) -> None:
        """Whatever it was."""
        self.sending.over()
        self.receiving.over()
        self.counting.over()

    def left(self) -> float:
        """For how many seconds SQS is still left alone."""
        return max(self.sending.left(), self.receiving.left())

    def lasts(self) -> float:
        """For how many seconds something has not gone well; 0 if everything does."""
        return max(self.sending.lasts(), self.receiving.lasts())
