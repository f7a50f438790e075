"""Stale settle: an answer was accepted although its holder had lost the message by then, or had answered before."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from holdfast.torture.account import Account
from holdfast.torture.history import ENDINGS


def accepted_too_late(found: Account) -> Iterator[str]:
    for (channel, id), grants in found.grants.items():
        taken_over = inf
        for grant in reversed(grants):
            for end in grant.endings:
                if end.happened and end.invoked > taken_over:
                    yield f"{end.op} of {id} of {channel} was accepted from {grant.told()}, after someone else had it"
            taken_over = min(taken_over, grant.at)
            ended = [end for end in grant.endings if end.op in ENDINGS and end.happened]
            if len(ended) > 1:
                yield f"the claim of {id} of {channel} was ended {len(ended)} times: {grant.told()}"
            renewed = [end for end in grant.endings if end.op == "extend" and end.happened]
            first = min((end.returned for end in ended), default=inf)
            if any(end.invoked > first for end in renewed):
                yield f"the lease of {id} of {channel} was renewed after its end: {grant.told()}"
