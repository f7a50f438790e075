"""Conservation: what was stored = what has ended + what waits + what is held, by messages and by the statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.torture.account import Account
from holdfast.torture.ending import TOPIC

COUNTED = {"pending": ("pending", "waiting"), "processing": ("processing",), "dead": ("dead",)}
"""State of a message → what it is counted as."""


def unaccounted(found: Account) -> Iterator[str]:
    for end in found.final.channels:
        if end.kind == TOPIC or not end.counts:
            continue
        states = Counter(end.messages.values())
        for state, names in COUNTED.items():
            counted = sum(end.counts.get(name, 0) for name in names)
            if counted != states[state]:
                yield f"{end.name} has {states[state]} messages that are {state}, but counts {counted}"
