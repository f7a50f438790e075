"""Stuck: nothing was in its way any more, and it did not end, or not in time."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from holdfast.torture.account import Account
from holdfast.torture.ending import OVER, TOPIC
from holdfast.torture.history import FINAL_ENDINGS


def stuck(found: Account) -> Iterator[str]:
    """After the last fault everything that is due ends, within the time that it is given."""
    for end in found.final.channels:
        if end.kind == TOPIC:
            continue
        for id, state in end.messages.items():
            if state not in OVER:
                grants = found.grants.get((end.name, id), [])
                yield f"{id} of {end.name} is still {state}: {'; '.join(grant.told() for grant in grants)}"
    yield from _too_late(found)


def _too_late(found: Account) -> Iterator[str]:
    if found.healed is None or not found.final.patience:
        return
    deadline = found.healed + found.final.patience * 1_000_000
    for (channel, id), grants in found.grants.items():
        ends = [end for grant in grants for end in grant.endings if end.op in FINAL_ENDINGS and end.happened]
        ended = min((end.returned for end in ends), default=-inf)
        if ended > deadline:
            took, most = (ended - found.healed) / 1_000_000, found.final.patience
            yield f"{id} of {channel} ended {took:.1f} s after the heal, and not within {most:g} s"
