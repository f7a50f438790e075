"""What an enqueue gives back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.client.compose import Key
from holdfast.core.message import Duplicate, MessageId, NewMessage, id_text
from holdfast.errors import InvalidInput


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """What `enqueue` returns once the message is safe: its `id`, and whether it was a `duplicate`."""

    raw_id: MessageId
    duplicate: bool = False
    raw_result: bytes | None = None

    @property
    def id(self) -> str:
        """The message's UUIDv7 as text."""
        return id_text(self.raw_id)

    @property
    def result(self) -> Any:
        """Of a duplicate that was worked on already: what its consumer gave back."""
        return None if self.raw_result is None else msgspec.json.decode(self.raw_result)

    def __repr__(self) -> str:
        return f"Receipt(id={self.id!r}, duplicate={self.duplicate})"


def receipts(new: Sequence[NewMessage], before: Sequence[Duplicate | None]) -> list[Receipt]:
    """For each message its own, or that of the one that was there before."""
    return [
        Receipt(message.id) if first is None else Receipt(first.id, True, first.result)
        for message, first in zip(new, before, strict=True)
    ]


def one_for_each(idempotency_key: Key) -> Key:
    """The function itself. Refuses one key for many messages: only the first of them would be stored."""
    if idempotency_key is not None and not callable(idempotency_key):
        raise InvalidInput(
            "enqueue_many() needs a function that gives each body its idempotency key: idempotency_key=lambda body: …"
        )
    return idempotency_key
