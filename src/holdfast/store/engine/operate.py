"""What an operator does: pause, cancel, purge. Shared by both stores."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import priority, run
from holdfast.core.lifecycle import LifecycleEvent, State, next_state
from holdfast.core.message import MessageId, id_text
from holdfast.errors import InvalidInput
from holdfast.notices import steps as notices
from holdfast.sagas.steps import step_ends
from holdfast.store.api import Channel
from holdfast.store.engine import channels, counters, dead_letters, expire_messages, rows
from holdfast.store.engine.rows import Content, NewRow
from holdfast.store.engine.settle import split
from holdfast.store.transaction import Transaction
from holdfast.topics.steps import topics

UNCLAIMED = ("pending", "sending", "enqueued")
"""The states of a row that can expire."""


def cancel(tx: Transaction, tenant: str, message_id: MessageId) -> bool:
    """Ends a message that is pending or being worked on; its holder's token is worth nothing from then on. One that has
    expired is left to the next sweep."""
    row = tx.one("rows.find", id=message_id, tenant=tenant)
    is_in_lane = tx.one("lanes.member", id=message_id) is not None
    in_lane = tx.one("lanes.find", id=message_id, tenant=tenant) if is_in_lane else None
    if in_lane is not None and in_lane[-1] == "topic":
        raise InvalidInput(
            f"message {id_text(message_id)} was published to the topic {in_lane[3]!r}, and its groups have it each for "
            "themselves: it cannot be cancelled for all of them"
        )
    found = row or in_lane
    if found is None:
        return False
    if row is not None:
        if tx.again and row[2] == State.CANCELED:
            return True  # By an earlier try, whose answer got lost.
        if row[2] in UNCLAIMED and expire_messages.is_over(tx, row[0], row[5], row[9]):
            return False
        is_canceled = rows.end(tx, row[0], message_id, State.CANCELED, row[8], unknown=row[2] == State.PROCESSING)
    else:
        is_canceled = _cancel_in_lane(tx, found[0], found[1], message_id)
    counters.add(tx, found[0], ended=int(is_canceled))
    if is_canceled:  # Room for another, if the queue is limited.
        tx.rings.add(priority.channel_of(found[1]))
    return is_canceled


def pause(tx: Transaction, channel: Channel, paused: bool, actor: str) -> None:
    """Stops or starts the handing out."""
    channels.pause(tx, channel, paused)
    dead_letters.note(tx, channel.tenant, actor, "pause" if paused else "resume", channel.name, {}, 1)


def purge(tx: Transaction, channel: Channel, actor: str) -> int:
    """Removes everything that is pending; what is being worked on is left to its holder. A group passes it by."""
    gone = _purge_lanes(tx, channel) if channel.source is None else topics.skip(tx, channel)
    tx.run("dead.purge_replays", group=channel.group)
    gone += tx.run("rows.purge", group=channel.group)
    for message_id, saga in (steps := tx.all("rows.purge_steps", group=channel.group)):
        step_ends.failed(tx, saga, message_id, "its message was purged", final=True)
    gone += len(steps)
    counters.add(tx, channel.group, ended=gone)
    dead_letters.note(tx, channel.tenant, actor, "purge", channel.name, {}, gone)
    return gone


def _purge_lanes(tx: Transaction, channel: Channel) -> int:
    gone = 0
    for level in priority.ALL:
        tx.one("lanes.hold", group=channel.group, lane=channel.lane(level))
        gone += tx.run("lanes.purge", group=channel.group, lane=channel.lane(level))
    return gone


def unblock(tx: Transaction, channel: Channel, order_key: str) -> bool:
    """Lets a blocked key go on without the one that died; False if it was not blocked."""
    rows.hold_keys(tx, [(channel.group, order_key)])
    if tx.one("blocked.remove", group=channel.group, order_key=order_key) is None:
        return False
    rows.promote(tx, [(channel.group, order_key)])
    tx.rings.add(channel.id)
    return True


def acknowledge(tx: Transaction, tenant: str, actor: str, ids: Sequence[MessageId], remark: str | None) -> int:
    """Answers notices; how many were still open."""
    done = notices.acknowledge(tx, tenant, actor, ids, remark)
    if done:
        dead_letters.note(tx, tenant, actor, "acknowledge", None, {"remark": remark} if remark else {}, done)
    return done


def _cancel_in_lane(tx: Transaction, group: int, lane: int, message_id: MessageId) -> bool:
    """First among the runs: a consumer that acks and claims locks its run and then the lane, and so do we."""
    member = tx.one("lanes.member", id=message_id)
    if member is None:
        return False
    content = Content.of(member)
    if _cancel_in_run(tx, group, content):
        return True
    tx.one("lanes.hold", group=group, lane=lane)
    if tx.one("lanes.is_pending", group=group, id=message_id):
        if expire_messages.is_over(tx, group, content.enqueued_at or 0, content.expires_at):
            return False
        rows.add(tx, [NewRow(group, content, state=next_state(State.PENDING, LifecycleEvent.CANCELED))])
        tx.run("lanes.remove", id=message_id)
        return True
    return _cancel_in_run(tx, group, content)  # It was claimed between the two looks.


def _cancel_in_run(tx: Transaction, group: int, content: Content) -> bool:
    held = tx.one("runs.holding", group=group, id=content.id)
    if held is None:
        return False
    token, size, *_, claimed_at, before = held
    locked = tx.one("runs.lock", token=token)
    if locked is None:
        return False
    _, settled, gone, history, *_ = locked
    place = run.places_left(gone, size)[before]
    if run.is_settled(settled, place):
        return False
    state = next_state(State.PROCESSING, LifecycleEvent.CANCELED)
    rows.add(tx, [NewRow(group, content, state=state, attempts=1, claimed_at=claimed_at)])
    tx.run("lanes.remove", id=content.id)
    split(tx, token, size, run.settle(settled, size, [place]), run.settle(gone, size, [place]), history, shared=False)
    return True
