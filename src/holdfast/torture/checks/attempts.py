"""Attempts: each is given out once, and they count 1, 2, 3, … up to the most there may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf

from holdfast.torture.account import Account, ObservedClaim


def claimed_twice(found: Account) -> Iterator[str]:
    """An attempt, and a token, has one holder. An attempt that was given back does not count."""
    for (channel, id), grants in found.grants.items():
        tokens = Counter(grant.token for grant in grants)
        spent = Counter(grant.attempt for grant in grants if grant.spent())
        for token, times in tokens.items():
            if times > 1:
                yield f"token {token} for {id} of {channel} was given out {times} times: {_told(grants)}"
        for attempt, times in spent.items():
            if times > 1:
                yield f"attempt {attempt} at {id} of {channel} was given out {times} times: {_told(grants)}"


def attempts_out_of_line(found: Account) -> Iterator[str]:
    """The next attempt has the next number. A hole is somebody who claimed it in between and could not tell of it."""
    sent = {(one.channel, one.id): one.invoked for one in reversed(found.sends)}
    for (channel, id), grants in found.grants.items():
        unheard = found.unheard.get(channel)
        since: float = sent.get((found.entry(channel), id), -inf)
        end = found.ends.get(channel)
        if end is not None and end.max_attempts and grants[-1].attempt > end.max_attempts:
            yield f"{id} of {channel} may be tried {end.max_attempts} times, but: {_told(grants)}"
        least = most = 0
        """How many attempts are spent at least and at most."""
        for grant in grants:
            hidden = 0 if unheard is None else unheard.between(since, grant.at)
            if not least + 1 <= grant.attempt <= most + 1 + hidden:
                yield f"attempts at {id} of {channel} do not count up: {_told(grants)}"
                break
            since, spent = grant.asked, grant.spent()
            least = grant.attempt - 1 if spent is not True else grant.attempt
            most = grant.attempt if spent is not False else grant.attempt - 1


def _told(grants: Sequence[ObservedClaim]) -> str:
    return "; ".join(grant.told() for grant in grants)
