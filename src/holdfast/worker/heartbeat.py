"""Telling what this process's consumers are doing: seen with `hf.consumers.list()`."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from holdfast.consumers.rules import Beat
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.worker.worker import Worker

log = logging.getLogger("holdfast")

BEAT_EVERY = 5.0
VALID_FOR = 20.0
PROGRESS_EVERY = 1.0
"""Seconds between two beats while a handler tells its progress."""

SLEEPING_EVERY = 60.0
HIBERNATING_FOR = 180.0
"""A hibernating consumer says so when it falls asleep, and then as often as it looks for safety."""


class Beats:
    """One thread for all consumers of a process."""

    def __init__(self, workers: Callable[[], Iterable[Worker]]) -> None:
        self._workers = workers
        self._known: dict[str, LastReport] = {}
        self._progress = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._run, name="holdfast-beats", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def note_progress(self) -> None:
        """There is something new to tell."""
        self._progress.set()

    def stop(self) -> None:
        """Says good-bye for all."""
        self._over = True
        self._progress.set()
        self._thread.join(timeout=2.0)

    def _run(self) -> None:
        while not self._over:
            try:
                self._tell_all()
            except HoldfastError as problem:
                log.warning("consumers could not be told of: %s", problem)
            except Exception:
                log.exception("consumers could not be told of")
            self._progress.clear()
            if self._progress.wait(BEAT_EVERY) and not self._over:
                time.sleep(PROGRESS_EVERY)
        self._leave(list(self._known))

    def _tell_all(self) -> None:
        workers = {worker.id: worker for worker in self._workers() if not worker.ended.is_set()}
        self._leave([known for known in self._known if known not in workers])
        for worker in workers.values():
            pulse = self._known.setdefault(worker.id, LastReport(worker))
            beat = pulse.beat()
            if beat is not None:
                worker.parts.store.crew.beat(worker.hf.settings.tenant, beat)
                pulse.was_told(beat)

    def _leave(self, gone: list[str]) -> None:
        for worker_id in gone:
            worker = self._known.pop(worker_id).worker
            try:
                worker.parts.store.crew.leave(worker.hf.settings.tenant, worker_id)
            except HoldfastError as problem:
                log.warning("consumer %s could not say good-bye: %s", worker.consumer.name, problem)


class LastReport:
    """What was last told of one worker."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._told = time.monotonic()
        self._busy = 0.0
        self._measured = (self._told, self._busy)
        self._state = ""

    def beat(self) -> Beat | None:
        """What to tell now; None if it sleeps and has said so lately."""
        worker, now = self.worker, time.monotonic()
        state = worker.state
        if state == "hibernating" == self._state and now < self._told + SLEEPING_EVERY:
            return None
        busy, elapsed = worker.busy_seconds(), now - self._told
        share = (busy - self._busy) / (elapsed * worker.consumer.concurrency) if elapsed > 0 else 0.0
        self._measured = (now, busy)
        return Beat(
            id=worker.id,
            consumer=worker.consumer.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=worker.attachments.fitting,
            state=state,
            valid_for=HIBERNATING_FOR if state == "hibernating" else VALID_FOR,
            pool=worker.pool,
            labels=worker.consumer.labels,
            concurrency=worker.consumer.concurrency,
            saturation=min(1.0, max(0.0, share)),
            handled=worker.outbox.handled,
            failed=worker.outbox.failures,
            work=[context.work() for context in worker.running()],
        )

    def was_told(self, beat: Beat) -> None:
        """It is stored; what is not is told again."""
        (self._told, self._busy), self._state = self._measured, beat.state
