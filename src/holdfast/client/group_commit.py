"""Group commit: concurrent calls of one verb share a transaction, and a lone call pays for nothing.

A caller puts its items on the list. If nobody leads, it leads: it serves everyone who is on the list by then, and
hands the lead to the first of those who came in the meantime. Everybody else sleeps until served or asked to lead.
There is no thread of its own, so a caller alone commits inline.

Waiting for the lead counts as waiting for the database. Who leads asks it with the patience that the longest waiting of
those served has left; when that ends, the others are served again, as long as they have patience themselves.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from holdfast.errors import Unavailable
from holdfast.store import fork_safety
from holdfast.store.interrupt_shield import shielded
from holdfast.store.patience import spent

Item = TypeVar("Item")
Answer = TypeVar("Answer")

MOST_AT_ONCE = 10_000
"""How many items one shared transaction takes; a single call with more still gets a transaction to itself."""

USED_UP = 0.75
"""The part of its patience after which a call is not served again. The store ends a little before all of it is over."""


class _Ticket(Generic[Item, Answer]):
    """One call's items, and what became of them."""

    __slots__ = ("answers", "items", "problem")

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.answers: list[Answer] = []
        self.problem: BaseException | None = None


class _Caller(Generic[Item, Answer]):
    """Someone who waits, with one ticket or several."""

    __slots__ = ("again", "bell", "leads", "served", "since", "size", "tickets")

    def __init__(self, calls: Sequence[Sequence[Item]], since: float, again: bool) -> None:
        self.tickets: list[_Ticket[Item, Answer]] = [_Ticket(items) for items in calls]
        self.since = since
        self.again = again
        self.size = sum(len(items) for items in calls)
        self.served = False
        self.leads = False
        self.bell = threading.Lock()
        self.bell.acquire()


class Gather(fork_safety.Guarded, Generic[Item, Answer]):
    """One verb of the store, called by many at once. A call waits for at most `patience` seconds, in line or served."""

    def __init__(
        self, apply: Callable[[Sequence[Item]], list[Answer]], patience: float = threading.TIMEOUT_MAX
    ) -> None:
        self._apply = apply
        self.patience = patience
        self._lock = threading.Lock()
        self._has_leader = False
        self._waiting: deque[_Caller[Item, Answer]] = deque()
        fork_safety.guard(self)

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
    def call_each(
        self, calls: Sequence[Sequence[Item]], since: float | None = None, again: bool = False
    ) -> list[list[Answer] | BaseException]:
        """Several calls at once; an answer or a problem for each.

        They have waited `since` then; `again` says that an earlier try of some of them had an unknown outcome.
        """
        caller: _Caller[Item, Answer] = _Caller(calls, time.monotonic() if since is None else since, again)
        with self._lock:
            self._waiting.append(caller)
            caller.leads = not self._has_leader
            self._has_leader = True
        if not caller.leads and not self._sleep(caller):
            return [Unavailable(f"it was not this call's turn for {self.patience:g} s; nothing was asked")] * len(calls)
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

    def _sleep(self, caller: _Caller[Item, Answer]) -> bool:
        """Until served or asked to lead; False if patience ended before."""
        try:
            if not caller.bell.acquire(timeout=max(0.0, caller.since + self.patience - time.monotonic())):
                with self._lock:
                    if caller in self._waiting and not caller.leads:
                        self._waiting.remove(caller)
                        return False
                caller.bell.acquire()  # It is being served, by one whose patience ends no later.
        except BaseException:  # Ctrl-C: nobody may wait for one who is gone.
            with self._lock:
                if caller in self._waiting:
                    self._waiting.remove(caller)
                if caller.leads:
                    self._pass_on()
            raise
        return True

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
        waited = time.monotonic() - min(caller.since for caller in callers)
        served = callers
        try:
            with spent(waited, any(caller.again for caller in callers)):
                self._answer(tickets)
            served = self._put_back_the_patient(callers)
        except BaseException:
            for ticket in tickets:  # Ctrl-C hit the one who leads; the others only learn that nothing is certain.
                ticket.problem = Unavailable("the call was interrupted; it may or may not have happened")
            raise
        finally:
            for caller in served:
                caller.served = True
                if not caller.leads:
                    caller.bell.release()

    def _put_back_the_patient(self, callers: list[_Caller[Item, Answer]]) -> list[_Caller[Item, Answer]]:
        """After an end of patience that was another one's: first in line are those who have some left. Returns the
        others."""
        over = time.monotonic() - self.patience * USED_UP
        if min(caller.since for caller in callers) > over:
            return callers
        left = [
            caller
            for caller in callers
            if not caller.leads
            and caller.since > over
            and all(isinstance(ticket.problem, Unavailable) for ticket in caller.tickets)
        ]
        for caller in left:
            caller.again = True
            for ticket in caller.tickets:
                ticket.problem = None
        with self._lock:
            self._waiting.extendleft(reversed(left))
        return [caller for caller in callers if caller not in left]

    def _answer(self, tickets: list[_Ticket[Item, Answer]]) -> None:
        try:
            answers = self._apply([item for ticket in tickets for item in ticket.items])
        except Exception as problem:
            # One caller's bad item must not fail the others; only a database that is away fails all of them.
            if len(tickets) == 1 or isinstance(problem, Unavailable):
                for ticket in tickets:
                    ticket.problem = problem
            else:
                self._answer_one_by_one(tickets)
            return
        start = 0
        for ticket in tickets:
            ticket.answers = answers[start : start + len(ticket.items)]
            start += len(ticket.items)

    def _answer_one_by_one(self, tickets: list[_Ticket[Item, Answer]]) -> None:
        away: BaseException | None = None
        for ticket in tickets:
            if away is None:
                self._answer([ticket])
                away = ticket.problem if isinstance(ticket.problem, Unavailable) else None
            else:
                ticket.problem = away
