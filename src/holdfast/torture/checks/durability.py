"""Durability: what a process was told has happened is still so in the end, whatever crashed since; what was
refused has not happened."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.torture.account import Account
from holdfast.torture.history import ACK, DIE

BECOMES = {ACK: "succeeded", DIE: "dead"}


def taken_back(found: Account) -> Iterator[str]:
    for (channel, id), grants in found.grants.items():
        end = found.ends.get(channel)
        if end is None:
            continue
        for grant in grants:
            for ending in grant.endings:
                wanted = BECOMES.get(ending.op)
                state = end.messages.get(id)
                if wanted is None or not ending.happened or state == wanted or (state is None and not end.keeps):
                    continue
                yield f"{id} of {channel} is {state or 'nowhere'} in the end, although: {grant.told()}"
    for end in found.final.channels:
        for id, state in end.messages.items():
            if state == "succeeded" and not found.acks((end.name, id)):
                yield f"{id} of {end.name} succeeded in the end, but nobody's ack was accepted"
