"""How many messages came, were claimed, ended: counted in the transactions in which it happens. Shared by both stores.

There is a row per group, second and session, so that nobody waits for anybody; what is older than two minutes is added
up into one. So a queue of any size is counted by adding a few numbers, and rates are known for the last minute.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.lifecycle import LifecycleEvent
from holdfast.core.message import Lease
from holdfast.store.transaction import Transaction

MOST_SECONDS = 1_000
"""So many rows are added up in one transaction, if nobody did it for long."""

FIRST_LOOK = 256
"""So many messages at the front of a lane are looked at for those that are too old; more, if most of them are."""

_ENDS = {LifecycleEvent.ACKED, LifecycleEvent.DIED, LifecycleEvent.EXPIRED, LifecycleEvent.CANCELED}
_FAILS = {LifecycleEvent.FAILED, LifecycleEvent.DIED}
_NOTHING = {
    "arrived": 0,
    "ended": 0,
    "dead": 0,
    "claimed": 0,
    "completed": 0,
    "failed": 0,
    "lapsed": 0,
    "since": 0,
    "kept": 0,
}


def add(tx: Transaction, group: int, **sums: int) -> None:
    """To be written when the transaction ends."""
    tally = tx.tallies.setdefault(group, dict(_NOTHING))
    for name, count in sums.items():
        tally[name] += count


def settled(tx: Transaction, lease: Lease, event: LifecycleEvent, count: int = 1) -> None:
    """So many claims of a lease have ended by their holder's word. `since` adds up when the acked ones were claimed."""
    if event is LifecycleEvent.ACKED:
        add(tx, lease.group, ended=count, completed=count, since=count * lease.since_us)
    else:
        add(tx, lease.group, ended=count if event in _ENDS else 0, failed=count if event in _FAILS else 0)


def write(tx: Transaction) -> None:
    """The last thing that a transaction does."""
    for group, sums in sorted(tx.tallies.items()):
        if any(sums.values()):
            # The moments of many claims together are more than a database counts up to; their average is not.
            sums["since"] //= max(1, sums["completed"])
            tx.run("tally.add", group=group, **sums)
    tx.tallies.clear()


def fold(tx: Transaction, group: int) -> None:
    """Adds up what is long ago, a part of it; once a minute or so, there is something to do."""
    if tx.one("tally.is_old", group=group):
        tx.run("tally.fold", group=group, limit=MOST_SECONDS)
        tx.run("tally.forget", group=group, limit=MOST_SECONDS)


class Depth(msgspec.Struct):
    """How many messages wait (of these `not_due` yet, and `with_sqs`), are in someone's hands, and are dead.

    `over` are those that nobody will claim, since their time is over; no sweep has come by yet. They are none of the
    others, and `over_not_due` and `over_with_sqs` say what they would have been.
    """

    waiting: int
    processing: int
    dead: int
    over: int
    over_not_due: int
    over_with_sqs: int


def depth(tx: Transaction, group: int, max_age: float | None, with_lanes: bool = True) -> Depth:
    """How many messages wait, are in someone's hands, and are dead.

    First what has not ended, then at one moment what of that does not wait. So what happens in between can only be
    counted as waiting: the depth may be too high by that, never too low.
    """
    totals = tx.one("tally.totals", group=group)
    assert totals is not None, "a sum is always one row"
    unfinished, dead = totals
    limit = FIRST_LOOK if with_lanes and max_age is not None else 0
    while True:
        found = tx.one("depth.count", group=group, born=born(tx, max_age), limit=limit)
        assert found is not None, "a count is always one row"
        in_rows, runs, over, not_due, with_sqs, in_lanes, is_more = found
        if not is_more:
            break
        limit *= 4
    processing = in_rows + _in_runs(msgspec.json.decode(runs or "[]"))
    over += in_lanes
    return Depth(unfinished - processing - over, processing, dead, over, not_due, with_sqs)


def born(tx: Transaction, max_age: float | None) -> int:
    """Messages from this moment or before are older than their queue allows."""
    return -1 if max_age is None else tx.clock() - round(max_age * 1_000_000)


def _in_runs(runs: Sequence[tuple[int, str | None]]) -> int:
    """How many members of open runs are not settled, from the size and the settled bits of each."""
    return sum(size - (int(settled, 16).bit_count() if settled else 0) for size, settled in runs)


def held(tx: Transaction, group: int) -> int:
    """How many messages are in someone's hands: the open leases, not a counter."""
    found = tx.one("rows.held", group=group)
    assert found is not None, "a count is always one row"
    in_rows: int = found[0]
    in_runs: int = sum(
        size - int.from_bytes(bits or b"", "little").bit_count() for size, bits in tx.all("runs.open_runs", group=group)
    )
    return in_rows + in_runs
