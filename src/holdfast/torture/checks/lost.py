"""Lost: its producer was told that it is safe, and it is nowhere."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.torture.account import Account, Sent
from holdfast.torture.history import OK


def lost(found: Account) -> Iterator[str]:
    """Queues; what a group is owed is another check. Whoever was told of a duplicate counts on the first one."""
    for sent in found.sends:
        end = found.ends.get(sent.channel)
        if sent.outcome == OK and (end is None or end.kind == "queue") and is_gone(found, sent, sent.channel):
            yield f"{sent.value!r} was stored in {sent.channel} as {sent.stored} and is nowhere: {told(found, sent)}"


def is_gone(found: Account, sent: Sent, reader: str) -> bool:
    """Neither in the database nor acked, as far as anybody knows."""
    return found.state(reader, sent.stored) is None and not found.acks((reader, sent.stored))


def told(found: Account, sent: Sent) -> str:
    grants = found.grants.get((sent.channel, sent.stored), [])
    return "; ".join(grant.told() for grant in grants) or "nobody claimed it"
