"""Messages that Holdfast sends by itself, in the transaction that is the reason for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core import priority
from holdfast.core.lifecycle import must_be_alone
from holdfast.core.message import MessageId, NewMessage
from holdfast.core.queue import QueueSpec
from holdfast.store import depth
from holdfast.store.api import Channel
from holdfast.store.channels import declare, find
from holdfast.store.ids import new_id
from holdfast.store.transaction import Transaction

Insert = Callable[[Any, Sequence[NewMessage]], object]


def post(tx: Transaction, insert: Insert, tenant: str, queue: str, body: bytes) -> None:
    """It always fits. A queue that was never declared comes to life."""
    target = destination(tx, tenant, queue)
    insert(tx, [compose(target, new_id(), body)])
    depth.grow(tx, target.group, 1)


def destination(tx: Transaction, tenant: str, queue: str) -> Channel:
    """The queue of this name, which comes to life if it has to."""
    return find(tx, tenant, queue) or declare(tx, tenant, queue, QueueSpec())


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
