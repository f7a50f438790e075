"""Asking: a message whose sender waits for the answer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.client.compose import EnqueueOptions
from holdfast.client.middleware import AroundEnqueue
from holdfast.core.duration import Duration, micros, seconds
from holdfast.errors import InvalidInput, shown
from holdfast.replies.inbox import Expected

if TYPE_CHECKING:
    from holdfast.client.parts import ClientParts

PATIENCE = 60.0
"""Seconds that an asker waits unless it says otherwise."""


def ask(
    parts: ClientParts,
    queue: str,
    body: Any,
    timeout: Duration,
    priority: int | str,
    key: str | None,
    headers: dict[str, Any] | None,
    expires: bool,
) -> Any:
    """See `Holdfast.ask`."""
    desk, bell = parts.desk, threading.Event()
    expected = Expected(queue, patience(timeout), bell.set)
    options = EnqueueOptions(
        priority=priority,
        key=key,
        headers=headers,
        correlation_id=expected.id,
        reply_to=desk.name,
        ttl=lifetime(timeout, expires),
    )
    open_desk(parts, queue, body, options, parts.around_enqueue.plain)
    desk.expect(expected)
    try:
        parts.producer.put(queue, [body], options, None)
        while (left := expected.left) > 0:
            if desk.listens(expected):
                desk.listen(expected)
            elif bell.wait(left):
                bell.clear()
    finally:
        desk.forget(expected)
    return expected.body()


def open_desk(
    parts: ClientParts, queue: str, body: Any, options: EnqueueOptions, around: Sequence[AroundEnqueue]
) -> None:
    """Before the request goes out. One that would be refused leaves no reply queue behind."""
    if not parts.desk.is_open and not around:
        parts.producer.drafted(queue, [body], options)
    parts.desk.open()


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
