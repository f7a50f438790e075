"""Messages that Holdfast sends by itself, in the transaction that is the reason for them."""

from __future__ import annotations

from holdfast.core import priority
from holdfast.core.given import unless_there
from holdfast.core.lifecycle import must_be_alone
from holdfast.core.message import MessageId, NewMessage
from holdfast.core.queue import QueueSpec
from holdfast.store.api import Channel
from holdfast.store.engine import counters, depth, rows
from holdfast.store.engine.channels import declare, find, hold_names, owners
from holdfast.store.ids import new_id
from holdfast.store.transaction import Transaction
from holdfast.topics.rules.routing import names_above


def post(tx: Transaction, tenant: str, queue: str, body: bytes) -> MessageId | None:
    """It always fits; its id. A queue that was never declared is created; None if its name belongs to a topic."""
    target = reachable(tx, tenant, queue)
    return None if target is None else post_to(tx, target, body)


def post_to(tx: Transaction, target: Channel, body: bytes) -> MessageId:
    """The same for a queue that was looked up already."""
    message_id = new_id()
    tx.insert([compose(target, message_id, body)])
    depth.grow(tx, target.group, 1)
    return message_id


def withdraw(tx: Transaction, tenant: str, message_id: MessageId) -> bool:
    """Removes such a message, unless a consumer has claimed it; whether it did."""
    if (row := tx.one("rows.find", id=message_id, tenant=tenant)) is not None:
        group, lane, order_key = row[0], row[1], row[7]
        rows.hold_keys(tx, [(group, order_key)])
        is_gone = tx.one("rows.withdraw", id=message_id, group=group) is not None
        if is_gone:
            rows.promote(tx, [(group, order_key)])
    elif (found := tx.one("lanes.find", id=message_id, tenant=tenant)) is not None:
        group, lane = found[0], found[1]
        tx.one("lanes.hold", group=group, lane=lane)
        is_gone = tx.one("lanes.is_pending", group=group, id=message_id) is not None
        if is_gone:
            tx.run("lanes.remove", id=message_id)
    else:
        return False
    if is_gone:
        counters.add(tx, group, ended=1)
        tx.rings.add(priority.channel_of(lane))
    return is_gone


def destination(tx: Transaction, tenant: str, queue: str) -> Channel:
    """The queue of this name, which comes to life if it has to."""
    return find(tx, tenant, queue) or declare(tx, tenant, queue, unless_there(QueueSpec()))


def reachable(tx: Transaction, tenant: str, queue: str) -> Channel | None:
    """The same, but None if the name belongs to a topic: what ends a message must not fail by that."""
    if (found := find(tx, tenant, queue)) is not None:
        return found
    hold_names(tx, tenant, queue, alone=False)
    is_taken = owners(tx, tenant, [queue, *names_above(queue)])
    return None if is_taken else destination(tx, tenant, queue)


def compose(
    target: Channel,
    message_id: MessageId,
    body: bytes,
    level: int = priority.NORMAL,
    key: str | None = None,
    headers: bytes | None = None,
) -> NewMessage:
    """A message that is due at once."""
    order_key = target.spec.order_key(key)
    return NewMessage(
        id=message_id,
        group=target.group,
        lane=priority.lane(target.id, level),
        body=body,
        headers=headers,
        key=key,
        plain=not order_key and target.spec.has_lanes,
        order_key=order_key,
        alone=must_be_alone(target.spec, 0),
        limited=target.spec.max_depth is not None,
    )
