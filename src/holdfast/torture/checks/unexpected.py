"""Unexpected: nobody ever sent it."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.torture.account import Account
from holdfast.torture.ending import STEP


def unexpected(found: Account) -> Iterator[str]:
    invoked = {(sent.channel, sent.id) for sent in found.sends}
    seen = {address: f"claimed: {grants[0].value!r}" for address, grants in found.grants.items()}
    for end in found.final.channels:
        for id, state in end.messages.items():
            seen.setdefault((end.name, id), f"found {state} in the end")
    for (channel, id), how in seen.items():
        kind = found.ends[channel].kind if channel in found.ends else ""
        if kind != STEP and (found.entry(channel), id) not in invoked:
            yield f"{id} of {channel} was never sent, but {how}"
