"""Actors that take turns: each runs alone until it comes to a step, and chance says who goes on.

An actor is a greenlet. It gives way before and after every statement that it sends to the database, and wherever the
code under test would sleep. Time is virtual: it moves a little with every turn, and jumps when everybody sleeps. So a
seed decides everything that happens, and the same seed makes it happen again.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from greenlet import getcurrent, greenlet

from tests.clock import FakeClock

SECOND = 1_000_000
TURN = 40_000
SLOW_TURN = 3 * SECOND
"""Microseconds that pass at most between two turns, most of the time and now and then."""


class Killed(BaseException):
    """kill -9: what was on its way is never heard of again."""


class Actor:
    """Something with a thread of its own in the real world."""

    def __init__(self, name: str, script: Callable[[Actor], None]) -> None:
        self.name = name
        self.wakes_at = 0
        self.is_dead = False
        self.has_ended = False
        self.waits_for: object = None
        """What it asked of the server, and has not got because of a lock that someone else holds."""
        self._script = script
        self.greenlet = greenlet(self._live)

    def _live(self) -> None:
        try:
            self._script(self)
        except Killed:
            pass
        finally:
            self.has_ended = True


class Scheduler:
    """Who goes next, and when."""

    def __init__(self, clock: FakeClock, chance: Random, is_waiting: Callable[[Actor], bool]) -> None:
        self.clock = clock
        self.chance = chance
        self._is_waiting = is_waiting
        self.actors: list[Actor] = []
        self.current: Actor | None = None
        self.turns = 0
        self._main = getcurrent()

    def spawn(self, name: str, script: Callable[[Actor], None]) -> Actor:
        """One more; it begins when it is first chosen."""
        actor = Actor(name, script)
        self.actors.append(actor)
        return actor

    def step(self) -> None:
        """In an actor: gives way."""
        actor = self.current
        if actor is None:
            return
        if not actor.is_dead:
            self._main.switch()
        if actor.is_dead:
            raise Killed

    def sleep(self, seconds: float) -> None:
        """In an actor: gives way until then. Elsewhere: time passes."""
        if self.current is None:
            self.clock.now += round(seconds * SECOND)
            return
        self.current.wakes_at = self.clock.now + round(seconds * SECOND)
        self.step()

    def kill(self, actor: Actor) -> None:
        """It ends where it stands; an open transaction is rolled back, as the database does for a dead process."""
        actor.is_dead = True
        if actor.greenlet:
            self.current = actor
            actor.greenlet.throw(Killed)
            self.current = None
        actor.has_ended = True

    def run(self, between: Callable[[], None]) -> None:
        """Until everybody has ended. `between` two turns, anything may happen to anyone."""
        while alive := [actor for actor in self.actors if not actor.has_ended]:
            able = [actor for actor in alive if not self._is_waiting(actor)]
            ready = [actor for actor in able if actor.wakes_at <= self.clock.now]
            if not ready:
                self.clock.now = min((actor.wakes_at for actor in able), default=self.clock.now)
                continue
            self.turns += 1
            self.clock.now += self.chance.randrange(1, SLOW_TURN if self.chance.random() < 0.05 else TURN)
            self.current = self.chance.choice(ready)
            self.current.greenlet.switch()
            self.current = None
            between()
