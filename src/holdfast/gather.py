"""Group commit: concurrent calls of one verb share a transaction, and a lone call pays for nothing.

A caller puts its items on the list. If nobody leads, it leads: it serves everyone who is on the list by then, and
hands the lead to the first of those who came in the meantime. Everybody else sleeps until served or asked to lead.
There is no thread of its own, so a caller alone commits inline.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from holdfast.errors import Unavailable
from holdfast.store import forks
from holdfast.store.shielding import shielded

Item = TypeVar("Item")
Answer = TypeVar("Answer")

MOST_AT_ONCE = 10_000
"""How many items one shared transaction takes; a single call with more still gets a transaction to itself."""


class _Ticket(Generic[Item, Answer]):
    """One call's items, and what became of them."""

    __slots__ = ("answers", "items", "problem")

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.answers: list[Answer] = []
        self.problem: BaseException | None = None


class _Caller(Generic[Item, Answer]):
    """Someone who waits, with one ticket or several."""

    __slots__ = ("bell", "leads", "served", "size", "tickets")

    def __init__(self, calls: Sequence[Sequence[Item]]) -> None:
        self.tickets: list[_Ticket[Item, Answer]] = [_Ticket(items) for items in calls]
        self.size = sum(len(items) for items in calls)
        self.served = False
        self.leads = False
        self.bell = threading.Lock()
        self.bell.acquire()


class Gather(forks.Guarded, Generic[Item, Answer]):
    """One verb of the store, called by many at once."""

    def __init__(self, apply: Callable[[Sequence[Item]], list[Answer]]) -> None:
        self._apply = apply
        self._lock = threading.Lock()
        self._has_leader = False
        self._waiting: deque[_Caller[Item, Answer]] = deque()
        forks.guard(self)

    @shielded
    def call(self, items: Sequence[Item]) -> list[Answer]:
        """The answers for these items, once they are committed."""
        with self._lock:
            leads, self._has_leader = not self._has_leader, True
        if leads:
            return self._alone(items)
        outcome = self.call_each([items])[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    @shielded
    def call_each(self, calls: Sequence[Sequence[Item]]) -> list[list[Answer] | BaseException]:
        """Several calls at once; an answer or a problem for each."""
        caller: _Caller[Item, Answer] = _Caller(calls)
        with self._lock:
            self._waiting.append(caller)
            caller.leads = not self._has_leader
            self._has_leader = True
        if not caller.leads:
            self._sleep(caller)
        if not caller.served:
            self._lead(caller)
        return [ticket.problem or ticket.answers for ticket in caller.tickets]

    def _alone(self, items: Sequence[Item]) -> list[Answer]:
        """Nobody else was there: no ticket, no list."""
        try:
            return self._apply(items)
        finally:
            with self._lock:
                self._pass_on()

    def after_fork_in_child(self) -> None:
        """Whoever was waiting is waiting in the parent, and who leads is there too."""
        self._lock = threading.Lock()
        self._has_leader = False
        self._waiting = deque()

    def _sleep(self, caller: _Caller[Item, Answer]) -> None:
        try:
            caller.bell.acquire()
        except BaseException:  # Ctrl-C: nobody may wait for one who is gone.
            with self._lock:
                if caller in self._waiting:
                    self._waiting.remove(caller)
                if caller.leads:
                    self._pass_on()
            raise

    def _lead(self, caller: _Caller[Item, Answer]) -> None:
        try:
            while not caller.served:
                self._serve(self._next_callers())
        finally:
            with self._lock:
                self._pass_on()

    def _pass_on(self) -> None:
        if self._waiting:
            self._waiting[0].leads = True
            self._waiting[0].bell.release()
        else:
            self._has_leader = False

    def _next_callers(self) -> list[_Caller[Item, Answer]]:
        with self._lock:
            callers = [self._waiting.popleft()]
            size = callers[0].size
            while self._waiting and size + self._waiting[0].size <= MOST_AT_ONCE:
                callers.append(self._waiting.popleft())
                size += callers[-1].size
        return callers

    def _serve(self, callers: list[_Caller[Item, Answer]]) -> None:
        tickets = [ticket for caller in callers for ticket in caller.tickets]
        try:
            self._answer(tickets)
        except BaseException:
            for ticket in tickets:  # Ctrl-C hit the one who leads; the others only learn that nothing is certain.
                ticket.problem = Unavailable("the call was interrupted; it may or may not have happened")
            raise
        finally:
            for caller in callers:
                caller.served = True
                if not caller.leads:
                    caller.bell.release()

    def _answer(self, tickets: list[_Ticket[Item, Answer]]) -> None:
        try:
            answers = self._apply([item for ticket in tickets for item in ticket.items])
        except Exception as problem:
            # One caller's bad item must not fail the others; only a database that is away fails all of them.
            if len(tickets) == 1 or isinstance(problem, Unavailable):
                for ticket in tickets:
                    ticket.problem = problem
            else:
                for ticket in tickets:
                    self._answer([ticket])
            return
        start = 0
        for ticket in tickets:
            ticket.answers = answers[start : start + len(ticket.items)]
            start += len(ticket.items)
