"""The threads that carry the calls of an asyncio client."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from holdfast.errors import Unavailable
from holdfast.store.patience import spent

Result = TypeVar("Result")

WORKERS = 16
SLEEPERS = 1_000


class Threads:
    """A few threads for work, and as many as it takes for calls that mostly sleep: those must not hold up work."""

    def __init__(self, patience: float = math.inf) -> None:
        self._patience = patience
        self._pools: dict[int, ThreadPoolExecutor] = {}

    async def work(self, call: Callable[[], Result]) -> Result:
        """Runs a call that keeps a thread busy. Waiting for a free one counts as waiting for the database."""
        return await self.begin(partial(self._in_time, time.monotonic(), call))

    def begin(self, call: Callable[[], Result]) -> asyncio.Future[Result]:
        """The same, from this moment on; whoever asks may do something else meanwhile."""
        return asyncio.wrap_future(self._submit(WORKERS, call))

    async def sleep(self, call: Callable[[], Result], undo: Callable[[Result], object]) -> Result:
        """Runs a call that may sleep; if nobody wants its result any more, it is undone."""
        running = self._submit(SLEEPERS, call)
        try:
            return await asyncio.shield(asyncio.wrap_future(running))
        except asyncio.CancelledError:
            running.add_done_callback(lambda done: None if done.exception() else undo(done.result()))
            raise

    async def finish(self, call: Callable[[], Result], give_up: Callable[[], None], size: int = WORKERS) -> Result:
        """Runs a call that uses something of the caller's: even when cancelled, it is over when this returns."""
        running = asyncio.wrap_future(self._submit(size, call))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            give_up()
            await asyncio.wait([running])
            raise

    def close(self) -> None:
        """Lets the threads end when they have nothing left to do; new ones start when needed."""
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.shutdown(wait=False)

    def _in_time(self, since: float, call: Callable[[], Result]) -> Result:
        waited = time.monotonic() - since
        if waited > self._patience:
            raise Unavailable(f"all {WORKERS} threads of this client were busy for {waited:.1f} s; nothing was asked")
        with spent(waited):
            return call()

    def _submit(self, size: int, call: Callable[[], Result]) -> Future[Result]:
        pool = self._pools.get(size)
        if pool is None:
            pool = self._pools[size] = ThreadPoolExecutor(size, thread_name_prefix="holdfast")
        return pool.submit(call)
