"""Lost: its producer was told that it is safe, or someone had it, and it is nowhere."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.torture.account import Account
from holdfast.torture.ending import QUEUE


def lost(found: Account) -> Iterator[str]:
    """Queues; what a group is owed is another check. Whoever was told of a duplicate counts on the first one."""
    for sent in found.sends:
        end = found.ends.get(sent.channel)
        id = found.stored(sent) if end is None or end.kind == QUEUE else None
        if id is not None and is_gone(found, sent.channel, id):
            yield f"{sent.value!r} was stored in {sent.channel} as {id} and is nowhere: {told(found, sent.channel, id)}"


def is_gone(found: Account, reader: str, id: str) -> bool:
    """Neither in the database nor acked. Whether an ack counted that nobody heard of, a database can say that keeps
    what is done; another one may have forgotten it."""
    if found.state(reader, id) is not None:
        return False
    end = found.ends.get(reader)
    keeps = end is not None and end.keeps
    return not any(ack.happened or not keeps for ack in found.acks((reader, id)))


def told(found: Account, channel: str, id: str) -> str:
    grants = found.grants.get((channel, id), [])
    return "; ".join(grant.told() for grant in grants) or "nobody claimed it"
