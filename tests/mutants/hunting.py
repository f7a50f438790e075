"""Runs the tests that execute a mutant, the quickest first, until one notices."""

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.mutants.covering import Covering
from tests.mutants.place import Place
from tests.mutants.sites import Mutant
from tests.mutants.warm import FOREIGN

FIRST = 30
"""So many tests run first, not more than `OF_ONE_FILE` of a file: most mutants are noticed by almost any of them."""

OF_ONE_FILE = 6
SLACK = 20.0
"""Seconds beyond what a test took when it was recorded, before it counts as hanging."""

NO_TESTS = 5


@dataclass
class Outcome:
    mutant: Mutant
    result: str = "not run"
    """killed, timeout, survived or not covered."""
    killer: str = ""
    reason: str = ""
    covering: int = 0
    """How many tests execute it."""
    ran: int = 0
    seconds: float = 0.0
    by_long: str = ""
    """What the tests that are left to long runs add: killed, timeout, survived, or empty if they did not run."""
    long_killer: str = ""
    tests: list[str] = field(default_factory=list)
    """For a survivor: the tests that ran."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Hunt:
    def __init__(self, covering: Covering, default: list[str], long: list[str], budget: float) -> None:
        self._covering = covering
        self._default = set(default)
        self._removed = [test for test in long if test not in self._default]
        self._budget = budget

    def by_default(self, place: Place, outcome: Outcome, name: str) -> None:
        """Judge a mutant by the default tests."""
        tests = self._affordable(self._covering.tests(outcome.mutant) & self._default)
        outcome.covering = len(self._covering.tests(outcome.mutant) & self._default)
        outcome.result = "survived" if tests else "not covered"
        with place.changed(outcome.mutant):
            for stage, some in enumerate(stages(tests)):
                told = self._run(place, some, f"{name}_{stage}", long=False)
                outcome.ran += told["passed"]
                if told["code"] not in {0, NO_TESTS}:
                    outcome.result, outcome.killer, outcome.reason = verdict(told), told["killer"], told["reason"]
                    return
        outcome.tests = tests

    def by_long(self, place: Place, outcome: Outcome, name: str) -> None:
        """Judge a survivor by the tests that only a long run has."""
        covering = self._covering.tests(outcome.mutant)
        recorded = [test for test in self._removed if test in covering]
        unrecorded = [test for test in self._removed if test not in self._covering.seconds]
        tests = self._affordable([*recorded, *self._covering.related(covering, unrecorded)])
        outcome.by_long = "survived" if tests else "not covered"
        if not tests:
            return
        with place.changed(outcome.mutant):
            told = self._run(place, tests, f"{name}_long", long=True)
        if told["code"] not in {0, NO_TESTS}:
            outcome.by_long, outcome.long_killer = verdict(told), told["killer"]

    def _affordable(self, tests: Sequence[str] | set[str]) -> list[str]:
        """The quickest, as many as the budget allows for, but one at least."""
        order = sorted(tests, key=lambda test: (self._covering.cost(test), test))
        chosen, spent = list[str](), 0.0
        for test in order:
            spent += self._covering.cost(test)
            if chosen and spent > self._budget:
                break
            chosen.append(test)
        return chosen

    def _run(self, place: Place, tests: list[str], name: str, *, long: bool) -> dict[str, Any]:
        costs = [self._covering.cost(test) for test in tests]
        timeout = SLACK + 5 * max(costs)
        told = place.run(tests, name, timeout=timeout, seconds=60 + timeout + 3 * sum(costs), long=long)
        if told["code"] == FOREIGN:
            raise RuntimeError("the tests have imported holdfast from elsewhere than the copy")
        return told


def stages(tests: list[str]) -> list[list[str]]:
    first, of_file = list[str](), Counter[str]()
    for test in tests:
        path = test.partition("::")[0]
        if len(first) < FIRST and of_file[path] < OF_ONE_FILE:
            of_file[path] += 1
            first.append(test)
    early = set(first)
    return [some for some in (first, [test for test in tests if test not in early]) if some]


def verdict(told: dict[str, Any]) -> str:
    hung = told["code"] == -1 or "Timeout (>" in told["reason"]
    return "timeout" if hung else "killed"


Work = Callable[[Place, Outcome, str], None]


def share(places: list[Place], outcomes: list[Outcome], work: Work, until: float, done: Callable[[], None]) -> None:
    """Let every place take the next mutant; none is begun after `until`, a moment of the monotonic clock."""
    waiting: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    for outcome in outcomes:
        waiting.put(outcome)
    failures: list[BaseException] = []
    lock = threading.Lock()

    def serve(number: int, place: Place) -> None:
        count = 0
        try:
            while not failures and time.monotonic() < until:
                outcome = waiting.get_nowait()
                count += 1
                started = time.monotonic()
                work(place, outcome, f"m{number}_{count}")
                outcome.seconds += time.monotonic() - started
                with lock:
                    done()
        except queue.Empty:
            return
        except BaseException as problem:
            failures.append(problem)

    threads = [threading.Thread(target=serve, args=(number, place)) for number, place in enumerate(places)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
