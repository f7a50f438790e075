"""Asking, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from holdfast.asking import PATIENCE, Asking, lifetime, patience
from holdfast.awaiting import Awaiting
from holdfast.core import priority as priorities
from holdfast.core.duration import Duration
from holdfast.desk import Expected
from holdfast.drafting import EnqueueOptions
from holdfast.receipts import Receipt
from holdfast.threads import SLEEPERS


class AsyncAsking(Awaiting):
    """The same as `Asking`, awaited: of all tasks that wait, one has a thread that listens."""

    _hf: Asking
    _put: Callable[..., Awaitable[list[Receipt]]]

    async def ask(
        self,
        queue: str,
        body: Any,
        *,
        timeout: Duration = PATIENCE,
        priority: int | str = priorities.NORMAL,
        key: str | None = None,
        headers: dict[str, Any] | None = None,
        expires: bool = True,
    ) -> Any:
        """Enqueues a message and waits for what its handler answers. See `Holdfast.ask`."""
        desk, bell = self._hf._desk, asyncio.Event()
        expected = Expected(queue, patience(timeout), partial(_wake, asyncio.get_running_loop(), bell))
        options = EnqueueOptions(
            priority=priority,
            key=key,
            headers=headers,
            correlation_id=expected.id,
            reply_to=desk.name,
            ttl=lifetime(timeout, expires),
        )
        if not desk.is_open:
            await self._run(self._hf._open_desk, queue, body, options, self._hf._awaited_around_enqueue)
        desk.expect(expected)
        try:
            await self._put(queue, [body], options, None)
            while (left := expected.left) > 0:
                if desk.listens(expected):
                    await self._threads.finish(partial(desk.listen, expected), partial(desk.forget, expected), SLEEPERS)
                else:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(bell.wait(), left)
                    bell.clear()
        finally:
            desk.forget(expected)
        return expected.body()


def _wake(loop: asyncio.AbstractEventLoop, bell: asyncio.Event) -> None:
    """From any thread; a loop that has ended needs no waking."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(bell.set)
