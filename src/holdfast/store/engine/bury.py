"""Dead letters: burying a message, telling the queue that wants to know, and giving it another life."""

from __future__ import annotations

import msgspec

from holdfast.core.dead_letter import ErrorText, add_to_history, envelope
from holdfast.core.lifecycle import State, must_be_alone
from holdfast.core.message import Failure, MessageId, id_text
from holdfast.core.message_type import misfit
from holdfast.core.queue import QueueSpec
from holdfast.errors import AlreadyReplayed, InvalidInput, NotFound, UnknownGroup
from holdfast.notices import steps as notices
from holdfast.replies import steps as replies
from holdfast.sagas.steps import step_ends
from holdfast.store.engine import counters, depth, rows
from holdfast.store.engine.channels import find
from holdfast.store.engine.internal_messages import post_to, reachable, withdraw
from holdfast.store.engine.rows import Content, HeldRow, NewRow
from holdfast.store.ids import new_id
from holdfast.store.transaction import Transaction


def bury(
    tx: Transaction,
    group: int,
    content: Content,
    attempts: int,
    failure: Failure,
    errors: bytes | None,
    row: HeldRow | None = None,
    *,
    unknown: bool = False,
) -> None:
    """Keeps a full copy with its history, and sends the envelope, in the transaction that ends the message.

    `row` is what it was kept in, unless it was in a lane. The outcome of its last attempt may be `unknown`.
    """
    replay_of, order_key, saga = (row.replay_of, row.order_key, row.saga) if row else (None, "", None)
    failed_at = tx.clock()
    owner = tx.one("channels.owner", group=group)
    assert owner is not None, "a group always has a channel"
    channel, tenant, queue, raw_spec = owner
    dead_id, spec = new_id(), msgspec.json.decode(raw_spec, type=QueueSpec)
    copy_id = None
    if spec.dead_letter:
        body = envelope(id_text(content.id), queue, content.message(), failure.error, attempts, failed_at)
        copy_id = _post_copy(tx, tenant, queue, spec.dead_letter, body)
    tx.run(
        "dead.insert",
        id=dead_id,
        tenant=tenant,
        channel=channel,
        group=group,
        message_id=content.id,
        lane=content.lane,
        attempts=attempts,
        error=failure.error,
        errors=add_to_history(errors, failure, failed_at),
        failed_at=failed_at,
        body=content.body,
        headers=content.headers,
        key=content.key,
        correlation_id=content.correlation_id,
        reply_to=content.reply_to,
        topic=content.topic,
        enqueued_at=content.enqueued_at,
        replay_of=replay_of,
        saga=saga,
        unsent=spec.dead_events is not None,
        copy_id=copy_id,
    )
    counters.add(tx, group, dead=1)
    notice = notices.new_notice(queue, dead_id, content.id, failure, attempts, failed_at)
    notices.raise_notice(tx, tenant, channel, spec.owner, notice, dead_id, content.id)
    if replay_of:
        end_replay(tx, replay_of, State.DEAD)
    if order_key and spec.on_dead == "block":
        tx.run("blocked.add", group=group, order_key=order_key, dead_id=dead_id)
    replies.tell_of_death(tx, tenant, content, failure.error)
    final = attempts < spec.max_attempts
    step_ends.failed(tx, saga, content.id, failure, final=final, attempt=attempts, unknown=unknown)


def _post_copy(tx: Transaction, tenant: str, queue: str, dead_letter: str, body: bytes) -> MessageId | None:
    """Sends the copy; its id. No death may fail by its copy: one that does not fit the type of its queue is sent too,
    and none is if a topic has taken the name. Both are reported."""
    target = reachable(tx, tenant, dead_letter)
    if target is None:
        _report(tx, tenant, queue, f"have no copies: {dead_letter!r} belongs to a topic, and is no queue")
        return None
    reason = None if target.spec.message_type is None else misfit(target.spec.message_type, body)
    if reason is not None:
        _report(tx, tenant, queue, f"do not fit the message type of {dead_letter!r}: {reason}")
    return post_to(tx, target, body)


def _report(tx: Transaction, tenant: str, queue: str, what: str) -> None:
    known = queue if find(tx, tenant, queue) is not None else None  # A group may have ended.
    notices.report(tx, tenant, "unfit_copy", queue, ErrorText(f"dead letters of {queue!r} {what}"), None, known)


def replay(tx: Transaction, tenant: str, dead_id: MessageId, fresh: MessageId, body: bytes | None) -> str:
    """One new life per death; the name of the queue that it goes to."""
    queue = begin_replay(tx, tenant, dead_id, fresh, body)
    if queue is None:
        if found := tx.one("dead.exists", id=dead_id, tenant=tenant):
            if found[0] is not None:
                raise UnknownGroup(f"the group that dead letter {id_text(dead_id)} belongs to has ended")
            raise AlreadyReplayed(f"dead letter {id_text(dead_id)} was replayed before; a death can be replayed once")
        raise NotFound(f"there is no dead letter {id_text(dead_id)}")
    return queue


def begin_replay(tx: Transaction, tenant: str, dead_id: MessageId, fresh: MessageId, body: bytes | None) -> str | None:
    """A new message with the old content (or another body), whose end is written back to the dead letter."""
    found = tx.one("dead.begin_replay", id=dead_id, tenant=tenant, new_id=fresh)
    if found is None:
        return None
    group, lane, old_body, *carried = found
    owner = tx.one("channels.owner", group=group)
    assert owner is not None, "a group always has a channel"
    channel, _, queue, raw_spec = owner
    spec = msgspec.json.decode(raw_spec, type=QueueSpec)
    if body is not None and spec.message_type is not None and (reason := misfit(spec.message_type, body)):
        raise InvalidInput(f"the body does not fit the message type of {queue!r}: {reason}")
    headers, key, correlation_id, reply_to, topic, saga, message_id, copy_id = carried
    tx.run("idempotency.follow", id=message_id, channel=channel, new_id=fresh)
    if copy_id is not None:
        withdraw(tx, tenant, copy_id)
    content = Content(
        fresh, lane, old_body if body is None else body, headers, key, correlation_id, reply_to, topic, None, None
    )
    alone, order_key = must_be_alone(spec, 0), spec.order_key(content.key)
    rows.hold_keys(tx, [(group, order_key)])
    # A key that this death has blocked goes on with the replay, before those that had to wait.
    first = tx.one("blocked.remove_for", group=group, order_key=order_key, dead_id=dead_id) is not None
    new_row = NewRow(group, content, alone=alone, order_key=order_key, first=first, replay_of=dead_id, saga=saga)
    rows.add(tx, [new_row])
    depth.grow(tx, group, 1)
    counters.add(tx, group, arrived=1)
    tx.rings.add(channel)
    return queue  # type: ignore[no-any-return]


def end_replay(tx: Transaction, dead_id: MessageId, state: State) -> None:
    """The replayed message has ended: the dead letter it came from remembers how."""
    tx.one("dead.end_replay", id=dead_id, state=state.value)
