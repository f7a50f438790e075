"""Group commit for asyncio: what is awaited at the same time is handed over together, by one thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic

from holdfast.gather import Answer, Gather, Item
from holdfast.threads import Threads


class AsyncGather(Generic[Item, Answer]):
    """Hands the calls that are awaited at the same time to a `Gather` together."""

    def __init__(self, gather: Gather[Item, Answer], threads: Threads) -> None:
        self._gather = gather
        self._threads = threads
        self._waiting: list[tuple[Sequence[Item], Callable[[list[Answer] | BaseException], None]]] = []
        self._handing_over: asyncio.Task[None] | None = None

    def put(self, items: Sequence[Item], tell: Callable[[list[Answer] | BaseException], None]) -> None:
        """Tells the answers for these items, or what went wrong, once they are committed. `tell` must not raise."""
        self._waiting.append((items, tell))
        if self._handing_over is None:
            self._handing_over = asyncio.get_running_loop().create_task(self._hand_over())

    async def call(self, items: Sequence[Item]) -> list[Answer]:
        """The answers for these items, once they are committed."""
        answer: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self.put(items, partial(_tell, answer))
        return await answer

    async def _hand_over(self) -> None:
        try:
            while self._waiting:
                calls, self._waiting = self._waiting, []
                outcomes = await self._outcomes([items for items, _ in calls])
                for (_, tell), outcome in zip(calls, outcomes, strict=True):
                    tell(outcome)
        finally:
            self._handing_over = None

    async def _outcomes(self, calls: list[Sequence[Item]]) -> list[list[Answer] | BaseException]:
        try:
            return await self._threads.work(partial(self._gather.call_each, calls))
        except Exception as problem:
            return [problem] * len(calls)


def _tell(answer: asyncio.Future[list[Answer]], outcome: list[Answer] | BaseException) -> None:
    if answer.cancelled():
        return
    if isinstance(outcome, BaseException):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
