"""python -m bench.fleet: a thousand workers on one PostgreSQL, simulated from what one machine's calls cost.

Nothing here was run with a thousand workers. The costs are measured (`--measure`), the rest is assumed: the calls of
one queue take their turn, because one cursor is one lock; the server's cores are shared by all; SQS answers after a
fixed time and gives each pointer to one of those who wait. Handlers take a fixed time, messages come at random, and
every worker works on one at a time.
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

LOOK_EVERY = 5.0
"""Seconds after which a sleeper looks by itself."""

WARM_UP = 10.0
"""Seconds of a simulation whose messages do not count."""


@dataclass(frozen=True)
class Costs:
    """Seconds of the database's time, as measured on the machine of docs/benchmarks.md."""

    enqueue: float = 0.00075
    empty_claim: float = 0.00092
    claim: float = 0.00131
    per_message: float = 0.0000023
    hand_over: float = 0.00176
    pointer_claim: float = 0.00170
    settle: float = 0.00157
    per_row: float = 0.000145


@dataclass(frozen=True)
class Fleet:
    """What is simulated."""

    workers: int
    rate: float
    handler: float
    delivery: str = "database"
    batch: int = 1
    enqueuers: int = 4
    seconds: float = 40.0
    cores: int = 2
    sqs_call: float = 0.015
    costs: Costs = field(default_factory=Costs)


@dataclass(frozen=True)
class Figures:
    """What came of it."""

    done: float
    p50: float
    p99: float
    busy: float
    empty: float
    backlog: int


class Database:
    """Calls wait for a core; those of the one lane also for each other."""

    def __init__(self, cores: int) -> None:
        self._free = [0.0] * cores
        self._lane = 0.0
        self.worked = 0.0

    def call(self, now: float, cost: float, *, lane: bool = False) -> float:
        """When a call that comes now is answered."""
        begin = max(now, heapq.heappop(self._free), self._lane if lane else 0.0)
        end = begin + cost
        heapq.heappush(self._free, end)
        if lane:
            self._lane = end
        self.worked += cost
        return end


