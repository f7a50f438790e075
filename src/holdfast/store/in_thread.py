"""Calls in a thread, for an event loop, that are over when whoever waits for them goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


async def in_thread(
    call: Callable[[], Result],
    give_up: Callable[[], object] | None = None,
    undo: Callable[[Result], object] | None = None,
) -> Result:
    """What a call gives. If that is cancelled, the call is told to `give_up`, waited for, and undone."""
    running = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if give_up is not None:
            give_up()
        await asyncio.wait([running])
        if undo is not None and not running.cancelled() and running.exception() is None:
            undo(running.result())
        raise
