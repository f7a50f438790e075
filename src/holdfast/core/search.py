"""Finding messages by what they carry."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.message import MessageStatus, encode_json, plain_text
from holdfast.core.queue import channel_name
from holdfast.errors import InvalidInput

_MISSING = object()


class SearchCriteria(msgspec.Struct, frozen=True):
    """What the messages have in common; at least one of key, correlation id and headers."""

    queue: str | None
    key: str | None
    correlation_id: str | None
    headers: dict[str, Any] | None

    @property
    def leading(self) -> dict[str, str | bytes | None]:
        """The one thing that is looked for in the database; the others are looked at afterwards.

        A header is looked for as it stands in the stored JSON.
        """
        found: dict[str, str | bytes | None] = {"key": None, "correlation_id": None, "header": None}
        if self.key is not None:
            found["key"] = self.key
        elif self.correlation_id is not None:
            found["correlation_id"] = self.correlation_id
        elif self.headers:
            name, value = next(iter(self.headers.items()))
            found["header"] = encode_json({name: value})[1:-1]
        return found

    def fits(self, found: MessageStatus) -> bool:
        """Whether it is really one: a header's text might stand somewhere inside another one."""
        message = found.message
        if message is None:
            return False
        return (
            self.key in (None, message.key)
            and self.correlation_id in (None, message.correlation_id)
            and all(message.headers.get(name, _MISSING) == value for name, value in (self.headers or {}).items())
        )


def wanted(queue: Any, key: Any, correlation_id: Any, headers: Any) -> SearchCriteria:
    """Checks what a user asked for."""
    if key is None and correlation_id is None and not headers:
        raise InvalidInput("search() needs a key, a correlation_id or headers to look for")
    if headers is not None and (not isinstance(headers, dict) or not all(isinstance(name, str) for name in headers)):
        raise InvalidInput("headers must be a dict with text as keys")
    encode_json(headers, "headers")
    return SearchCriteria(
        None if queue is None else channel_name(queue, "queue"),
        plain_text(key, "key"),
        plain_text(correlation_id, "correlation_id"),
        headers,
    )
