"""New messages: those whose idempotency key is known are left out, the others need room, then they are stored."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import priority
from holdfast.core.message import Duplicate, NewMessage
from holdfast.errors import NoSubscribers
from holdfast.store.engine import depth, idempotency
from holdfast.store.transaction import Transaction
from holdfast.topics.rules import routing


def insert(tx: Transaction, new: Sequence[NewMessage]) -> list[Duplicate | None]:
    """Stores all of them or raises; for each one that was there before, what became of it."""
    known = idempotency.known(tx, new)
    fresh = [message for index, message in enumerate(new) if index not in known]
    if tx.again:
        fresh = unheard(tx, fresh)
    depth.admit(tx, fresh)
    _refuse_unheard(tx, fresh)
    tx.insert(fresh)
    # A key of our own, from a try whose answer got lost: the message is stored, and may even be done by now.
    return [first if (first := known.get(i)) and first.id != new[i].id else None for i in range(len(new))]


def _refuse_unheard(tx: Transaction, new: Sequence[NewMessage]) -> None:
    """A topic may refuse messages that no live group wants."""
    published: dict[int, set[str]] = {}
    for message in new:
        if message.to_groups and message.topic is not None:
            published.setdefault(priority.channel_of(message.lane), set()).add(message.topic)
    for channel, names in published.items():
        listeners = [wanted for (wanted,) in tx.all("topics.listeners", channel=channel)]
        for name in sorted(names):
            if not any(wanted is None or routing.is_wanted(wanted, name) for wanted in listeners):
                raise _unheard(tx, channel, name, bool(listeners))


def _unheard(tx: Transaction, channel: int, name: str, has_listeners: bool) -> NoSubscribers:
    found = tx.one("topics.find", channel=channel)
    assert found is not None, "messages for groups go to a topic"
    topic = found[2]
    reason = f"has a pattern that matches {name!r}" if has_listeners else "is live"
    return NoSubscribers(
        f"no group of the topic {topic!r} {reason}, and the topic refuses messages that no group would get; nothing "
        f'was stored: hf.subscribe({topic!r}, …), or hf.topic({topic!r}, no_subscribers="keep")'
    )


def unheard(tx: Transaction, new: Sequence[NewMessage]) -> list[NewMessage]:
    """Those that an earlier try, whose answer got lost, did not store."""
    known = tx.each("lanes.is_known", [{"id": message.id} for message in new])
    return [message for message, found in zip(new, known, strict=True) if found is None]
