"""Doubles: one thing that was sent, stored as two messages; one message, done twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from holdfast.torture.account import Account
from holdfast.torture.history import FINAL_ENDINGS, OK


def stored_twice(found: Account) -> Iterator[str]:
    """Of one idempotency key there is one message, whoever sent it how often; of one value without a key as well."""
    ids: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for sent in found.sends:
        name = sent.channel, f"key {sent.idem!r}" if sent.idem is not None else f"value {sent.value!r}"
        if sent.outcome == OK:
            ids[name].add(sent.stored)
        if found.is_seen(sent.channel, sent.id):
            ids[name].add(sent.id)
    for (channel, what), stored in ids.items():
        if len(stored) > 1:
            yield f"{what} of {channel} is stored under {len(stored)} ids: {', '.join(sorted(stored))}"


def done_twice(found: Account) -> Iterator[str]:
    """A message ends once, and nobody is given what has ended."""
    for (channel, id), grants in found.grants.items():
        ended: float | None = None
        ends = [end for grant in grants for end in grant.endings if end.op in FINAL_ENDINGS and end.happened]
        if len(ends) > 1:
            yield f"{id} of {channel} ended {len(ends)} times: {'; '.join(grant.told() for grant in grants)}"
        ended = min((end.returned for end in ends), default=None)
        for grant in grants:
            if ended is not None and grant.asked > ended:
                yield f"{id} of {channel} was claimed after it had ended: {grant.told()}"
