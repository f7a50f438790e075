"""What leaves a topic: in short steps, from the front of its lanes, by anyone at any time. Shared by both stores.

Why nothing can go that someone may still claim: that a group is done with a message stays true for ever, and a claim
moves its cursor and records its run in one transaction. So it is safe without a lock to read first the front, then who
waits for what, then the open runs: a message that is claimed meanwhile was still waited for, or is in a run that is
seen; and one whose transaction commits meanwhile is not among those that go. Whoever may lose something (a dead group,
or any group if messages are too old) is kept from claiming first, and all is read again; who is just claiming stays out
of it, and nothing goes that it waits for. New groups, and those that are to read something again, use `topics.hold`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from holdfast.core import priority
from holdfast.core.dead_letter import ErrorText
from holdfast.core.message import encode_json
from holdfast.notices import steps as notices
from holdfast.store.api import Topic
from holdfast.store.engine import counters, idempotency
from holdfast.store.transaction import Transaction
from holdfast.topics.rules import routing
from holdfast.topics.rules.retention import Loss, Reader, Retained, RetainedMessage, removable
from holdfast.topics.steps import skip

MOST_MESSAGES = 2_000
"""So many are looked at, and leave a lane, in one transaction: some milliseconds of SQLite's only write lock."""

MOST_LOSERS, FEWEST_MESSAGES = 10, 100
"""So many groups may lose as much in one transaction: if there are more, less goes, but never less than this."""


def is_due(tx: Transaction, topic: Topic) -> bool:
    """Whether there may be something to remove: a look that keeps nobody waiting."""
    if tx.one("retention.is_due", channel=topic.id, group=topic.group) is not None:
        return True
    return removes(tx, topic)


def removes(tx: Transaction, topic: Topic) -> bool:
    """Whether messages would go now, if the topic had these settings."""
    return any(_choose(tx, topic, lane)[0] for lane in _lanes(topic))


def retain(tx: Transaction, topic: Topic, limit: int) -> Retained:
    """Removes what need not be kept any more, a bounded part of it. Nothing while someone else is at it."""
    if tx.one("retention.begin", topic=topic.id) is None:
        return Retained()
    gone = idempotency.prune(tx, topic.id, limit)
    counters.fold(tx, topic.group)
    room = MOST_MESSAGES
    losses: list[Loss] = []
    for lane in _lanes(topic):
        removed, share = _retain_lane(tx, topic, lane, room, losses)
        room -= removed * share
        gone += removed
        if room <= 0:
            break
    return Retained(gone, losses)


def _lanes(topic: Topic) -> list[int]:
    return [priority.lane(topic.id, level) for level in priority.ALL]


def _retain_lane(tx: Transaction, topic: Topic, lane: int, room: int, losses: list[Loss]) -> tuple[int, int]:
    """How much went, and how many times the work it was to remove it: each group that loses it is some."""
    chosen, losers = _choose(tx, topic, lane, room)
    share = max(1, math.ceil(len(losers) / MOST_LOSERS))
    if losers:
        room = max(room // share, min(room, FEWEST_MESSAGES))
        groups = encode_json([one.group for one in losers]).decode()
        sure = {group for (group,) in tx.all("retention.hold", lane=lane, groups=groups)}
        chosen, losers = _choose(tx, topic, lane, room, sure)
    for loser in losers:
        if lost := _note_loss(tx, topic, lane, loser, chosen):
            losses.append(Loss(loser.name, lost))
    if chosen:
        tx.run("retention.remove", lane=lane, **_span(chosen))
        counters.add(tx, topic.group, ended=len(chosen))
        tx.one("retention.thin", lane=lane, place=chosen[-1].place[1])
    return len(chosen), share


def _choose(
    tx: Transaction, topic: Topic, lane: int, room: int = MOST_MESSAGES, sure: Iterable[int] | None = None
) -> tuple[list[RetainedMessage], list[Reader]]:
    """What may go, and who may wait for something of it. Read in this order, see above."""
    now = tx.clock()
    done_before = now - round(topic.spec.kept_for * 1_000_000)
    all_before = now - round(topic.spec.retention * 1_000_000)
    if not any(kept.enqueued_at <= done_before for kept in _front(tx, lane, 1)):  # Mostly nothing is old enough.
        return [], []
    front = _front(tx, lane, room)
    found = tx.all("retention.readers", topic=topic.id, lane=lane)
    readers = [
        Reader(group, name, bool(is_dead), wanted, None if minor is None else (major, minor))
        for group, name, is_dead, wanted, major, minor in found
    ]
    held = [(row[:2], row[2:]) for row in tx.all("retention.held", topic=topic.id, lane=lane)]
    chosen = removable(front, readers, held, done_before, all_before, sure)
    return chosen, [one for one in readers if chosen and one.misses(chosen[-1].place)]


def _front(tx: Transaction, lane: int, limit: int) -> list[RetainedMessage]:
    return [
        RetainedMessage((major, minor), *rest)
        for major, minor, *rest in tx.all("retention.front", lane=lane, limit=limit)
    ]


def _note_loss(tx: Transaction, topic: Topic, lane: int, loser: Reader, chosen: list[RetainedMessage]) -> int:
    """How much a group would have got of it, counted and told to its owner. What had outlived its own time is no loss,
    nor is what it was to skip."""
    skipped = skip.skipped(tx, loser.group).intersection(kept.id for kept in chosen)
    skip.pass_by(tx, loser.group, skipped)
    pending = {minor for (minor,) in tx.all("retention.pending", group=loser.group, lane=lane, **_span(chosen))}
    now = tx.clock()
    lost = sum(
        kept.place[1] in pending
        and kept.id not in skipped
        and (kept.expires_at is None or kept.expires_at > now)
        and (loser.wanted is None or routing.is_wanted(loser.wanted, kept.topic))
        for kept in chosen
    )
    if not lost:
        return 0
    found = tx.one("retention.lose", group=loser.group, count=lost, dead=loser.is_dead)
    assert found is not None, "a group that has not ended is there"
    total, undecided = found
    fate = "it was dead, and claims nothing until you decide" if undecided else "it goes on with what is left"
    error = f"{total} messages were removed by the topic's retention before {loser.name!r} got them; {fate}"
    notices.report(tx, topic.tenant, "out_of_range", loser.name, ErrorText(error), None, loser.name)
    return lost


def _span(chosen: list[RetainedMessage]) -> dict[str, object]:
    """Which ones, as a query wants it."""
    places = encode_json([kept.place[1] for kept in chosen]).decode()
    return {"places": places, "first": chosen[0].place[0], "last": chosen[-1].place[0]}
