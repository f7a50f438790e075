"""How many messages came, were claimed, ended: counted in the transactions in which it happens. Shared by both stores.

There is a row per group, second and session, so that nobody waits for anybody; what is older than two minutes is added
up into one. So a queue of any size is counted by adding a few numbers, and rates are known for the last minute.
"""

from __future__ import annotations

from collections import Counter

from holdfast.core.lifecycle import Event
from holdfast.core.message import Lease
from holdfast.store.transaction import Transaction

_ENDS = {Event.ACKED, Event.DIED, Event.EXPIRED}
_FAILS = {Event.FAILED, Event.DIED}


def add(
    tx: Transaction,
    group: int,
    *,
    arrived: int = 0,
    ended: int = 0,
    dead: int = 0,
    claimed: int = 0,
    completed: int = 0,
    failed: int = 0,
    lapsed: int = 0,
    since: int = 0,
) -> None:
    """`since` is the sum of the times at which the completed ones were claimed."""
    if arrived or ended or dead or claimed or failed or lapsed:
        tx.run(
            "tally.add",
            group=group,
            arrived=arrived,
            ended=ended,
            dead=dead,
            claimed=claimed,
            completed=completed,
            failed=failed,
            lapsed=lapsed,
            since=since,
        )


class Endings:
    """Claims that end by their holders' word, added up before they are written down."""

    def __init__(self) -> None:
        self._groups: dict[int, Counter[str]] = {}

    def note(self, lease: Lease, event: Event, count: int = 1) -> None:
        """So many claims of a lease have ended this way."""
        sums = self._groups.setdefault(lease.group, Counter())
        if event in _ENDS:
            sums["ended"] += count
        if event in _FAILS:
            sums["failed"] += count
        if event is Event.ACKED:
            sums["completed"] += count
            sums["since"] += count * lease.since

    def add_to(self, tx: Transaction) -> None:
        """Writes it down, in the order in which everyone locks groups."""
        for group, sums in sorted(self._groups.items()):
            add(tx, group, **sums)


def fold(tx: Transaction, group: int) -> None:
    """Adds up what is long ago; once a minute or so, there is something to do."""
    if tx.one("tally.is_old", group=group):
        tx.run("tally.fold", group=group)
        tx.run("tally.forget", group=group)


def depth(tx: Transaction, group: int) -> tuple[int, int, int]:
    """How many messages wait, are in someone's hands, and are dead."""
    totals, held = tx.one("tally.totals", group=group), tx.one("rows.held", group=group)
    assert totals is not None, "a sum is always one row"
    assert held is not None, "a count is always one row"
    unfinished, dead = totals
    processing = held[0]
    for size, bits in tx.all("runs.open_runs", group=group):
        processing += size - int.from_bytes(bits or b"", "little").bit_count()
    return unfinished - processing, processing, dead
