"""Topics and their groups: a group is a channel of its own that reads another one's lanes. Shared by both stores."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.budgets.steps import budgets
from holdfast.core import priority
from holdfast.core.given import Settle
from holdfast.core.message import encode_json
from holdfast.core.queue import QueueSpec
from holdfast.errors import GroupCanceled, InvalidInput, NotFound, UnknownGroup
from holdfast.store.api import Channel, Topic
from holdfast.store.engine import channels, dead_letters, depth, limits, read
from holdfast.store.transaction import Transaction
from holdfast.topics.rules import routing
from holdfast.topics.rules.declaration import GroupSpec, Start, TopicSpec, address

_spec = msgspec.json.Decoder(TopicSpec)


def declare(tx: Transaction, tenant: str, name: str, settle: Settle[TopicSpec]) -> Topic:
    """Creates a topic, or gives an existing one new settings; `settle` says which, while nobody else changes them.

    It owns its name and all names below.
    """
    channels.hold_names(tx, tenant, name, alone=True)  # Nobody else creates it now.
    found = tx.one("channels.lock", tenant=tenant, name=name)
    if found is not None and found[1] != "topic":
        raise InvalidInput(f"{name!r} is a queue, and a name is one or the other: choose another name for the topic")
    spec = settle(None if found is None else _spec.decode(found[2]))
    if found is None:
        found = tx.one("topics.declare", tenant=tenant, name=name, spec=encode_json(spec))
        assert found is not None, "its name is ours alone until the transaction ends"
        refuse_relatives(tx, tenant, name)
    else:
        tx.run("channels.change", channel=found[0], spec=encode_json(spec))
    channel: int = found[0]
    joined = tx.one("channels.join", channel=channel, history=0, limited=0, delivery="database")
    assert joined is not None, "an upsert returns its row"
    depth.limit(tx, channel, spec.max_depth)
    return Topic(channel, joined[0], tenant, name, spec)


def declare_queue(tx: Transaction, tenant: str, name: str, settle: Settle[QueueSpec]) -> Channel:
    """A queue in the form of a topic: names below it lead there."""
    channels.hold_names(tx, tenant, name, alone=True)
    channel = channels.declare(tx, tenant, name, settle)
    tx.run("topics.own", channel=channel.id)
    refuse_relatives(tx, tenant, name)
    return channel


def refuse_relatives(tx: Transaction, tenant: str, name: str) -> None:
    """Of the names above and below one that owns what is below it, none may be someone else's."""
    below = tx.one("topics.below", tenant=tenant, name=name)
    if below is not None:
        raise InvalidInput(f"{name!r} cannot own all names below it: {below[0]!r} is there already")
    channels.refuse_owned(tx, tenant, name)


def find(tx: Transaction, tenant: str, names: Sequence[str]) -> Topic | Channel | None:
    """What the first of these names, or one above it, belongs to: a topic, a queue in the form of one, or nothing."""
    owners = channels.owners(tx, tenant, names)
    if not owners:
        return None
    channel, kind, name = owners[0]
    if kind != "topic":
        return channels.find(tx, tenant, name)
    found = tx.one("topics.find", channel=channel)
    assert found is not None, "a topic has a hidden group"
    return Topic(channel, found[1], tenant, found[2], _spec.decode(found[3]))


def names(tx: Transaction, tenant: str) -> list[str]:
    """The names of all topics."""
    return [name for (name,) in tx.all("topics.names", tenant=tenant)]


def subscribe(tx: Transaction, topic: Topic, group: str, settle: Settle[GroupSpec], start: Start) -> Channel:
    """A new group, which begins at `start`; one that is there goes on where it was, with what `settle` makes of its
    settings. Whoever else subscribes to this topic waits."""
    name = address(topic.name, group)
    tx.one("topics.hold", channel=topic.id)
    if is_canceled(tx, topic.tenant, name):
        raise GroupCanceled(
            f"the group {name!r} was canceled, which is final: subscribe under another name, or remove it with "
            f"hf.groups.remove({topic.name!r}, {group!r}), after which its name is free for a new one"
        )
    before = channels.find(tx, topic.tenant, name)  # One that has ended begins anew.
    spec = settle(before.spec if before is not None and isinstance(before.spec, GroupSpec) else None)
    channels.refuse_unfit_copies(tx, topic.tenant, name, spec, None)
    found = tx.one("topics.subscribe", tenant=topic.tenant, name=name, spec=encode_json(spec))
    assert found is not None, "an upsert returns its row"
    wanted = None if routing.wants_all(topic.name, spec.patterns) else routing.expression(spec.patterns)
    limited = limits.level(spec)
    joined = tx.one("topics.join", channel=found[0], limited=limited, source=topic.id, wanted=wanted, fed=spec.fed)
    assert joined is not None, "an upsert returns its row"
    channel = Channel(found[0], joined[0], topic.tenant, name, spec, topic.id)
    limits.declare(tx, channel.id, channel.group, spec)
    budgets.mind(tx, channel.id, channel.group, spec, budgets.spent(tx, channel.group))
    if tx.one("topics.is_placed", group=channel.group) is None:
        place(tx, channel, start)
    depth.doubt(tx, topic.id)  # Also one that goes on may want other names.
    return channel


