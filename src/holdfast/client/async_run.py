"""Consumers for asyncio: `async def` handlers run on the loop that awaits `run`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.client.client import internals

if TYPE_CHECKING:
    from holdfast.client.client import Holdfast
    from holdfast.worker.consumer import Consumer
    from holdfast.worker.runner import Runner


class AsyncRunning:
    """Consumers at work on the loop that entered it. Handlers that run when it is left have the grace to finish."""

    def __init__(self, hf: Holdfast, consumers: list[Consumer], grace: float) -> None:
        self._hf = hf
        self._consumers = consumers
        self._grace = grace
        self.runner: Runner | None = None

    def prepare(self) -> Runner:
        """What runs them, not started yet."""
        if self.runner is None:
            from holdfast.worker.runner import Runner

            loop = asyncio.get_running_loop()
            self.runner = Runner(self._hf, self._consumers, self._grace, loop=loop)
        return self.runner

    async def wait(self) -> None:
        """Until every consumer has ended."""
        runner = self.prepare()
        ended = asyncio.create_task(asyncio.to_thread(runner.wait))
        try:
            while runner.notifier.is_watched and not ended.done():
                runner.notifier.ping(runner.stuck)
                await asyncio.wait({ended}, timeout=runner.notifier.pause)
            await ended
        finally:
            ended.cancel()

    async def __aenter__(self) -> AsyncRunning:
        internals(self._hf).consumers.runner = self.prepare()
        await asyncio.to_thread(self.prepare().start)
        return self

    async def __aexit__(self, *_: object) -> None:
        internals(self._hf).consumers.runner = None
        await asyncio.to_thread(self.prepare().stop)
