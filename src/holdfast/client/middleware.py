"""What is about to be enqueued, and the functions around that."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from holdfast.client.compose import EnqueueOptions, Key, checked_headers, listed
from holdfast.client.receipts import Receipt, one_for_each
from holdfast.core import priority as priorities
from holdfast.core.duration import Duration
from holdfast.core.queue import channel_name
from holdfast.errors import InvalidInput, shown


class Outgoing(msgspec.Struct):
    """Messages on their way into a queue, as a function around enqueue sees them; all of it may be changed.

    >>> @hf.around_enqueue
    ... def stamp(outgoing, proceed):
    ...     outgoing.headers = {**(outgoing.headers or {}), "who": "me"}
    ...     return proceed()
    """

    queue: str
    bodies: list[Any]
    priority: int | str = priorities.NORMAL
    key: Key = None
    delay: Duration = 0
    headers: dict[str, Any] | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    ttl: Duration | None = None
    idempotency_key: Key = None
    budget: float | None = None
    commitments: Sequence[Any] | None = None


Proceed = Callable[[], Any]
"""Goes on to the next function, or stores; gives the receipts, or in an `async def` something to await for them."""

AroundEnqueue = Callable[[Outgoing, Proceed], Any]


Put = Callable[[str, list[Any], EnqueueOptions], list[Receipt]]
AsyncPut = Callable[[str, list[Any], EnqueueOptions], Awaitable[list[Receipt]]]


class EnqueueMiddleware:
    """The functions around every enqueue of a client, the outermost first."""

    def __init__(self) -> None:
        self.plain: list[AroundEnqueue] = []
        self.awaited: list[AroundEnqueue] = []

    def add(self, middleware: AroundEnqueue) -> None:
        """Puts a `def` around the enqueues of `Holdfast`, an `async def` around those of `AsyncHoldfast`."""
        if not callable(middleware):
            raise InvalidInput("middleware must be a function that takes (outgoing, proceed)")
        is_awaited = inspect.iscoroutinefunction(middleware)
        (self.awaited if is_awaited else self.plain).append(middleware)


def outgoing_of(queue: str, bodies: Iterable[Any], options: EnqueueOptions) -> Outgoing:
    """Messages and their options in the form that functions around enqueue may change."""
    return Outgoing(queue, listed(bodies), **msgspec.structs.asdict(options))


def put_through(middleware: Sequence[AroundEnqueue], put: Put, outgoing: Outgoing) -> list[Receipt]:
    """What `put` gives, with the functions around it."""
    count = _prepare(outgoing)

    def proceed() -> list[Receipt]:
        return put(*_changed(outgoing, count))

    def around(function: AroundEnqueue, inner: Proceed) -> list[Receipt]:
        return _checked_receipts(function(outgoing, inner), function, count)

    for function in reversed(middleware):
        proceed = partial(around, function, proceed)
    return proceed()


async def await_through(middleware: Sequence[AroundEnqueue], put: AsyncPut, outgoing: Outgoing) -> list[Receipt]:
    """The same for functions that are awaited."""
    count = _prepare(outgoing)

    async def proceed() -> list[Receipt]:
        return await put(*_changed(outgoing, count))

    async def around(function: AroundEnqueue, inner: Proceed) -> list[Receipt]:
        return _checked_receipts(await function(outgoing, inner), function, count)

    for function in reversed(middleware):
        proceed = partial(around, function, proceed)
    return await proceed()


def _prepare(outgoing: Outgoing) -> int:
    """Copies what is the caller's and checks what functions rely on; the number of bodies."""
    channel_name(outgoing.queue)
    outgoing.bodies = list(listed(outgoing.bodies))
    if outgoing.headers is not None:
        outgoing.headers = dict(checked_headers(outgoing.headers))
    return len(outgoing.bodies)


def _changed(outgoing: Outgoing, count: int) -> tuple[str, list[Any], EnqueueOptions]:
    """What goes out in the end, checked for what only a function can break; the rest is checked as the caller's."""
    bodies = listed(outgoing.bodies)
    if len(bodies) != count:
        raise InvalidInput(
            f"a function around enqueue made {len(bodies)} bodies out of {count}: it may change them, but the caller "
            "expects a receipt for each; raise to refuse, or enqueue others with a call of their own"
        )
    if count > 1:
        one_for_each(outgoing.idempotency_key)
    options = {name: getattr(outgoing, name) for name in EnqueueOptions.__struct_fields__}
    return outgoing.queue, bodies, EnqueueOptions(**options)


def _checked_receipts(given: Any, function: AroundEnqueue, count: int) -> list[Receipt]:
    if isinstance(given, list) and len(given) == count and all(isinstance(one, Receipt) for one in given):
        return given
    name = getattr(function, "__name__", type(function).__name__)
    raise InvalidInput(
        f"{name}, a function around enqueue, returned {shown(given)} and not the receipts: end it with "
        f"`return {'await ' if inspect.iscoroutinefunction(function) else ''}proceed()`"
    )
