"""What goes wrong at statements: the code under test sees errors of its driver, as in the real world.

- busy: the database is locked, or out of reach, for a moment or for longer than the client's patience.
- broken: a statement inside of a transaction fails; nothing of it may remain.
- undone, unheard: the caller of a commit sees an error; it has not happened, or it has.
- killed, and stopped for longer than leases last: at any step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TypeVar

from tests.simulation.scheduler import SECOND, Actor, Scheduler

Result = TypeVar("Result")
Problem = Callable[[], Exception]

PATIENCE = 0.05
"""Seconds that clients wait for a database that is locked or away."""


class Plan:
    """How often what goes wrong; drawn for every seed, so that some have much of one thing and nothing of another."""

    def __init__(self, chance: Random) -> None:
        self.busy = chance.choice((0, 0.02, 0.1))
        self.broken = chance.choice((0, 0, 0.01))
        self.undone = chance.choice((0, 0.02, 0.1))
        self.unheard = chance.choice((0, 0.02, 0.1))
        self.killed = chance.choice((0, 0, 0.005, 0.02))
        self.stopped = chance.choice((0, 0.005, 0.02))
        self.fine = chance.choice((False, False, True))
        """Whether actors give way at every statement, or at the borders of transactions only."""


class Faults:
    """Stands between the actors and their connections."""

    def __init__(self, scheduler: Scheduler, chance: Random, plan: Plan) -> None:
        self.scheduler = scheduler
        self.counts: Counter[str] = Counter()
        self._chance = chance
        self._plan = plan
        self._locked: dict[str, int] = {}
        self._is_healed = False
        self.when_unheard: Callable[[], None] = lambda: None

    def heal(self) -> None:
        """From here on nothing goes wrong."""
        self._is_healed = True

    def between(self, lease: float, crash: Callable[[Actor], None]) -> None:
        """After a turn: someone may be stopped, or killed. Who waits for a lock in the server is left alone."""
        alive = [actor for actor in self.scheduler.actors if not actor.has_ended and not actor.waits_for]
        if not alive:
            return
        if self._happens("killed"):
            actor = self._chance.choice(alive)
            self.scheduler.kill(actor)
            crash(actor)
        elif self._happens("stopped"):
            wait = self._chance.uniform(0.3, 3) * lease
            self._chance.choice(alive).wakes_at = self.scheduler.clock.now + round(wait * SECOND)

    def begin(self, run: Callable[[], Result], busy: Problem) -> Result:
        """The begin of a transaction."""
        actor = self.scheduler.current
        if actor is None:
            return run()
        self.scheduler.step()
        now = self.scheduler.clock.now
        if self._happens("busy"):
            self._locked[actor.name] = now + round(self._chance.uniform(0, 2) * PATIENCE * SECOND)
        if now < self._locked.get(actor.name, 0):
            raise busy()
        return run()

    def within(self, run: Callable[[], Result], broken: Problem) -> Result:
        """A statement inside of one."""
        if self.scheduler.current is None:
            return run()
        if self._plan.fine:
            self.scheduler.step()
        if self._happens("broken"):
            raise broken()
        return run()

    def commit(self, run: Callable[[], Result], unknown: Problem) -> Result:
        """A commit, or a statement that is a transaction by itself."""
        if self.scheduler.current is None:
            return run()
        self.scheduler.step()
        if self._happens("undone"):
            raise unknown()
        result = run()
        if self._happens("unheard"):
            self.when_unheard()
            raise unknown()
        self.scheduler.step()
        return result

    def _happens(self, what: str) -> bool:
        if self._is_healed or self._chance.random() >= getattr(self._plan, what):
            return False
        self.counts[what] += 1
        return True
