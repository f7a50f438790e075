"""Whether a group is still there: any claim or heartbeat counts, by the database's clock. Shared by both stores.

A dead group holds no messages any more, and claims none before it is alive again. Whatever is heard of it brings it
back; if it has lost something meanwhile, it stays without claims until someone has decided about that.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.dead_letter import ErrorText
from holdfast.core.message import encode_json
from holdfast.notices import steps as notices
from holdfast.store.api import Channel
from holdfast.store.engine import depth
from holdfast.store.transaction import Transaction
from holdfast.topics.rules.declaration import GroupSpec
from holdfast.topics.rules.liveness import GroupPulse, Heard, looked_at
from holdfast.topics.steps import topics

KNOWN_FOR = 600_000_000
"""Microseconds. Who asked for work is forgotten after an hour; when that was is noted with the group before."""


def beat(tx: Transaction, channel: Channel) -> Heard:
    """A group is there: from now on messages are kept for it again."""
    assert channel.source is not None, "only groups have a heart"
    tx.one("topics.hold", channel=channel.source)
    found = tx.one("liveness.beat", group=channel.group)
    if found is None:
        raise topics.ended(tx, channel)
    missing, revived = found[0], bool(found[1])
    if revived:
        tx.run("liveness.revive", group=channel.group)
        depth.doubt(tx, channel.source)
        tx.rings.add(channel.id)
        fate = (
            f"it has lost {missing} messages and claims nothing until someone decides" if missing else "it lost nothing"
        )
        _tell(tx, channel, "revived_group", f"{channel.name!r} was dead and is alive again; {fate}")
    return Heard(missing, revived)


def is_dead(tx: Transaction, channel: Channel) -> bool:
    """Whether the group was given up because it has not sent a heartbeat for too long."""
    return tx.one("liveness.is_dead", group=channel.group) is not None


def late(tx: Transaction, channels: Sequence[Channel]) -> list[Channel]:
    """The groups of which a look would change anything."""
    found = _look(tx, channels)
    return [channel for channel in channels if channel.group in found]


def watch(tx: Transaction, channel: Channel) -> bool:
    """One look at a group; whether it has just died. Its owner is told."""
    tx.one("liveness.hold", group=channel.group)
    found = _look(tx, [channel]).get(channel.group)
    if found is None:
        return False
    before, after = found
    tx.run("liveness.note", group=channel.group, beat_at=after.heard_at, misses=after.misses, missed_at=after.missed_at)
    spec = _spec(channel)
    if after.misses <= before.misses or after.misses < spec.misses:
        return False
    tx.run("liveness.die", group=channel.group)
    silence = (tx.clock() - after.heard_at) / 1_000_000
    error = (
        f"nothing was heard of {channel.name!r} for {silence:.0f} s, and its timeout is {spec.timeout:g} s: "
        "nothing is kept for it any more until it claims or beats again"
    )
    _tell(tx, channel, "dead_group", error)
    return True


def _look(tx: Transaction, channels: Sequence[Channel]) -> dict[int, tuple[GroupPulse, GroupPulse]]:
    """Before and after a look, of each group about which there is something to note: one look for all."""
    timeouts = {one.group: timeout for one in channels if (timeout := _spec(one).timeout) is not None}
    found: dict[int, tuple[GroupPulse, GroupPulse]] = {}
    if not timeouts:
        return found
    now = tx.clock()
    for group, heard_at, beat_at, misses, missed_at in tx.all(
        "liveness.pulses", groups=encode_json(list(timeouts)).decode()
    ):
        before = GroupPulse(heard_at, misses, missed_at)
        after = looked_at(before, timeouts[group], now)
        if after != before or heard_at - beat_at >= KNOWN_FOR:
            found[group] = before, after
    return found


def _spec(channel: Channel) -> GroupSpec:
    assert isinstance(channel.spec, GroupSpec), "a group has settings of its own"
    return channel.spec


def _tell(tx: Transaction, channel: Channel, kind: str, error: str) -> None:
    notices.report(tx, channel.tenant, kind, channel.name, ErrorText(error), None, channel.name)


def accept_loss(tx: Transaction, channel: Channel) -> int:
    """Someone has decided that a group goes on without what it has lost; how much that was."""
    tx.one("liveness.hold", group=channel.group)
    found = tx.one("liveness.missing", group=channel.group)
    tx.run("liveness.accept", group=channel.group)
    tx.rings.add(channel.id)
    return found[0] if found else 0
