"""Queues whose bodies have a type: checked on the way in, and given to consumers as that type.

The type belongs to this client's code and is not stored: another program may read the same queue as plain JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.claims import Claim
from holdfast.core.message import Message, NewMessage
from holdfast.errors import InvalidInput, shown


class MessageTypes:
    """The types of this client's queues, by name."""

    def __init__(self) -> None:
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {}

    @staticmethod
    def reader(message_type: Any) -> msgspec.json.Decoder[Any] | None:
        """What reads bodies of this type; None if they have none."""
        if message_type is None:
            return None
        try:
            return msgspec.json.Decoder(message_type)
        except (TypeError, NameError) as problem:
            raise InvalidInput(f"message_type {shown(message_type)} cannot be read from JSON: {problem}") from None

    def set(self, queue: str, reader: msgspec.json.Decoder[Any] | None) -> None:
        """From now on bodies of this queue are read by this one; None forgets it."""
        if reader is None:
            self._decoders.pop(queue, None)
        else:
            self._decoders[queue] = reader

    def check(self, queue: str, new: Sequence[NewMessage]) -> None:
        """Refuses bodies that a consumer could not read."""
        decoder = self._decoders.get(queue)
        if decoder is None:
            return
        for message in new:
            try:
                decoder.decode(message.body)
            except msgspec.ValidationError as problem:
                raise InvalidInput(f"the body does not fit the message type of {queue!r}: {problem}") from None

    def dress(self, claims: Sequence[Claim]) -> None:
        """Tells messages how to read their bodies."""
        if self._decoders:
            for claim in claims:
                claim.message.decoder = self._decoders.get(claim.queue)

    def dress_messages(self, queue: str, messages: list[Message]) -> list[Message]:
        """The same for messages without a claim."""
        for message in messages:
            message.decoder = self._decoders.get(queue)
        return messages
