"""The thread that does the duties, if this process leads; otherwise it waits until the leader is gone."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from holdfast.client.client import internals
from holdfast.client.validate import SWEEP_LIMIT
from holdfast.errors import HoldfastError
from holdfast.worker.maintenance.duties import DUTIES

if TYPE_CHECKING:
    from holdfast.client.client import Holdfast

log = logging.getLogger("holdfast")

TERM = 10.0
"""Seconds that a leader leads without a word."""

LOOK_EVERY = 1.0
PAUSE = 0.01
"""Seconds between two turns of a duty that has more to do: others want the database too."""

SAFETY = 60.0
"""Seconds after which it looks even if everyone here sleeps, and nothing is due that it knows of."""

LEADING = "leading"

Done = TypeVar("Done")


class Keeper:
    """`slumber` is None while anyone here is awake, and otherwise another number after every time that someone was.

    While all sleep it asks the database once what comes next by the clock, and then nothing until that is due.
    """

    def __init__(self, hf: Holdfast, worker: str, slumber: Callable[[], int | None]) -> None:
        self._hf = hf
        self._worker = worker
        self._slumber = slumber
        self._asleep: int | None = None
        self._wakes = 0.0
        self._due = dict.fromkeys(DUTIES, 0.0)
        self._leads = False
        self._over = threading.Event()
        self._failing: dict[str, tuple[float, str]] = {}
        self.turned_at = time.monotonic()
        """When it last began with something: one duty makes few calls, each of which ends in time."""
        self._thread = threading.Thread(target=self._run, name="holdfast-maintenance", daemon=True)

    @property
    def name(self) -> str:
        """What it is called in logs."""
        return self._thread.name

    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends, and lets someone else lead."""
        self._over.set()
        self._thread.join(timeout=2.0)

    @property
    def is_asleep(self) -> bool:
        """Whether it asks nothing until the next thing is due, or someone here wakes up."""
        return self._asleep is not None and self._asleep == self._slumber()

    def trouble(self) -> str | None:
        """What has kept it from its work for a while; None if it works."""
        since, words = min(list(self._failing.values()), default=(math.inf, None))
        return None if time.monotonic() - since < TERM else words

    def _run(self) -> None:
        wait = 0.0
        while not self._over.wait(wait):
            wait = self._safely(LEADING, self._look, LOOK_EVERY)
        if self._leads:
            self._step_down()

    def _look(self) -> float:
        """One round; seconds until the next. Before it falls asleep, and when it wakes up, it does what is due."""
        slumber = self._slumber()
        if slumber is None or slumber != self._asleep or time.monotonic() >= self._wakes:
            if self._keep():
                return PAUSE
            if slumber is not None:
                self._wakes = self._next_due()
            self._asleep = slumber
        return LOOK_EVERY if slumber is None else min(LOOK_EVERY, max(PAUSE, self._wakes - time.monotonic()))

    def _next_due(self) -> float:
        """When the clock next has something to do; in a while, if it should have been done by now."""
        tenant, store = self._hf.settings.tenant, internals(self._hf).store
        known = [due for due in (store.schedules.next_due(tenant), store.sagas.next_due(tenant)) if due is not None]
        due = min(known, default=SAFETY)
        return time.monotonic() + (LOOK_EVERY if due <= 0 else min(due, SAFETY))

    def _keep(self) -> bool:
        """Does what is due, if this process leads; whether a duty has more to do than it did."""
        self._leads = internals(self._hf).store.leaders.lead(*self._office, round(TERM * 1_000_000))
        if not self._leads:
            self._failing.clear()
        return self._leads and self._do_what_is_due()

    def _do_what_is_due(self) -> bool:
        is_behind = False
        for duty, due in self._due.items():
            if time.monotonic() >= due and not self._over.is_set():
                more = self._safely(duty.name, partial(duty.turn, self._hf), 0) >= SWEEP_LIMIT
                self._due[duty] = 0.0 if more else time.monotonic() + duty.every
                is_behind = is_behind or more
        return is_behind

    def _safely(self, name: str, work: Callable[[], Done], otherwise: Done) -> Done:
        """Whatever goes wrong with one duty, the others are done. It is told of once."""
        self.turned_at = time.monotonic()
        try:
            done = work()
        except Exception as problem:
            unexpected = None if isinstance(problem, HoldfastError) else problem
            if name not in self._failing:
                log.warning("maintenance (%s): %s; it goes on as soon as it can", name, problem, exc_info=unexpected)
            since, _ = self._failing.get(name, (time.monotonic(), ""))
            self._failing[name] = (since, str(problem))
            return otherwise
        self._failing.pop(name, None)
        return done

    def _step_down(self) -> None:
        try:
            internals(self._hf).store.leaders.step_down(*self._office)
        except HoldfastError as problem:
            log.warning("maintenance: %s", problem)

    @property
    def _office(self) -> tuple[str, str, str]:
        return self._hf.settings.tenant, "maintenance", self._worker
