"""Acts on many dead letters, which may take longer than a request: it waits a little, then they go on without it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from fastapi import FastAPI

from holdfast.dead_letters.bulk import Progress
from holdfast.server.error_responses import RETRY_AFTER, Refusal

log = logging.getLogger("holdfast.server")

MOST_AT_ONCE = 4
PATIENCE = 5.0
"""Seconds that a request waits for the end."""

Act = Callable[[Progress], int]


class _Ended(Exception):
    """The server stops."""


class BulkWork:
    """One act under way: how many letters it has dealt with, of how many, and whether that was all."""

    def __init__(self) -> None:
        self.count = 0
        self.matching = 0
        self.problem: Exception | None = None
        self.over = threading.Event()


class BulkActs:
    """The acts of one server. Each page of one is a transaction, and the audit counts along: one that is cut off by the
    end of the process has done what the audit says, and can be asked for again."""

    def __init__(self, stopping: threading.Event) -> None:
        self._room = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._stopping = stopping

    def start(self, act: Act) -> BulkWork:
        """Begins one on a thread of its own, and gives it a little time."""
        if not self._room.acquire(blocking=False):
            raise Refusal(
                429,
                f"{MOST_AT_ONCE} acts on many dead letters are under way; wait for one to end",
                headers={"Retry-After": str(RETRY_AFTER)},
            )
        work = BulkWork()
        threading.Thread(target=self._run, args=(act, work), name="holdfast-bulk", daemon=True).start()
        work.over.wait(PATIENCE)
        if work.problem is not None:
            raise work.problem
        return work

    def _run(self, act: Act, work: BulkWork) -> None:
        def progress(count: int, matching: int) -> None:
            work.count, work.matching = count, matching
            if self._stopping.is_set():
                raise _Ended

        try:
            work.count = act(progress)
            work.matching = max(work.matching, work.count)
        except _Ended:
            log.info("the server stops: an act on many dead letters ends after %d of %d", work.count, work.matching)
        except Exception as problem:
            work.problem = problem
            log.warning("an act on many dead letters ended after %d of %d: %s", work.count, work.matching, problem)
        finally:
            self._room.release()
            work.over.set()


def bulk_acts(app: FastAPI) -> BulkActs:
    """The app's own. They end, after the page that they are at, when `app.state.stopping` is set."""
    if not hasattr(app.state, "bulk_acts"):
        app.state.bulk_acts = BulkActs(app.state.stopping)
    found: BulkActs = app.state.bulk_acts
    return found
