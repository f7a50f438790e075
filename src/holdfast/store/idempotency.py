"""Enqueueing once: a key that is known leads to the message that was there first. Shared by both stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.core import priority
from holdfast.core.message import Duplicate, MessageId, NewMessage, Once
from holdfast.errors import IdempotencyConflict
from holdfast.store.transaction import Transaction


def known(tx: Transaction, new: Sequence[NewMessage]) -> dict[int, Duplicate]:
    """The messages whose keys are taken already, by their place.

    Keys are taken in one order everywhere, so that rivals with several of them cannot wait for each other.
    """
    keyed = sorted([(_place(message), index) for index, message in enumerate(new) if message.once is not None])
    if not keyed:
        return {}
    earliest: dict[tuple[int, str], NewMessage] = {}
    for place, index in keyed:
        earliest.setdefault(place, new[index])
    taken = _take(tx, earliest)
    found = {index: _first(tx, *place, new[index]) for place, index in keyed if new[index].id not in taken}
    return found | _known_by_alias(tx, new, [index for _, index in keyed if index not in found])


def _known_by_alias(tx: Transaction, new: Sequence[NewMessage], fresh: Sequence[int]) -> dict[int, Duplicate]:
    """Those of the messages with a free key whose alias is taken. The key then leads to the earlier message, too.

    All transactions take keys before aliases, and the two never meet: the order of locks is one everywhere.
    """
    found = {}
    aliased = [(alias, index) for index in fresh if (alias := _once(new[index]).alias) is not None]
    for alias, index in sorted(aliased):
        message = new[index]
        channel, key = _place(message)
        once = _once(message)
        place = {"channel": channel, "key": alias}
        if tx.one("idempotency.alias", **place, id=message.id, digest=once.digest, window=once.window) is None:
            first = found[index] = _first(tx, channel, alias, message)
            tx.run("idempotency.redirect", channel=channel, key=key, id=first.id)
    return found


def find(tx: Transaction, channel: int, key: str) -> Duplicate | None:
    """The message that was enqueued under this key, if the key is still remembered."""
    found = tx.one("idempotency.find", channel=channel, key=key)
    return None if found is None else Duplicate(*found)


def _place(message: NewMessage) -> tuple[int, str]:
    return priority.channel_of(message.lane), _once(message).key


def _once(message: NewMessage) -> Once:
    assert message.once is not None, "only messages with a key come here"
    return message.once


def _take(tx: Transaction, new: Mapping[tuple[int, str], NewMessage]) -> set[MessageId]:
    """Takes the keys of these messages, as far as they are free; the messages that have got theirs."""
    found = tx.all(
        "idempotency.remember",
        keys=msgspec.json.encode([(*place, _once(message).window) for place, message in new.items()]).decode(),
        ids=b"".join([message.id for message in new.values()]),
        digests=b"".join([_once(message).digest for message in new.values()]),
    )
    return {message_id for (message_id,) in found}


def _first(tx: Transaction, channel: int, key: str, message: NewMessage) -> Duplicate:
    found = tx.one("idempotency.recall", channel=channel, key=key)
    assert found is not None, "a key that cannot be taken is there"
    message_id, digest, result = found
    if digest != _once(message).digest:
        raise IdempotencyConflict(
            f"the idempotency key {key!r} was used before for another body: use a key per piece of work, "
            "or send the same body again"
        )
    return Duplicate(message_id, result)
