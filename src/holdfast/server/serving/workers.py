"""The process that runs the consumers, as the server sees it: started, replaced, restarted after a crash, stopped."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress

import msgspec

from holdfast.errors import HoldfastError
from holdfast.server.serving.loading import Sources
from holdfast.server.serving.worker_process import GO, LOADED, READY

log = logging.getLogger("holdfast.server.serving")

VARIABLE = "HOLDFAST_STAFF"
"""The environment variable with the orders."""

STARTING = 60.0
"""Seconds that a program has to import all that it needs."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before the next try after a crash; doubled with each, until one has lasted for a while."""

LASTED = 60.0


class WorkerOrders(msgspec.Struct, frozen=True):
    """What a process of consumers is told."""

    url: str
    tenant: str
    sources: Sources
    grace: float


class NotStarted(HoldfastError):
    """The consumers could not be started; what they said about it stands above."""


class Workers:
    """At most one process at a time takes new messages; another one may be finishing."""

    def __init__(self, orders: WorkerOrders, on_started: Callable[[int], object] = lambda _: None) -> None:
        self._orders = orders
        self._on_started = on_started
        self._process: WorkerProcess | None = None
        self._coming: WorkerProcess | None = None
        self._leaving: list[WorkerProcess] = []
        self._turn = threading.Lock()  # One is started at a time, which may take long; all may be stopped meanwhile.
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="holdfast-workers", daemon=True)

    def start(self, wanted: bool) -> None:
        """Starts the process, if there is anything to run, and keeps it from now on. Raises `NotStarted` if it cannot
        work."""
        try:
            if wanted:
                self.replace()
        except NotStarted:
            if not self._over.is_set():
                raise
        self._keeper.start()

    def stuck(self) -> str | None:
        """Return what no longer looks after the consumers' process; None if all is well."""
        return None if self._keeper.is_alive() else f"{self._keeper.name} has ended"

    def replace(self, change: AbstractContextManager[object] | None = None) -> None:
        """A new process takes over, which reads everything anew; the old one finishes what it has begun. If the new
        one cannot start, the old one stays.

        It begins to consume inside of `change`, which is entered when all that it needs was found.
        """
        with self._turn:
            self._replace(change or nullcontext())

    def _replace(self, change: AbstractContextManager[object]) -> None:
        fresh = self._begin()
        try:
            fresh.wait_until_loaded()
            with change:
                fresh.go()
                fresh.wait_until_ready()
        except BaseException:
            fresh.wait(0)
            with self._lock:
                self._coming = None
            raise
        with self._lock:
            self._dismiss()
            self._process, self._coming = fresh, None
        self._on_started(fresh.pid)

    def _begin(self) -> WorkerProcess:
        with self._lock:
            if self._over.is_set():
                raise NotStarted("no consumers are started any more: the server stops")
            self._coming = WorkerProcess(self._orders)
            return self._coming

    def dismiss(self) -> None:
        """There is nothing to run any more."""
        with self._turn, self._lock:
            self._dismiss()

    def _dismiss(self) -> None:
        if self._process is not None:
            self._process.ask_to_stop()
            self._leaving.append(self._process)
            self._process = None

    def ask_to_stop(self) -> None:
        """Nothing new is claimed; what was begun may finish."""
        self._over.set()
        for process in self._all():
            process.ask_to_stop()

    def wait(self, timeout: float) -> bool:
        """Until all have ended; whatever has not by then is killed."""
        deadline = time.monotonic() + timeout
        ended = [process.wait(max(0.0, deadline - time.monotonic())) for process in self._all()]
        return all(ended)

    def kill(self) -> None:
        """Ends all at once."""
        self._over.set()
        for process in self._all():
            process.wait(0)

    def _all(self) -> list[WorkerProcess]:
        with self._lock:
            return [one for one in (self._process, self._coming, *self._leaving) if one is not None]

    def _keep(self) -> None:
        pause = FIRST_PAUSE
        while not self._over.wait(0.2):
            with self._lock:
                self._leaving = [process for process in self._leaving if process.exit_code is None]
                crashed = self._process if self._process and self._process.exit_code is not None else None
            if crashed is None:
                continue
            pause = FIRST_PAUSE if crashed.age > LASTED else pause
            log.error("the consumers' process ended with %s; starting another one", crashed.exit_code)
            if self._over.wait(pause):
                return
            pause = min(2 * pause, LONGEST_PAUSE)
            try:
                with self._turn:
                    if self._process is crashed:
                        self._replace(nullcontext())
            except HoldfastError as problem:
                log.error("%s", problem)


class WorkerProcess:
    """One of them. It ends by itself when this process is gone: its standard input is then at its end."""

    def __init__(self, orders: WorkerOrders) -> None:
        self._began = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.server.serving.worker_process"],
            env={**os.environ, VARIABLE: msgspec.json.encode(orders).decode()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.pid = self._process.pid
        self._is_asked = False
        self._loaded, self._ready = threading.Event(), threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None, "it is a pipe"
        for line in self._process.stdout:
            if line == LOADED:
                self._loaded.set()
            elif line == READY:
                self._ready.set()
            else:
                sys.stdout.buffer.write(line)  # What handlers print.
                sys.stdout.buffer.flush()
        self._process.wait()
        self._loaded.set()
        self._ready.set()

    def wait_until_loaded(self) -> None:
        """Until it has read the spec and the user's code, and found all that they name."""
        self._wait_for(self._loaded, "does what they import take long?")

    def go(self) -> None:
        """It may consume."""
        assert self._process.stdin is not None, "it is a pipe"
        with suppress(BrokenPipeError):  # `wait_until_ready` says so.
            self._process.stdin.write(GO)
            self._process.stdin.flush()

    def wait_until_ready(self) -> None:
        """Until it consumes."""
        self._wait_for(self._ready, "is their database there?")

    def _wait_for(self, event: threading.Event, question: str) -> None:
        if not event.wait(STARTING):
            raise NotStarted(f"the consumers were not ready within {STARTING:g} s: {question}")
        if self.exit_code is not None:
            raise NotStarted

    @property
    def age(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self._began

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def ask_to_stop(self) -> None:
        """What it has begun may finish. It is asked once: a second signal would insist."""
        if not self._is_asked and self._process.poll() is None:
            self._is_asked = True
            self._process.terminate()

    def wait(self, timeout: float) -> bool:
        """Until it has ended; it is killed if that takes longer."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False
        return True
