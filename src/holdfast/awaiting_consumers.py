"""Consumers for asyncio: `async def` handlers run on the loop that awaits `run`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Unpack

from holdfast.consuming import GRACE, Consuming
from holdfast.core.duration import Duration, seconds
from holdfast.events import Happened

if TYPE_CHECKING:
    from holdfast.runtime.consumer import Consumer, ConsumerOptions, Handler, Middleware
    from holdfast.runtime.pool import Pool, PoolOptions
    from holdfast.runtime.runner import Runner
    from holdfast.sd_notify import Notifier


class AsyncConsuming:
    """The part of a client that works on messages by itself. See `Consuming`."""

    _hf: Consuming

    def consumer(self, *queues: str, **options: Unpack[ConsumerOptions]) -> Callable[[Handler], Consumer]:
        """Makes a function the handler of these queues' messages. See `Holdfast.consumer`."""
        return self._hf.consumer(*queues, **options)

    def subscriber(
        self,
        *patterns: str,
        group: str,
        topic: str | None = None,
        start: str | float | datetime = "latest",
        **options: Unpack[ConsumerOptions],
    ) -> Callable[[Handler], Consumer]:
        """Makes a function the handler of what a group of a topic gets. See `Holdfast.subscriber`."""
        return self._hf.subscriber(*patterns, group=group, topic=topic, start=start, **options)

    def pool(self, consumer: Consumer | str, **options: Unpack[PoolOptions]) -> Pool:
        """Runs several of a consumer, as many as its queues need. See `Holdfast.pool`."""
        return self._hf.pool(consumer, **options)

    def on(self, kind: type[Happened], callback: Callable[[Happened], object]) -> None:
        """Calls this whenever something of that kind happens. See `Holdfast.on`."""
        self._hf.on(kind, callback)

    def around_execute(self, middleware: Middleware) -> Middleware:
        """Runs a function around every handler. See `Holdfast.around_execute`."""
        return self._hf.around_execute(middleware)

    async def run(self, *consumers: Consumer | str, grace: Duration = GRACE) -> None:
        """Works until SIGTERM, Ctrl-C or `stop()`. See `Holdfast.run`."""
        await self._run_and_notify(consumers, grace)

    async def _run_and_notify(
        self, consumers: Sequence[Consumer | str], grace: Duration, notifier: Notifier | None = None
    ) -> Runner:
        from holdfast.runtime.signals import Signals

        running = self.running(*consumers, grace=grace)
        runner = running.prepare()
        runner.notifier = notifier or runner.notifier
        with Signals(runner.on_signal):  # From before the first handler runs.
            async with running:
                runner.tell_ready()
                await running.wait()
        return runner

    def running(self, *consumers: Consumer | str, grace: Duration = GRACE) -> AsyncRunning:
        """Works until the end of an `async with` block. See `Holdfast.running`."""
        return AsyncRunning(self._hf, self._hf._to_run(consumers), seconds(grace, "grace"))

    def stop(self) -> None:
        """Makes `run` stop."""
        self._hf.stop()


class AsyncRunning:
    """Consumers at work on the loop that entered it. Handlers that run when it is left have the grace to finish."""

    def __init__(self, hf: Consuming, consumers: list[Consumer], grace: float) -> None:
        self._hf = hf
        self._consumers = consumers
        self._grace = grace
        self.runner: Runner | None = None

    def prepare(self) -> Runner:
        """What runs them, not started yet."""
        if self.runner is None:
            from holdfast.runtime.runner import Runner

            loop = asyncio.get_running_loop()
            self.runner = Runner(self._hf._client(), self._consumers, self._grace, loop=loop)
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
        self._hf._runner = self.prepare()
        await asyncio.to_thread(self.prepare().start)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._hf._runner = None
        await asyncio.to_thread(self.prepare().stop)
