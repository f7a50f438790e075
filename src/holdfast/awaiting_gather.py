"""Group commit for asyncio: what is awaited at the same time is handed over together, by one thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic

from holdfast.gather import Answer, Gather, Item
from holdfast.threads import Threads

_Call = tuple[Sequence[Item], Callable[[list[Answer] | BaseException], None]]
_UnderWay = tuple[list[_Call[Item, Answer]], asyncio.Future[list[list[Answer] | BaseException]]]


class AsyncGather(Generic[Item, Answer]):
    """Hands the calls that are awaited at the same time to a `Gather` together."""

    def __init__(self, gather: Gather[Item, Answer], threads: Threads) -> None:
        self._gather = gather
        self._threads = threads
        self._waiting: list[_Call[Item, Answer]] = []
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
        """The next calls are under way before anyone is told of the last ones: telling takes time, too."""
        try:
            under_way = self._begin()
            while under_way is not None:
                calls, running = under_way
                outcomes = await _outcomes(len(calls), running)
                under_way = self._begin()
                for (_, tell), outcome in zip(calls, outcomes, strict=True):
                    tell(outcome)
                under_way = under_way or self._begin()
        finally:
            self._handing_over = None

    def _begin(self) -> _UnderWay[Item, Answer] | None:
        """Hands over what waits, if anything does."""
        if not self._waiting:
            return None
        calls, self._waiting = self._waiting, []
        try:
            running = self._threads.begin(partial(self._gather.call_each, [items for items, _ in calls]))
        except RuntimeError as problem:  # Python is about to end.
            running = asyncio.get_running_loop().create_future()
            running.set_exception(problem)
        return calls, running


async def _outcomes(
    count: int, running: asyncio.Future[list[list[Answer] | BaseException]]
) -> list[list[Answer] | BaseException]:
    try:
        return await running
    except Exception as problem:
        return [problem] * count


def _tell(answer: asyncio.Future[list[Answer]], outcome: list[Answer] | BaseException) -> None:
    if answer.cancelled():
        return
    if isinstance(outcome, BaseException):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
