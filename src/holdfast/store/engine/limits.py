"""Limits of a queue, exact over all workers: how many messages are held at once, and how many are claimed per time.

Nothing is counted up and down: a slot *is* a lease. What is held is counted from the open leases, under a lock that
keeps other claims of the same queue out, so a slot that is not given back ends with its lease. Of claims per time a
note is kept, in the claim's own transaction. A queue without limits has none of this. Shared by both stores.

In any span of `per` seconds, by the database's clock, at most `count` messages are claimed. What is claimed in the same
64th of `per` is noted as one, with the time of the last: a claim can be late by that much, and never early.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core import priority
from holdfast.core.limits import Rate
from holdfast.core.queue import QueueSpec
from holdfast.store.api import Channel
from holdfast.store.engine import counters
from holdfast.store.transaction import Transaction
from holdfast.topics.rules.declaration import GroupSpec

UNLIMITED, RATED, MAKES_ROOM = 0, 1, 2
"""What a group says of its limits: none, only how often its messages are claimed, or also how many are held."""

FRONT = 200
"""How many due rows of full keys a claim looks past, before it goes round the keys."""

QUEUE = ""
"""Stands for the queue itself where a key is noted as `=` and the key."""

PAST = "<"
"""Stands for what was there before a topic's group."""


class Limit(msgspec.Struct):
    """The limits of a queue, as the database knows them; times in microseconds."""

    concurrency: int | None
    rate_count: int | None
    rate_per: int | None
    key_concurrency: int | None
    key_rate_count: int | None
    key_rate_per: int | None
    catch_up_count: int | None = None
    catch_up_per: int | None = None
    turn: str | None = None

    @property
    def by_key(self) -> bool:
        """Whether each key has a limit of its own."""
        return self.key_concurrency is not None or self.key_rate_count is not None


def level(spec: QueueSpec) -> int:
    """What the group of such a queue says of its limits."""
    if spec.concurrency is not None or spec.key_concurrency is not None:
        return MAKES_ROOM
    return UNLIMITED if spec.rate is None and spec.key_rate is None else RATED


def declare(tx: Transaction, channel: int, group: int, spec: QueueSpec) -> None:
    """A queue's limits are new, others, or gone. Sleepers look again."""
    catch_up = _catch_up_rate(spec)
    count, per = _in_micros(spec.rate)
    key_count, key_per = _in_micros(spec.key_rate)
    wanted = Limit(spec.concurrency, count, per, spec.key_concurrency, key_count, key_per, *_in_micros(catch_up))
    known = find(tx, group)
    if known is not None:
        wanted.turn = known.turn
    has_none = level(spec) == UNLIMITED and catch_up is None
    if wanted == known or (known is None and has_none):
        return
    tx.rings.add(channel)
    if has_none:
        tx.run("limits.lift", group=group)
    else:
        named = msgspec.structs.asdict(wanted)
        del named["turn"]
        tx.run("limits.set", group=group, **named)
    if spec.rate is None and spec.key_rate is None and catch_up is None:
        tx.run("limits.forget", group=group)


def find(tx: Transaction, group: int) -> Limit | None:
    """The limits of a group, if it has any."""
    found = tx.one("limits.find", group=group)
    return None if found is None else Limit(*found)


def room(tx: Transaction, group: int, limit: Limit, wanted: int) -> int:
    """How many of the wanted messages may be claimed now."""
    if limit.concurrency is not None:
        wanted = min(wanted, limit.concurrency - counters.held(tx, group))
    if limit.rate_count is not None:
        wanted = min(wanted, limit.rate_count - started(tx, group, QUEUE, limit.rate_per)[0])
    return max(wanted, 0)


def handed_over(tx: Transaction, group: int) -> int:
    """How many messages are with SQS, or on the way there: as good as claimed."""
    found = tx.one("delivery.out", group=group)
    assert found is not None, "a count is always one row"
    return found[0]  # type: ignore[no-any-return]


def started(tx: Transaction, group: int, key: str, per: int | None) -> tuple[int, int | None]:
    """How many were claimed in the last `per`, and after how many microseconds the first of them is past that."""
    found = tx.one("limits.started", group=group, key=key, per=per)
    assert found is not None, "a sum is always one row"
    return found[0], found[1]


def window(spec: QueueSpec) -> int | None:
    """For how long a claim is noted, in microseconds."""
    rates = (spec.rate, spec.key_rate, _catch_up_rate(spec))
    return max((per for _, per in map(_in_micros, rates) if per), default=None)


def prune(tx: Transaction, channel: Channel, most: int) -> int:
    """Forgets claims that no rate looks at any more; how many notes of them."""
    per = window(channel.spec)
    return 0 if per is None else tx.run("limits.outdated", group=channel.group, per=per, limit=most)


def next_due(tx: Transaction, channel: Channel) -> list[int]:
    """After how many microseconds a limited queue may have something to claim without anyone's doing."""
    group, limit = channel.group, find(tx, channel.group)
    moments = [tx.one("limits.next_end", group=group)]
    paused = tx.one("channels.is_paused", group=group)
    if limit is not None and not (paused and paused[0]):
        out = 0 if channel.spec.has_lanes else handed_over(tx, group)
        if room(tx, group, limit, out + 1) > out:
            moments += _next_rows(tx, channel, limit)
        elif limit.rate_count is not None:
            count, until_next = started(tx, group, QUEUE, limit.rate_per)
            moments.append((until_next,) if count >= limit.rate_count else None)
    return [found[0] for found in moments if found and found[0] is not None]


def _next_rows(tx: Transaction, channel: Channel, limit: Limit) -> Sequence[tuple[int | None] | None]:
    """A row that could be claimed at once, one that becomes due, a key that may go on."""
    moments = []
    for level in priority.ALL:
        place = {"group": channel.group, "lane": channel.lane(level)}
        if any(free for *_, free in tx.all("limits.front", **place, limit=FRONT if limit.by_key else 1, alone=True)):
            return [(0,)]
        moments.append(tx.one("limits.next_row", **place))
    if limit.key_rate_count is not None:
        moments.append(tx.one("limits.next_of_a_key", group=channel.group, per=limit.key_rate_per))
    return moments


def past_room(tx: Transaction, group: int, limit: Limit) -> tuple[int | None, int]:
    """How many may be claimed now of what was there before a group (None: any number); until when, if none."""
    if limit.catch_up_count is None:
        return None, 0
    count, until_next = started(tx, group, PAST, limit.catch_up_per)
    return max(limit.catch_up_count - count, 0), until_next or 0


def _catch_up_rate(spec: QueueSpec) -> Rate | None:
    return spec.catch_up_rate if isinstance(spec, GroupSpec) else None


def _in_micros(rate: Rate | None) -> tuple[int | None, int | None]:
    return (None, None) if rate is None else (rate.count, round(rate.per * 1_000_000))
