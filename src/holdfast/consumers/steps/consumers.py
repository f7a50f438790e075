"""Running consumers and what they are attached to. Shared by both stores."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.consumers.rules import Attachment, Beat, ConsumerStatus, Work, most_telling
from holdfast.core.duration import micros
from holdfast.core.message import MessageStatus, encode_json
from holdfast.store.transaction import Row, Transaction

CREW = 0
"""The number that is rung when an attachment or a schedule changes: the channels of queues begin with 1."""

_labels = msgspec.json.Decoder(dict[str, str])
_queues = msgspec.json.Decoder(list[str])
_work = msgspec.json.Decoder(list[Work])


def beat(tx: Transaction, tenant: str, told: Beat) -> None:
    """Notes what a consumer tells of itself."""
    tx.run(
        "crew.beat",
        tenant=tenant,
        id=told.id,
        consumer=told.consumer,
        pool=told.pool,
        host=told.host,
        pid=told.pid,
        labels=encode_json(told.labels, "labels"),
        queues=encode_json(told.queues, "queues"),
        state=told.state,
        concurrency=told.concurrency,
        valid_for=micros(told.valid_for),
        saturation=float(told.saturation),
        handled=told.handled,
        failed=told.failed,
        work=encode_json(most_telling(told.work), "work"),
    )


def leave(tx: Transaction, tenant: str, worker_id: str) -> None:
    """Removes a consumer that has ended."""
    tx.run("crew.leave", tenant=tenant, id=worker_id)


def forget(tx: Transaction, tenant: str, limit: int) -> int:
    """Removes consumers that were not heard of for long; how many."""
    return tx.run("crew.forget", tenant=tenant, limit=limit)


def workers(tx: Transaction, tenant: str) -> list[ConsumerStatus]:
    """All that were heard of, the dead of the last hour too."""
    return [_status(row) for row in tx.all("crew.list", tenant=tenant)]


def progress(tx: Transaction, tenant: str, found: MessageStatus) -> Any:
    """What the handler of a message last told; None if it has told nothing in this attempt."""
    told = tx.one("crew.work", tenant=tenant, id=found.worker)
    work = _work.decode(told[0]) if told else []
    return next((one.progress for one in work if (one.id, one.attempt) == (found.id, found.attempts)), None)


def attach(tx: Transaction, tenant: str, consumer: str, queue: str, weight: float | None, empty: str | None) -> None:
    """Makes a consumer take from a queue, too, or with another weight."""
    _change(tx, tenant, Attachment(consumer, queue, True, weight, empty))


def detach(tx: Transaction, tenant: str, consumer: str, queue: str) -> None:
    """Makes a consumer take from a queue no longer."""
    _change(tx, tenant, Attachment(consumer, queue, False))


def _change(tx: Transaction, tenant: str, change: Attachment) -> None:
    """Notes it, and wakes the consumers."""
    tx.run(
        "attachments.change",
        tenant=tenant,
        consumer=change.consumer,
        queue=change.queue,
        attached=change.attached,
        weight=change.weight,
        empty=change.empty,
    )
    tx.rings.add(CREW)


def attachments(tx: Transaction, tenant: str, consumer: str | None) -> list[Attachment]:
    """What was changed for one consumer, or for all."""
    return [
        Attachment(name, queue, bool(attached), *rest)
        for name, queue, attached, *rest in tx.all("attachments.list", tenant=tenant, consumer=consumer)
    ]


def _status(row: Row) -> ConsumerStatus:
    told = dict(zip(ConsumerStatus.__struct_fields__, row, strict=True))
    told["labels"] = _labels.decode(told["labels"])
    told["queues"] = _queues.decode(told["queues"])
    told["work"] = _work.decode(told["work"])
    told["alive"] = bool(told["alive"])
    return ConsumerStatus(**told)
