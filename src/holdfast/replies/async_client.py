"""Asking, for asyncio: of all tasks that wait, one has a thread that listens."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.client.compose import EnqueueOptions
from holdfast.client.thread_pool import SLEEPERS
from holdfast.core.duration import Duration
from holdfast.replies.client import lifetime, open_desk, patience
from holdfast.replies.inbox import Expected

if TYPE_CHECKING:
    from holdfast.client.async_client import AsyncParts


async def ask(
    own: AsyncParts,
    queue: str,
    body: Any,
    timeout: Duration,
    priority: int | str,
    key: str | None,
    headers: dict[str, Any] | None,
    expires: bool,
) -> Any:
    """See `AsyncHoldfast.ask`."""
    desk, bell = own.parts.desk, asyncio.Event()
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
        around = own.parts.around_enqueue.awaited
        await own.threads.work(partial(open_desk, own.parts, queue, body, options, around))
    desk.expect(expected)
    try:
        await own.producer.put(queue, [body], options, None)
        while (left := expected.left) > 0:
            if desk.listens(expected):
                await own.threads.finish(partial(desk.listen, expected), partial(desk.forget, expected), SLEEPERS)
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
