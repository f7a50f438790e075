"""Messages that Holdfast sends by itself, in the transaction that is the reason for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core import priority
from holdfast.core.lifecycle import must_be_alone
from holdfast.core.message import NewMessage
from holdfast.core.queue import QueueSpec
from holdfast.store import depth
from holdfast.store.channels import declare, find
from holdfast.store.ids import new_id
from holdfast.store.transaction import Transaction

Insert = Callable[[Any, Sequence[NewMessage]], object]


def post(tx: Transaction, insert: Insert, tenant: str, queue: str, body: bytes) -> None:
    """It always fits. A queue that was never declared comes to life."""
    target = find(tx, tenant, queue) or declare(tx, tenant, queue, QueueSpec())
    order_key = target.spec.order_key(None)
    insert(
        tx,
        [
            NewMessage(
                id=new_id(),
                group=target.group,
                lane=priority.lane(target.id, priority.NORMAL),
                body=body,
                plain=not order_key,
                order_key=order_key,
                alone=must_be_alone(target.spec, 0),
            )
        ],
    )
    depth.grow(tx, target.group, 1)
