"""`max_depth`: how many messages of a queue may wait, or a topic may hold. Shared by both stores.

A limited queue has a number that its depth cannot be above. Arrivals raise it, one after the other; what leaves the
queue does not touch it. Only when the number says "full" are the messages counted, and only that count refuses. So a
claim or an ack costs nothing, and an arrival a count once in as many arrivals as there was room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from holdfast.core import priority
from holdfast.core.message import NewMessage
from holdfast.errors import QueueFull
from holdfast.store import ageing, tally
from holdfast.store.transaction import Transaction


def admit(tx: Transaction, new: Sequence[NewMessage]) -> None:
    """Makes room for them, or raises `QueueFull`. Whoever was admitted holds up the next until it commits."""
    limited = [priority.channel_of(message.lane) for message in new if message.limited]
    wanted = Counter(limited) if limited else {}
    for channel, count in sorted(wanted.items()):
        if tx.run("depth.enter", channel=channel, count=count) == 0:
            _admit_by_count(tx, channel, count)


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


def _admit_by_count(tx: Transaction, channel: int, count: int) -> None:
    """What nobody will claim, since its time is over, takes no room.

    But it is part of the bound, so as long as it is needed for that, every arrival counts. It is ended after this
    transaction: where nobody sweeps, it would pile up.
    """
    found = tx.one("depth.hold", channel=channel)
    if found is None:  # The limit was lifted a moment ago.
        return
    group, kind, name, most = found
    owner = tx.one("channels.owner", group=group)
    assert owner is not None, "a group always has a channel"
    counted = tally.depth(tx, group, ageing.max_age_of(owner[3]))
    if counted.waiting + count > most:
        raise QueueFull(_refusal(kind, name, counted.waiting, count, most))
    bound = counted.waiting + counted.over + count
    if bound > most:
        tx.overdue.add(group)
    tx.run("depth.note", channel=channel, bound=bound)


def _refusal(kind: str, name: str, pending: int, count: int, most: int) -> str:
    if kind == "topic":
        return (
            f"the topic {name!r} holds {pending} messages and may hold {most} (max_depth), so {count} more do not fit; "
            f"nothing was stored. They go when every group is done with them (hf.groups({name!r}) says which is not), "
            f"or at the topic's retention; allow more with hf.topic({name!r}, max_depth=…)"
        )
    return (
        f"the queue {name!r} has {pending} messages waiting and may have {most} (max_depth), so {count} more "
        f"do not fit; nothing was stored. Try again when consumers have caught up, or allow more with "
        f"hf.queue({name!r}, max_depth=…)"
    )
