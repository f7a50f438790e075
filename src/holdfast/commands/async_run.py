"""One run of an `async def` command, on the loop that waits for it. See `run`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from holdfast.client.middleware import Outgoing, await_through
from holdfast.client.receipts import Receipt
from holdfast.client.user_connection import is_awaited
from holdfast.commands.run import CommandRun, DirectContext, as_json
from holdfast.core.message import NewMessage
from holdfast.store.in_thread import in_thread
from holdfast.store.join import OnLoop

Result = TypeVar("Result")


async def run(one: CommandRun) -> Any:
    """Runs an `async def`, unless it was run before; what it gave back, as JSON. Steps of ours leave the loop free."""
    return msgspec.json.decode(await (_in_transaction(one) if one.command.takes_conn else _alone(one)))


async def _alone(one: CommandRun) -> bytes:
    raw = await in_thread(one.look)
    if raw is None:
        raw = as_json(one, await one.call())
        await in_thread(partial(one.keep, raw))
    return raw


async def _in_transaction(one: CommandRun) -> bytes:
    await in_thread(one.parts.catalog.open)
    async with one.parts.store.lend.awaited() as conn:
        place = OnLoop(conn, asyncio.get_running_loop()) if is_awaited(conn) else None

        async def step(call: Callable[[], Result]) -> Result:
            return await in_thread(call, None if place is None else place.given_up.set)

        joined = await step(partial(one.parts.store.join, place or conn))
        known = await step(partial(one.begin, joined))
        if known is not None:
            return known
        raw = as_json(one, await one.call(conn))
        await step(partial(one.end, joined, raw))
    one.settled()
    return raw


class AsyncDirectContext(DirectContext):
    """The same, with an enqueue that is awaited."""

    async def enqueue(self, queue: str, body: Any, **options: Any) -> Receipt:  # type: ignore[override]
        """A message that arrives when the command has returned; if it raises, it never was."""
        new: list[NewMessage] = []

        async def draft(*parts: Any) -> list[Receipt]:
            return await in_thread(partial(self._draft, new, *parts))

        around = self._parts.around_enqueue.awaited
        [receipt] = await await_through(around, draft, Outgoing(queue, [body], **options))
        self.following = [*self.following, *new]
        return receipt
