"""The numbers of a verdict that are no fault."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter

from holdfast.torture.account import Account
from holdfast.torture.ending import OVER, TOPIC
from holdfast.torture.history import ACK, ENDINGS, FAIL, INFO, OK


def counts(found: Account) -> dict[str, int]:
    outcomes = Counter(sent.outcome for sent in found.sends)
    ids = {(sent.channel, sent.stored) for sent in found.sends if sent.outcome == OK}
    unknown = {(sent.channel, sent.id) for sent in found.sends if sent.outcome == INFO} - ids
    states = Counter(state for end in found.final.channels if end.kind != TOPIC for state in end.messages.values())
    grants = [grant for grants in found.grants.values() for grant in grants]
    endings = [end for grant in grants for end in grant.endings]
    acked = sum(end.op == ACK and end.happened for end in endings)
    is_kept = all(end.keeps for end in found.final.channels)
    return {
        "events": found.events,
        "enqueued": len(ids),
        "refused": outcomes[FAIL],
        "unknown": len(unknown),
        "recovered": sum(found.is_seen(channel, id) for channel, id in unknown),
        "repeated": sum(sent.duplicate for sent in found.sends),
        "claims": len(grants),
        "done": states["succeeded"] if is_kept else acked,
        "dead": states["dead"],
        "left": sum(count for state, count in states.items() if state not in OVER),
        "retried": sum(grant.attempt > 1 for grant in grants),
        "stale refused": sum(end.outcome == FAIL and end.op in ENDINGS for end in endings),
        "unknown endings": sum(end.outcome == INFO for end in endings),
        "acked": acked,
        "sagas": len(found.final.sagas),
    }


def fault_counts(found: Account) -> dict[str, int]:
    return dict(Counter(name for _, name in found.faults))


def silences(found: Account) -> dict[str, float]:
    """By fault, the longest time until a message was done again. A fault at the end has nothing after it."""
    done = sorted(
        end.returned
        for grants in found.grants.values()
        for grant in grants
        for end in grant.endings
        if end.op == ACK and end.happened
    )
    longest: dict[str, float] = {}
    for at, name in found.faults:
        place = bisect_right(done, at)
        if place < len(done):
            longest[name] = max(longest.get(name, 0.0), (done[place] - at) / 1_000_000)
    return longest
