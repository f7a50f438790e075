"""`max_depth`: how many messages of a queue may wait, or of a topic be needed by a group. Shared by both stores.

A limited queue has a number that its depth cannot be above. Arrivals raise it, one after the other; what leaves the
queue does not touch it. Only when the number says "full" are the messages counted, and only that count refuses. So a
claim or an ack costs nothing, and an arrival a count once in as many arrivals as there was room.

Of a topic, only those messages count that a live or paused group is not done with: others are kept for groups to come,
and bounded by retention. Whatever makes a group need more than it did (it is new, alive again, put back, or wants other
names) leaves the number in doubt, so that the next arrival counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import priority
from holdfast.core.message import NewMessage, encode_json
from holdfast.errors import QueueFull
from holdfast.store.engine import counters, expire_messages
from holdfast.store.transaction import Transaction
from holdfast.topics.rules import routing


def admit(tx: Transaction, new: Sequence[NewMessage]) -> None:
    """Makes room for them, or raises `QueueFull`. Whoever was admitted holds up the next until it commits."""
    limited: dict[int, list[NewMessage]] = {}
    for message in new:
        if message.limited:
            limited.setdefault(priority.channel_of(message.lane), []).append(message)
    for channel, messages in sorted(limited.items()):
        if tx.run("depth.enter", channel=channel, count=len(messages)) == 0:
            _admit_by_count(tx, channel, messages)


def grow(tx: Transaction, group: int, count: int) -> None:
    """What comes back, or is told to a queue, always fits; it counts all the same."""
    if count:
        tx.run("depth.grow", group=group, count=count)


def limit(tx: Transaction, channel: int, most: int | None) -> None:
    """A queue's limit is new, another, or gone. Until all clients know it, every arrival counts."""
    known = tx.one("depth.most", channel=channel)
    if most is None and known is not None:
        tx.run("depth.open", channel=channel)
    elif most is not None and known != (most,):  # Unchanged, it need not wait for those who are arriving.
        tx.run("depth.limit", channel=channel, most=most)


def doubt(tx: Transaction, topic: int) -> None:
    """A group may need more messages of this topic than were counted."""
    tx.run("depth.doubt", channel=topic)


def _admit_by_count(tx: Transaction, channel: int, new: Sequence[NewMessage]) -> None:
    """What nobody will claim, since its time is over, takes no room.

    But in a queue it is part of the bound, so as long as it is needed for that, every arrival counts. It is ended after
    this transaction: where nobody sweeps, it would pile up.
    """
    found = tx.one("depth.hold", channel=channel)
    if found is None:  # The limit was lifted a moment ago.
        return
    group, kind, name, most = found
    if kind == "topic":
        waiting, over, count = _needed(tx, channel), 0, _heard(tx, channel, new)
    else:
        owner = tx.one("channels.owner", group=group)
        assert owner is not None, "a group always has a channel"
        counted = counters.depth(tx, group, expire_messages.max_age_of(owner[3]))
        waiting, over, count = counted.waiting, counted.over, len(new)
    if count and waiting + count > most:
        raise QueueFull(_refusal(kind, name, waiting, count, most))
    bound = waiting + over + count
    if over and bound > most:
        tx.overdue.add(group)
    tx.run("depth.note", channel=channel, bound=bound)


def _needed(tx: Transaction, topic: int) -> int:
    before = tx.all("depth.names", channel=topic)
    names = [(wanted, name) for wanted, name in before if routing.is_wanted(wanted, name)]
    found = tx.one("depth.needed", channel=topic, names=encode_json(names).decode())
    assert found is not None, "a count is always one row"
    return found[0]  # type: ignore[no-any-return]


def _heard(tx: Transaction, topic: int, new: Sequence[NewMessage]) -> int:
    """How many of these a group will need."""
    listeners = [wanted for (wanted,) in tx.all("topics.listeners", channel=topic)]
    if None in listeners:
        return len(new)
    return sum(any(routing.is_wanted(wanted, one.topic or "") for wanted in listeners) for one in new)


def _refusal(kind: str, name: str, pending: int, count: int, most: int) -> str:
    if kind == "topic":
        return (
            f"the topic {name!r} has {pending} messages that groups still need and may have {most} (max_depth), so "
            f"{count} more do not fit; nothing was stored. Try again when its groups have caught up "
            f"(hf.groups.list({name!r}) says which lag behind), or allow more with hf.topic({name!r}, max_depth=…)"
        )
    return (
        f"the queue {name!r} has {pending} messages waiting and may have {most} (max_depth), so {count} more "
        f"do not fit; nothing was stored. Try again when consumers have caught up, or allow more with "
        f"hf.queue({name!r}, max_depth=…)"
    )
