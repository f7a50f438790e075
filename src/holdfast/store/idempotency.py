"""Enqueueing once: a key that is known leads to the message that was there first. Shared by both stores."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import priority
from holdfast.core.message import Duplicate, NewMessage
from holdfast.errors import IdempotencyConflict
from holdfast.store.transaction import Transaction


def known(tx: Transaction, new: Sequence[NewMessage]) -> dict[int, Duplicate]:
    """The messages whose keys are taken already, by their place.

    Keys are taken in one order everywhere, so that rivals with several of them cannot wait for each other.
    """
    keyed = [(_place(message), index) for index, message in enumerate(new) if message.once is not None]
    found = {index: _admit(tx, *place, new[index]) for place, index in sorted(keyed)}
    return {index: duplicate for index, duplicate in found.items() if duplicate is not None}


def _place(message: NewMessage) -> tuple[int, str]:
    assert message.once is not None, "only messages with a key come here"
    return priority.channel_of(message.lane), message.once.key


def _admit(tx: Transaction, channel: int, key: str, message: NewMessage) -> Duplicate | None:
    once = message.once
    assert once is not None, "only messages with a key come here"
    if tx.one("idempotency.remember", channel=channel, key=key, id=message.id, digest=once.digest, window=once.window):
        return None
    first = tx.one("idempotency.recall", channel=channel, key=key)
    assert first is not None, "a key that cannot be taken is there"
    message_id, digest, result = first
    if digest != once.digest:
        raise IdempotencyConflict(
            f"the idempotency key {key!r} was used before for another body: use a key per piece of work, "
            "or send the same body again"
        )
    return Duplicate(message_id, result)
