"""Asking: a message that someone waits for the answer to. (`awaiting_answers` has it for asyncio.)"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core import priority as priorities
from holdfast.core.duration import Duration, micros, seconds
from holdfast.core.message import NewMessage
from holdfast.desk import Desk, Expected
from holdfast.drafting import EnqueueOptions
from holdfast.errors import InvalidInput, shown
from holdfast.outgoing import AroundEnqueue
from holdfast.receipts import Receipt

PATIENCE = 60.0
"""Seconds that an asker waits unless it says otherwise."""


class Asking:
    """The part of a client that asks and waits."""

    _desk: Desk
    _put: Callable[..., list[Receipt]]
    _drafted: Callable[..., list[NewMessage]]
    _around_enqueue: list[AroundEnqueue]
    _awaited_around_enqueue: list[AroundEnqueue]

    def ask(
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
        """Enqueues a message and waits for what its handler answers with `context.reply(body)`; that body.

        After `timeout` it raises `NoAnswer`, and an answer that comes later is thrown away. A request that nobody
        has begun by then expires: nobody works on what nobody waits for. With `expires=False` it stays. If the request
        dies, `RequestDied` is raised at once.

        >>> hf.ask("prices", {"item": "tea"}, timeout="5s")  # doctest: +SKIP
        {'price': 3}
        """
        bell = threading.Event()
        expected = Expected(queue, patience(timeout), bell.set)
        options = EnqueueOptions(
            priority=priority,
            key=key,
            headers=headers,
            correlation_id=expected.id,
            reply_to=self._desk.name,
            ttl=lifetime(timeout, expires),
        )
        self._open_desk(queue, body, options, self._around_enqueue)
        self._desk.expect(expected)
        try:
            self._put(queue, [body], options, None)
            while (left := expected.left) > 0:
                if self._desk.listens(expected):
                    self._desk.listen(expected)
                elif bell.wait(left):
                    bell.clear()
        finally:
            self._desk.forget(expected)
        return expected.body()

    def _open_desk(self, queue: str, body: Any, options: EnqueueOptions, around: Sequence[AroundEnqueue]) -> None:
        """Before the request goes out. One that would be refused leaves no reply queue behind."""
        if not self._desk.is_open and not around:
            self._drafted(queue, [body], options)
        self._desk.open()


def patience(timeout: Duration) -> float:
    """Checks how long to wait."""
    if micros(timeout, "timeout") < 1:
        raise InvalidInput("timeout must be longer than 0 seconds: an answer takes some time")
    return seconds(timeout, "timeout")


def lifetime(timeout: Duration, expires: bool) -> Duration | None:
    """For how long the request may wait for someone to work on it."""
    if not isinstance(expires, bool):
        raise InvalidInput(f"expires must be True or False, not {shown(expires)}")
    return timeout if expires else None
