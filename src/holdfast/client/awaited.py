"""The asyncio client from the synchronous one: each call runs on a thread of the client's."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from inspect import cleandoc
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from holdfast.client.thread_pool import Threads

P = ParamSpec("P")
Sync = TypeVar("Sync")
Result = TypeVar("Result")


class Awaiting(Generic[Sync]):
    """Has methods that run those of another object on threads."""

    def __init__(self, sync: Sync, threads: Threads) -> None:
        self._sync = sync
        self._threads = threads


def awaited(
    method: Callable[Concatenate[Sync, P], Result],
) -> Callable[Concatenate[Awaiting[Sync], P], Coroutine[Any, Any, Result]]:
    """Return a method that runs this one on a thread, with the same arguments."""

    @wraps(method)
    async def call(self: Awaiting[Sync], /, *args: P.args, **kwargs: P.kwargs) -> Result:
        return await self._threads.work(partial(method, self._sync, *args, **kwargs))

    summary = cleandoc(method.__doc__ or "").partition("\n\n")[0]
    call.__doc__ = f"{summary}\n\nThe awaited form of `{method.__qualname__}`."
    return call
