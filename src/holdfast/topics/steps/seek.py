"""Where a group is in its topic's log, changed by an operator: to another place, or past one message.

Before a group's place everything counts as done, from there on everything is owed. A seek makes that true at another
place: what was open is forgotten, so that nothing comes twice. No other group notices. Shared by both stores.
"""

from __future__ import annotations

from typing import Any

from holdfast.core import priority, run
from holdfast.core.lifecycle import State
from holdfast.core.message import MessageId, id_text
from holdfast.store.api import Channel
from holdfast.store.engine import counters, dead_letters, rows
from holdfast.store.engine.bury import end_replay
from holdfast.store.engine.rows import Content
from holdfast.store.engine.settle import split
from holdfast.store.transaction import Transaction
from holdfast.topics.rules import routing
from holdfast.topics.rules.declaration import Start
from holdfast.topics.steps import topics


def seek(tx: Transaction, channel: Channel, to: Start, actor: str) -> None:
    """Puts a group elsewhere. Held claims are lost, retries and keys that wait are forgotten; replays stay.

    First what is open, then the lanes: a consumer that acks and claims locks its run and then the lane. What was
    claimed in between goes while the lanes are held. Before all that the topic: what it is to read again must not go.
    """
    topics.hold(tx, channel)
    _forget(tx, channel)
    for level in priority.ALL:
        tx.one("lanes.hold", group=channel.group, lane=channel.lane(level))
    _forget(tx, channel)
    tx.run("topics.forget_cursors", group=channel.group)
    topics.place(tx, channel, to)
    tx.run("liveness.accept", group=channel.group)  # Someone has decided.
    keys = [(channel.group, key) for (key,) in tx.all("seeking.keys", group=channel.group)]
    rows.hold_keys(tx, keys)
    rows.promote(tx, keys)
    dead_letters.note(tx, channel.tenant, actor, "seek", channel.name, _told(to), 1)
    tx.rings.add(channel.id)


def skip(tx: Transaction, channel: Channel, message_id: MessageId, actor: str) -> bool:
    """One message counts as done for a group, wherever it is; False if it is not owed."""
    if not _skip_row(tx, channel, message_id) and not _skip_in_lane(tx, channel, message_id):
        return False
    counters.add(tx, channel.group, ended=1)
    dead_letters.note(tx, channel.tenant, actor, "skip", channel.name, {"id": id_text(message_id)}, 1)
    tx.rings.add(channel.id)
    return True


def _told(to: Start) -> dict[str, Any]:
    if to.kind == "time":
        return {"to": to.at}
    return {"to": id_text(to.id) if to.kind == "id" else to.kind}


def _forget(tx: Transaction, channel: Channel) -> None:
    for query in ("seeking.forget_rows", "topics.forget_runs", "topics.forget_skips", "topics.forget_blocks"):
        tx.run(query, group=channel.group)


def _skip_row(tx: Transaction, channel: Channel, message_id: MessageId) -> bool:
    found = tx.one("seeking.row", group=channel.group, id=message_id)
    if found is None:
        return False
    order_key, replay_of = found
    rows.hold_keys(tx, [(channel.group, order_key)])
    tx.each("rows.remove", [{"group": channel.group, "id": message_id}])
    if replay_of is not None:
        end_replay(tx, replay_of, State.CANCELED)
    rows.promote(tx, [(channel.group, order_key)])
    return True


def _skip_in_lane(tx: Transaction, channel: Channel, message_id: MessageId) -> bool:
    """First among the runs, for the same reason as in a seek."""
    found = tx.one("lanes.member", id=message_id)
    if found is None or priority.channel_of(Content.of(found).lane) != channel.source:
        return False
    content = Content.of(found)
    if _skip_in_run(tx, channel, message_id):
        return True
    if not _is_wanted(tx, channel, content):
        return False
    tx.one("lanes.hold", group=channel.group, lane=content.lane)
    if tx.one("lanes.is_pending", group=channel.group, id=message_id):
        tx.run("seeking.forget_gone", group=channel.group)
        return tx.one("seeking.skip", group=channel.group, id=message_id) is not None
    # It was claimed or fed between the two looks.
    return _skip_in_run(tx, channel, message_id) or _skip_row(tx, channel, message_id)


def _is_wanted(tx: Transaction, channel: Channel, content: Content) -> bool:
    found = tx.one("seeking.wanted", group=channel.group)
    assert found is not None, "a channel has a group"
    return found[0] is None or routing.is_wanted(found[0], content.topic or "")


def _skip_in_run(tx: Transaction, channel: Channel, message_id: MessageId) -> bool:
    held = tx.one("runs.holding", group=channel.group, id=message_id)
    if held is None:
        return False
    token, size, *_, place = held
    locked = tx.one("runs.lock", token=token)
    if locked is None:
        return False
    _, settled, gone, history, *_ = locked
    if run.is_settled(settled, place):
        return False
    split(tx, token, size, run.settle(settled, size, [place]), gone, history, shared=True)
    return True
