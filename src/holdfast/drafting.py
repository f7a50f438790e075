"""From what a user hands over to messages that a store can take; everything wrong with them is said here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from holdfast.core import priority as priorities
from holdfast.core.duration import Duration, micros
from holdfast.core.lifecycle import must_be_alone
from holdfast.core.message import NewMessage, encode_json, plain_text
from holdfast.errors import InvalidInput
from holdfast.store.api import Channel
from holdfast.store.ids import new_id

Key = str | Callable[[Any], str | None] | None


def draft(
    channel: Channel,
    bodies: Iterable[Any],
    priority: int | str,
    key: Key,
    delay: Duration,
    headers: dict[str, Any] | None,
    correlation_id: str | None,
) -> list[NewMessage]:
    """New messages for a queue. One that is due at once and has no order to keep is plain, and goes to a lane."""
    lane = priorities.lane(channel.id, priorities.priority(priority))
    wait = micros(delay, "delay")
    raw_headers = None if headers is None else encode_json(_checked(headers), "headers")
    correlation_id = plain_text(correlation_id, "correlation_id")
    plain, alone = wait == 0 and not channel.spec.ordered, must_be_alone(channel.spec, 0)
    keys: Iterable[str | None] = repeat(None)
    if callable(key):
        bodies = list(bodies)
        keys = [plain_text(key(body), "key") for body in bodies]
    elif key is not None:
        keys = repeat(plain_text(key, "key"))
    order_key = channel.spec.order_key
    content = zip(bodies, keys, strict=False)
    return [
        NewMessage(
            new_id(), lane, encode_json(body), raw_headers, own, correlation_id, plain, order_key(own), wait, alone
        )
        for body, own in content
    ]


def _checked(headers: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(headers, dict) or not all(isinstance(name, str) for name in headers):
        raise InvalidInput("headers must be a dict with text as keys")
    return headers