class Simulation:
    """Events in the order of their time."""

    def __init__(self, fleet: Fleet, seed: int = 1) -> None:
        self.fleet = fleet
        self.costs = fleet.costs
        self.database = Database(fleet.cores)
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._random = random.Random(seed)
        self._waiting: deque[float] = deque()
        self._asleep: dict[int, int] = {}
        self._naps = 0
        self._latencies: list[float] = []
        self._empty = 0
        self._is_rung = False
        self._pointers: deque[list[float]] = deque()
        self._handing_over = 0

    def run(self) -> Figures:
        self._at(self._random.expovariate(self.fleet.rate), self._arrive)
        begin = self._claim if self.fleet.delivery == "database" else self._poll
        for worker in range(self.fleet.workers):
            self._at(self._random.random() * LOOK_EVERY, lambda worker=worker: begin(worker))  # type: ignore[misc]
        while self._events and self._events[0][0] < self.fleet.seconds:
            self.now, _, act = heapq.heappop(self._events)
            act()
        found = sorted(self._latencies) or [float("nan")]
        span = self.fleet.seconds - WARM_UP
        return Figures(
            done=len(self._latencies) / span,
            p50=found[len(found) // 2],
            p99=found[len(found) * 99 // 100],
            busy=self.database.worked / (self.fleet.seconds * self.fleet.cores),
            empty=self._empty / self.fleet.seconds,
            backlog=len(self._waiting) + sum(map(len, self._pointers)),
        )

    def _at(self, when: float, act: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (when, self._count, act))

    def _arrive(self) -> None:
        self._at(self.now + self._random.expovariate(self.fleet.rate), self._arrive)
        stored = self.database.call(self.now, self.costs.enqueue)
        came = self.now
        self._at(stored, lambda: self._store(came))

    def _store(self, came: float) -> None:
        self._waiting.append(came)
        if self.fleet.delivery == "sqs":
            self._hand_over()
        elif not self._is_rung:
            self._is_rung = True
            self._at(self.now + 0.002, self._ring)

    # --- delivered by the database ------------------------------------------------------------------------------------

    def _ring(self) -> None:
        """Everyone who sleeps hears it."""
        self._is_rung = False
        woken, self._asleep = self._asleep, {}
        for worker in woken:
            self._claim(worker)

    def _claim(self, worker: int) -> None:
        found = [self._waiting.popleft() for _ in range(min(self.fleet.batch, len(self._waiting)))]
        cost = self.costs.claim + len(found) * self.costs.per_message if found else self.costs.empty_claim
        answered = self.database.call(self.now, cost, lane=True)
        if found:
            self._work(worker, found, answered, self._claim)
        else:
            self._empty += 1
            self._at(answered, lambda: self._sleep(worker))

    def _sleep(self, worker: int) -> None:
        if self._waiting:  # It came while this one was looking.
            self._claim(worker)
            return
        self._naps += 1
        nap = self._asleep[worker] = self._naps
        self._at(self.now + LOOK_EVERY, lambda: self._look(worker, nap))

    def _look(self, worker: int, nap: int) -> None:
        if self._asleep.get(worker) == nap:
            del self._asleep[worker]
            self._claim(worker)

    def _work(self, worker: int, found: Sequence[float], begin: float, then: Callable[[int], None]) -> None:
        for place, came in enumerate(found):
            if came > WARM_UP:
                self._latencies.append(begin + place * self.fleet.handler - came)
        self._at(begin + len(found) * self.fleet.handler, lambda: then(worker))

    # --- delivered through SQS ----------------------------------------------------------------------------------------

    def _hand_over(self) -> None:
        if self._handing_over >= self.fleet.enqueuers or not self._waiting:
            return
        self._handing_over += 1
        some = [self._waiting.popleft() for _ in range(min(100, len(self._waiting)))]
        cost = self.costs.hand_over + len(some) * self.costs.per_row
        sent = self.database.call(self.now, cost) + self.fleet.sqs_call * ((len(some) + 9) // 10)
        self._at(sent, lambda: self._confirm(some, cost))

    def _confirm(self, some: Sequence[float], cost: float) -> None:
        self._at(self.database.call(self.now, cost), self._go_on)
        self._deliver(some)

    def _go_on(self) -> None:
        self._handing_over -= 1
        self._hand_over()

    def _deliver(self, some: Sequence[float]) -> None:
        self._pointers.extend([one] for one in some)
        while self._pointers and self._asleep:
            worker = next(iter(self._asleep))
            del self._asleep[worker]
            self._poll(worker)

    def _poll(self, worker: int) -> None:
        found = [self._pointers.popleft()[0] for _ in range(min(self.fleet.batch, len(self._pointers)))]
        if not found:
            self._asleep[worker] = 0
            return
        self._at(self.now + self.fleet.sqs_call, lambda: self._receive(worker, found))

    def _receive(self, worker: int, found: Sequence[float]) -> None:
        claimed = self.database.call(self.now, self.costs.pointer_claim + len(found) * self.costs.per_row)
        self._work(worker, found, claimed, self._settle)

    def _settle(self, worker: int) -> None:
        settled = self.database.call(self.now, self.costs.settle + self.fleet.batch * self.costs.per_row)
        self._at(settled + self.fleet.sqs_call, lambda: self._poll(worker))


def table(fleets: Sequence[Fleet]) -> str:
    """As the documentation has it."""
    lines = [
        "| delivery | workers | handler | arriving | done | wait p50 | p99 | database | empty claims |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for fleet in fleets:
        got = Simulation(fleet).run()
        told = [
            fleet.delivery,
            f"{fleet.workers:,}",
            f"{fleet.handler:g} s",
            f"{fleet.rate:,.0f} /s",
            f"{got.done:,.0f} /s",
            f"{got.p50 * 1000:,.0f} ms",
            f"{got.p99 * 1000:,.0f} ms",
            f"{got.busy:.0%}",
            f"{got.empty:,.0f} /s",
        ]
        lines.append(f"| {' | '.join(told)} |")
    return "\n".join(lines)


FLEETS = [
    Fleet(workers, rate, handler, delivery)
    for workers, rate, handler in (
        (10, 50, 0.1),
        (100, 50, 0.1),
        (100, 500, 0.1),
        (1_000, 5, 1.0),
        (1_000, 50, 1.0),
        (1_000, 300, 1.0),
        (1_000, 600, 1.0),
    )
    for delivery in ("database", "sqs")
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true", help="measure this machine's costs first, and use them")
    if parser.parse_args().measure:
        from bench.fleet_costs import measured

        costs = measured()
        print(costs)
        print(table([Fleet(f.workers, f.rate, f.handler, f.delivery, costs=costs) for f in FLEETS]))
    else:
        print(table(FLEETS))


if __name__ == "__main__":
    main()
