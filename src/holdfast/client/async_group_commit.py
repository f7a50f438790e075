"""Group commit for asyncio: what is awaited at the same time is handed over together, by one thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic

from holdfast.client.group_commit import USED_UP, Answer, Gather, Item
from holdfast.client.thread_pool import Threads
from holdfast.errors import Unavailable


class _Call(Generic[Item, Answer]):
    """What someone awaits, since when, and whether an earlier try has an unknown outcome."""

    __slots__ = ("again", "items", "since", "tell")

    def __init__(self, items: Sequence[Item], tell: Callable[[list[Answer] | BaseException], None]) -> None:
        self.items = items
        self.tell = tell
        self.since = time.monotonic()
        self.again = False


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
        self._waiting.append(_Call(items, tell))
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
                calls, outcomes = self._without_the_patient(calls, outcomes)
                under_way = self._begin()
                for call, outcome in zip(calls, outcomes, strict=True):
                    call.tell(outcome)
                under_way = under_way or self._begin()
        finally:
            self._handing_over = None

    def _without_the_patient(
        self, calls: list[_Call[Item, Answer]], outcomes: list[list[Answer] | BaseException]
    ) -> tuple[list[_Call[Item, Answer]], list[list[Answer] | BaseException]]:
        """After an end of patience that was another one's: first in line are those who have some left."""
        over = time.monotonic() - self._gather.patience * USED_UP
        if min(call.since for call in calls) > over:
            return calls, outcomes
        told = [
            (call, outcome)
            for call, outcome in zip(calls, outcomes, strict=True)
            if not isinstance(outcome, Unavailable) or call.since <= over
        ]
        if len(told) == len(calls):
            return calls, outcomes
        done = {id(call) for call, _ in told}
        left = [call for call in calls if id(call) not in done]
        for call in left:
            call.again = True
        self._waiting[:0] = left
        return [call for call, _ in told], [outcome for _, outcome in told]

    def _begin(self) -> _UnderWay[Item, Answer] | None:
        """Hands over what waits, if anything does."""
        if not self._waiting:
            return None
        calls, self._waiting = self._waiting, []
        try:
            oldest, again = min(call.since for call in calls), any(call.again for call in calls)
            items = [call.items for call in calls]
            running = self._threads.begin(partial(self._gather.call_each, items, oldest, again))
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
