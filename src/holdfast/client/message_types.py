"""Queues whose bodies have a type: checked for every producer, and given as that type where it is declared.

The type belongs to the queue. Its form (`core/message_type.py`) is stored with the queue's settings, so every client
checks bodies against it on the way in, and again when they are claimed. The client that declares the Python type checks
with that, so its validators run there, and gives bodies of that type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.client.claim import Claim
from holdfast.core.given import DEFAULT
from holdfast.core.message import Message, NewMessage
from holdfast.core.message_type import MessageForm, decoder_of, form_of
from holdfast.errors import InvalidInput
from holdfast.store.api import Channel

Decoder = msgspec.json.Decoder[Any]


class MessageTypes:
    """What this client knows of types, by queue: the Python types that it declares, and compiled checks."""

    def __init__(self) -> None:
        self._declared: dict[str, tuple[MessageForm, Decoder]] = {}
        self._checks: dict[str, tuple[MessageForm, Decoder]] = {}
        self._also: dict[str, Decoder] = {}

    def declare(self, queue: str, message_type: Any) -> None:
        """From now on bodies of this queue are given as this type; None, or a form, forgets the one before."""
        self._checks.pop(queue, None)
        form = form_of(message_type)
        if form is None or isinstance(message_type, MessageForm):
            self._declared.pop(queue, None)
        else:
            self._declared[queue] = (form, msgspec.json.Decoder(message_type))

    def declare_given(self, queue: str, settings: Mapping[str, Any]) -> None:
        """This client gives bodies of a queue as the type that was declared; one that is not given is kept."""
        if "message_type" in settings:
            given = settings["message_type"]
            self.declare(queue, None if given is DEFAULT else given)

    def expect(self, queue: str, form: MessageForm | None) -> None:
        """This client alone refuses what does not fit this, too: of a queue that someone else declares."""
        if form is None:
            self._also.pop(queue, None)
        else:
            self._also[queue] = decoder_of(form)

    def check(self, channel: Channel, new: Sequence[NewMessage]) -> None:
        """Refuses bodies that do not fit the type of their queue."""
        if channel.spec.message_type is None and not self._also:
            return
        for decoder in (self._check_of(channel), self._also.get(channel.name)):
            if decoder is not None:
                for message in new:
                    refuse_misfit(channel.name, decoder, message.body)

    def check_body(self, queue: str, body: bytes) -> None:
        """The same by the Python type that this client declares, for what the store checks by the form."""
        if queue in self._declared:
            refuse_misfit(queue, self._declared[queue][1], body)

    def misfits(self, claims: Sequence[Claim]) -> list[tuple[Claim, str]]:
        """Claimed messages that do not fit the type of their queue, and why."""
        found = []
        for claim in claims:
            decoder = None if claim.channel.spec.message_type is None else self._check_of(claim.channel)
            if decoder is not None and (reason := _misfit(decoder, claim.message.raw_body)):
                found.append((claim, f"the body does not fit the message type of {claim.queue!r}: {reason}"))
        return found

    def dress(self, claims: Sequence[Claim]) -> None:
        """Tells messages how to read their bodies."""
        if self._declared:
            for claim in claims:
                claim.message.decoder = self._reader(claim.queue)

    def dress_messages(self, queue: str, messages: list[Message]) -> list[Message]:
        """The same for messages without a claim."""
        for message in messages:
            message.decoder = self._reader(queue)
        return messages

    def _reader(self, queue: str) -> Decoder | None:
        found = self._declared.get(queue)
        return None if found is None else found[1]

    def _check_of(self, channel: Channel) -> Decoder | None:
        """Compiled once for each look at the queue's settings. If someone has changed the type, that one counts."""
        form = channel.spec.message_type
        if form is None:
            return None
        known = self._checks.get(channel.name)
        if known is None or known[0] is not form:
            declared = self._declared.get(channel.name)
            decoder = declared[1] if declared is not None and declared[0] == form else decoder_of(form)
            known = self._checks[channel.name] = (form, decoder)
        return known[1]


def refuse_misfit(queue: str, decoder: Decoder, body: bytes) -> None:
    """Raises `InvalidInput`, with the path, for a body that does not fit."""
    try:
        decoder.decode(body)
    except msgspec.ValidationError as problem:
        raise InvalidInput(f"the body does not fit the message type of {queue!r}: {problem}") from None


def _misfit(decoder: Decoder, body: bytes) -> str | None:
    try:
        decoder.decode(body)
    except msgspec.ValidationError as problem:
        return str(problem)
    except Exception as problem:  # A validator of the user's: claiming goes on.
        return f"{type(problem).__name__}: {problem}"
    return None
