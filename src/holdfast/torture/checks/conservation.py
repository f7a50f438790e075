"""Conservation: what was stored = what has ended + what waits + what is held, by messages and by the statistics."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from holdfast.torture.account import Account
from holdfast.torture.ending import STEP, TOPIC, ChannelEnd

COUNTED = {"pending": ("pending", "waiting"), "processing": ("processing",), "dead": ("dead",)}
"""State of a message → what it is counted as."""

ENDED = ("succeeded", "canceled", "expired")
"""States that no statistics count."""


def unaccounted(found: Account) -> Iterator[str]:
    stored = _stored(found)
    for end in found.final.channels:
        if end.kind == TOPIC or not end.counts:
            continue
        states = Counter(end.messages.values())
        for state, names in COUNTED.items():
            counted = sum(end.counts.get(name, 0) for name in names)
            if counted != states[state]:
                yield f"{end.name} has {states[state]} messages that are {state}, but counts {counted}"
        if end.kind != STEP:  # What is sent there, nobody but the database knows.
            yield from _unbalanced(found, end, states, stored[end.name])


def _unbalanced(found: Account, end: ChannelEnd, states: Counter[str], stored: set[str]) -> Iterator[str]:
    """What is done and forgotten is known by its ack."""
    forgotten = sum(id not in end.messages and bool(found.acks((end.name, id))) for id in stored)
    ended = {state: states[state] for state in ENDED}
    ended["succeeded"] += 0 if end.keeps else forgotten
    terms = ended | {name: end.counts.get(name, 0) for names in COUNTED.values() for name in names}
    if len(stored) != sum(terms.values()):
        told = " + ".join(f"{count} {name}" for name, count in terms.items())
        yield f"{end.name}: {len(stored)} were stored, which is not {told}"


def _stored(found: Account) -> dict[str, set[str]]:
    """By channel that they can be claimed from."""
    stored: defaultdict[str, set[str]] = defaultdict(set)
    for sent in found.sends:
        id = found.stored(sent)
        if id is not None:
            for reader in found.readers(sent.channel):
                stored[reader].add(id)
    return stored
