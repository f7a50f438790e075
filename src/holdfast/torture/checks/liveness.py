"""Stuck: nobody did anything to it any more, and it still has not ended."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.torture.account import Account
from holdfast.torture.ending import OVER, TOPIC


def stuck(found: Account) -> Iterator[str]:
    """After the last fault everything that is due ends within the time that a drain is given."""
    for end in found.final.channels:
        if end.kind == TOPIC:
            continue
        for id, state in end.messages.items():
            if state not in OVER:
                grants = found.grants.get((end.name, id), [])
                yield f"{id} of {end.name} is still {state}: {'; '.join(grant.told() for grant in grants)}"
