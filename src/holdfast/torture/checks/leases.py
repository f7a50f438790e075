"""Double lease: two holders of one message at one moment, by the database's own clock."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from holdfast.torture.account import Account

CLOCK_STEP = 2_000
"""SQLite's clock counts whole milliseconds; two readings may differ by this without meaning anything."""


def held_by_two(found: Account) -> Iterator[str]:
    """Who is stopped, cut off or dead holds its claim until the lease is over; who said anything may have ended it."""
    for (channel, id), grants in found.grants.items():
        for earlier, later in pairwise(grants):
            if earlier.may_have_ended(later.at):
                continue
            early = earlier.held_until(later.at) - later.since
            if early > CLOCK_STEP:
                yield (
                    f"{id} of {channel} was given to {later.told()} {early / 1000:.1f} ms before the lease of "
                    f"{earlier.told()} was over"
                )
