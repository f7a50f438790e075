"""The thread that does the duties, if this process leads; otherwise it waits until the leader is gone."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.limits import SWEEP_LIMIT
from holdfast.runtime.maintenance import (
    ageing,
    commands,
    crew,
    deliveries,
    escalation,
    history,
    liveness,
    reaper,
    replies,
    retention,
    sagas,
    schedules,
    wakeups,
)

if TYPE_CHECKING:
    from holdfast.client import Holdfast

log = logging.getLogger("holdfast")

DUTIES: tuple[ModuleType, ...] = (
    reaper,
    ageing,
    history,
    liveness,
    retention,
    escalation,
    schedules,
    sagas,
    crew,
    replies,
    commands,
    deliveries,
    wakeups,
)

TERM = 10.0
"""Seconds that a leader leads without a word."""

LOOK_EVERY = 1.0
PAUSE = 0.01
"""Seconds between two turns of a duty that has more to do: others want the database too."""


class Keeper:
    """`is_needed` says whether anyone here is awake: a process whose consumers all hibernate asks nothing."""

    def __init__(self, hf: Holdfast, worker: str, is_needed: Callable[[], bool]) -> None:
        self._hf = hf
        self._worker = worker
        self._is_needed = is_needed
        self._due = dict.fromkeys(DUTIES, 0.0)
        self._over = threading.Event()
        self._failing: tuple[float, str] | None = None
        self._thread = threading.Thread(target=self._run, name="holdfast-maintenance", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends, and lets someone else lead."""
        self._over.set()
        self._thread.join(timeout=2.0)

    def trouble(self) -> str | None:
        """What has kept it from its work for a while; None if it works."""
        failing = self._failing
        return None if failing is None or time.monotonic() - failing[0] < TERM else failing[1]

    def _run(self) -> None:
        wait, leads = 0.0, False
        while not self._over.wait(wait):
            wait = LOOK_EVERY
            if not self._is_needed():
                continue
            try:
                leads = self._hf.store.leaders.lead(*self._office, round(TERM * 1_000_000))
                if leads and self._do_what_is_due():
                    wait = PAUSE
                self._failing = None
            except HoldfastError as problem:
                self._note(problem)
                log.warning("maintenance: %s; it goes on as soon as it can", problem)
            except Exception as problem:
                self._note(problem)
                log.exception("maintenance failed; it goes on")
        if leads:
            self._step_down()

    def _note(self, problem: Exception) -> None:
        since = time.monotonic() if self._failing is None else self._failing[0]
        self._failing = (since, str(problem))

    def _do_what_is_due(self) -> bool:
        """Whether a duty has more to do than it did."""
        is_behind = False
        for duty, due in self._due.items():
            if time.monotonic() >= due and not self._over.is_set():
                more = duty.turn(self._hf) >= SWEEP_LIMIT
                self._due[duty] = 0.0 if more else time.monotonic() + duty.EVERY
                is_behind = is_behind or more
        return is_behind

    def _step_down(self) -> None:
        try:
            self._hf.store.leaders.step_down(*self._office)
        except HoldfastError as problem:
            log.warning("maintenance: %s", problem)

    @property
    def _office(self) -> tuple[str, str, str]:
        return self._hf.settings.tenant, "maintenance", self._worker
