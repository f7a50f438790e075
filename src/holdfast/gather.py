"""Group commit: concurrent calls of one verb share a transaction, and a lone call pays for nothing.

Whoever calls puts its items on the list and waits for its turn. The first to get it serves everyone who is on the list
by then; those who follow find their answer ready. There is no thread of its own, so a caller alone commits inline.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from holdfast.errors import Unavailable
from holdfast.store import forks

Item = TypeVar("Item")
Answer = TypeVar("Answer")

MOST_AT_ONCE = 10_000
"""How many items one shared transaction takes; a single call with more still gets a transaction to itself."""


class _Ticket(Generic[Item, Answer]):
    __slots__ = ("answers", "items", "problem")

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.answers: list[Answer] | None = None
        self.problem: BaseException | None = None

    @property
    def served(self) -> bool:
        return self.answers is not None or self.problem is not None


class Gather(forks.Guarded, Generic[Item, Answer]):
    """One verb of the store, called by many at once."""

    def __init__(self, apply: Callable[[Sequence[Item]], list[Answer]]) -> None:
        self._apply = apply
        self._turn = threading.Lock()
        self._waiting: deque[_Ticket[Item, Answer]] = deque()
        forks.guard(self)

    def call(self, items: Sequence[Item]) -> list[Answer]:
        """The answers for these items, once they are committed."""
        outcome = self.call_each([items])[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def call_each(self, calls: Sequence[Sequence[Item]]) -> list[list[Answer] | BaseException]:
        """Several calls at once; an answer or a problem for each."""
        tickets: list[_Ticket[Item, Answer]] = [_Ticket(items) for items in calls]
        self._waiting.extend(tickets)
        with self._turn:
            while not tickets[-1].served:
                self._serve(self._next_tickets())
        return [ticket.problem or ticket.answers or [] for ticket in tickets]

    def after_fork_in_child(self) -> None:
        """Whoever was waiting is waiting in the parent, and who holds the lock is there too."""
        self._turn = threading.Lock()
        self._waiting = deque()

    def _next_tickets(self) -> list[_Ticket[Item, Answer]]:
        tickets, count = [self._waiting.popleft()], 0
        count += len(tickets[0].items)
        while self._waiting and count + len(self._waiting[0].items) <= MOST_AT_ONCE:
            tickets.append(self._waiting.popleft())
            count += len(tickets[-1].items)
        return tickets

    def _serve(self, tickets: list[_Ticket[Item, Answer]]) -> None:
        try:
            answers = self._apply([item for ticket in tickets for item in ticket.items])
        except Exception as problem:
            self._serve_apart(tickets, problem)
            return
        except BaseException:
            for ticket in tickets:  # Ctrl-C hit the one who serves; the others only learn that nothing is certain.
                ticket.problem = Unavailable("the call was interrupted; it may or may not have happened")
            raise
        start = 0
        for ticket in tickets:
            ticket.answers = answers[start : start + len(ticket.items)]
            start += len(ticket.items)

    def _serve_apart(self, tickets: list[_Ticket[Item, Answer]], problem: Exception) -> None:
        """One caller's bad item must not fail the others; only a database that is away fails all of them."""
        if len(tickets) == 1 or isinstance(problem, Unavailable):
            for ticket in tickets:
                ticket.problem = problem
        else:
            for ticket in tickets:
                self._serve([ticket])