def place(tx: Transaction, channel: Channel, start: Start) -> None:
    """Gives a group its cursors."""
    at = start.at
    if start.kind == "id":
        found = tx.one("topics.place_of", id=start.id)
        if found is None or priority.channel_of(found[0]) != channel.source:
            raise NotFound(
                "the message to start with is not in this topic: never published here, or past its retention"
            )
        at = found[1]
    for level in priority.ALL:
        place = {"group": channel.group, "lane": channel.lane(level)}
        if start.kind in ("latest", "earliest"):
            tx.run("topics.start_latest" if start.kind == "latest" else "topics.start_earliest", **place)
        elif start.kind == "time" or tx.one("topics.start_with", id=start.id, **place) is None:
            tx.run("topics.start_at", at=at, **place)
    tx.run("topics.keep_past", group=channel.group, past=_past(tx, channel))
    assert channel.source is not None, "only groups have a place in a topic"
    depth.doubt(tx, channel.source)


def progress(tx: Transaction, channel: Channel) -> tuple[int, int]:
    """How many messages a group still has to come to of those that were there before it was put where it began, and of
    how many."""
    found = tx.one("topics.whole_past", group=channel.group)
    assert found is not None, "a channel has a group"
    return _past(tx, channel), found[0]


def _past(tx: Transaction, channel: Channel) -> int:
    lanes = [tx.one("topics.past", group=channel.group, lane=channel.lane(level)) for level in priority.ALL]
    return sum(found[0] for found in lanes if found is not None)


def skip(tx: Transaction, channel: Channel) -> int:
    """Lets a group go on with what comes from now on; how many messages it passes by."""
    hold(tx, channel)
    _hold(tx, channel)
    passed = read.lag(tx, channel)
    for query in ("topics.forget_cursors", "topics.forget_skips"):
        tx.run(query, group=channel.group)
    place(tx, channel, Start("latest"))
    return passed


def hold(tx: Transaction, channel: Channel) -> None:
    """Keeps retention, and the end of a group, out; unless it has ended."""
    tx.one("topics.hold", channel=channel.source)
    if tx.one("topics.goes_on", group=channel.group) is None:
        raise ended(tx, channel)


def ended(tx: Transaction, channel: Channel) -> UnknownGroup:
    """What is said to those who have not heard of the end of their group."""
    if is_canceled(tx, channel.tenant, channel.name):
        return GroupCanceled(f"the group {channel.name!r} was canceled, and is owed nothing any more: stop")
    return UnknownGroup(f"{channel.name!r} has ended: someone has called hf.groups.remove(); stop, or subscribe again")


def _hold(tx: Transaction, channel: Channel) -> None:
    """Keeps claims of the group out."""
    for level in priority.ALL:
        tx.one("lanes.hold", group=channel.group, lane=channel.lane(level))


def unsubscribe(tx: Transaction, tenant: str, name: str, actor: str) -> bool:
    """Ends a group, or removes one that was canceled; False if there is neither."""
    if tx.one("topics.remove", tenant=tenant, name=name) is None:
        channel = channels.find(tx, tenant, name)
        if channel is None or not _end(tx, channel):
            return False
    dead_letters.note(tx, tenant, actor, "unsubscribe", name, {}, 1)
    return True


def cancel(tx: Transaction, channel: Channel, actor: str) -> bool:
    """Ends a group that stays to be seen: its name is not free. False if it has ended before."""
    if not _end(tx, channel):
        return False
    tx.run("topics.cancel", group=channel.group)
    dead_letters.note(tx, channel.tenant, actor, "cancel_group", channel.name, {}, 1)
    return True


def is_canceled(tx: Transaction, tenant: str, name: str) -> bool:
    """Whether this is the address of a group that was canceled and not removed yet."""
    return tx.one("topics.is_canceled", tenant=tenant, name=name) is not None


def _end(tx: Transaction, channel: Channel) -> bool:
    """It is owed nothing any more, and claims that are held are lost. Its dead letters stay."""
    tx.one("topics.hold", channel=channel.source)
    if tx.one("topics.leave", group=channel.group) is None:
        return False
    _hold(tx, channel)
    for query in (
        "topics.forget_cursors",
        "topics.forget_runs",
        "topics.end_replays",
        "topics.forget_rows",
        "topics.forget_skips",
        "topics.forget_blocks",
    ):
        tx.run(query, group=channel.group)
    tx.rings.add(channel.id)
    return True
