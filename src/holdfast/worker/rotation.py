"""Whose turn it is: the order in which a consumer takes messages from its queues."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import TypeVar

POLICIES = ("round_robin", "weighted", "strict", "random")

Item = TypeVar("Item")

LONGEST_LOOK = 4
"""So many turns per queue are looked ahead, at most, to find one of each."""


class Rotation:
    """Turns over some queues, one message each, by a policy. `strict` has no turns: it never looks past a queue that
    has work.

    Weighted turns are spread evenly: with weights 3 and 1 the first queue has three turns in four, never more than
    three in a row. Round robin is the same with equal weights, until an attachment brings one of its own.
    """

    def __init__(self, policy: str, weights: Mapping[str, float], chance: Callable[[], float] = lambda: 0.0) -> None:
        self.policy = policy
        self._weights = dict(weights)
        self._credit = dict.fromkeys(self._weights, 0.0)
        self._chance = chance
        self._is_even = len(set(self._weights.values())) <= 1
        self._circle = deque(self._weights)

    @property
    def names(self) -> list[str]:
        """The queues, in the order in which they were given."""
        return list(self._weights)

    @property
    def has_turns(self) -> bool:
        """Whether there are several queues that share the work."""
        return self.policy != "strict" and len(self._weights) > 1

    def copy(self) -> Rotation:
        """One that goes on in the same way, without changing this one."""
        other = Rotation(self.policy, self._weights, self._chance)
        other._credit, other._circle = dict(self._credit), self._circle.copy()
        return other

    def turn(self, among: Collection[str] | None = None) -> str:
        """The queue whose turn it is, of all or of these."""
        names: Collection[str] = self._weights if among is None else among
        if self.policy == "random":
            return list(names)[min(int(self._chance() * len(names)), len(names) - 1)]
        if self._is_even:
            return self._next_of_circle(names)
        credit = self._credit
        for name in names:
            credit[name] += self._weights[name]
        chosen = max(names, key=credit.__getitem__)
        credit[chosen] -= sum([self._weights[name] for name in names])
        return chosen

    def _next_of_circle(self, names: Collection[str]) -> str:
        while True:
            name = self._circle[0]
            self._circle.rotate(-1)
            if name in names:
                return name


class QueueRotation:
    """Puts messages of several queues in the order of their turns.

    A turn is used when its message is begun, not when it is claimed: what is handed back keeps its turn. A queue whose
    turn it is and that has nothing ready holds up the others, unless it is known to be dry.
    """

    def __init__(self, rotation: Rotation) -> None:
        self.rotation = rotation
        self._next: deque[str] = deque()
        self._log: list[str] = []
        self._places: list[int] = []
        self.awaited: str | None = None
        """The queue whose turn it is, if nothing of it is there and it is not known to be dry."""

    def shares(self, turns: int, stock: Mapping[str, Collection[object]]) -> dict[str, int]:
        """How many messages of each queue the next turns need beyond what is there; those that come first are first.
        Every queue is in it, so that others can stand in for one that is dry."""
        self._draw(turns)
        wanted = Counter(islice(self._next, turns))
        needs = {name: max(0, wanted[name] - len(stock.get(name, ()))) for name in dict.fromkeys(self._next)}
        return needs | {name: 0 for name in self.rotation.names if name not in needs}

    def arrange(self, stock: Mapping[str, deque[Item]], dry: Collection[str]) -> list[Item]:
        """Takes from the stock, turn by turn, until it is empty, or a queue is `awaited` that may have work."""
        self._log, self._places, self.awaited = [], [], None
        taken: list[Item] = []
        left = sum([len(stock.get(name, ())) for name in self.rotation.names])
        while left and (self._next or not dry):
            if not self._next:
                self._next.append(self.rotation.turn())
            name = self._next[0]
            waiting = stock.get(name)
            if not waiting and name not in dry:
                self.awaited = name
                return taken
            self._log.append(self._next.popleft())
            if waiting:
                self._places.append(len(self._log) - 1)
                taken.append(waiting.popleft())
                left -= 1
        if left:
            self._arrange_the_rest(taken, stock, dry, left)
        return taken

    def _arrange_the_rest(
        self, taken: list[Item], stock: Mapping[str, deque[Item]], dry: Collection[str], left: int
    ) -> None:
        """Turns without the dry queues. They are not remembered: when these have work again, they count again."""
        rotation = self.rotation.copy()
        wet = [name for name in rotation.names if name not in dry or stock.get(name)]
        while left:
            name = rotation.turn(wet)
            if waiting := stock.get(name):
                self._places.append(len(self._log))
                taken.append(waiting.popleft())
                left -= 1
            elif name in dry:
                wet.remove(name)
            else:
                self.awaited = name
                return

    def give_back(self, count: int) -> None:
        """The last ones that were arranged were not begun."""
        count = min(count, len(self._places))
        if count:
            place = self._places[-count]
            self._next.extendleft(reversed(self._log[place:]))
            del self._log[place:], self._places[-count:]

    def _draw(self, turns: int) -> None:
        """So many turns are known from here on, and if possible one of each queue."""
        lacking = set(self.rotation.names).difference(self._next)
        most = max(turns, LONGEST_LOOK * len(self.rotation.names))
        while len(self._next) < turns or (lacking and len(self._next) < most):
            name = self.rotation.turn()
            lacking.discard(name)
            self._next.append(name)
