"""The crew: which consumers run, in which pools, and which queues they take from."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from holdfast.consumers.rules import HEAVIEST, ConsumerStatus
from holdfast.server.admin.models import (
    NAME,
    Done,
    Input,
    Json,
    Output,
    Seconds,
    SecondsOrNone,
    existing,
    existing_reader,
    refusals,
    seconds,
    seconds_or_none,
)
from holdfast.server.admin.roles import Operates, Reads

router = APIRouter(prefix="/admin", tags=["consumers"])


class WorkView(Output):
    """A message that a consumer works on."""

    id: str
    queue: str
    attempt: int
    since: Seconds
    progress: Json


class ConsumerView(Output):
    """A running consumer, as it last told of itself."""

    id: str
    consumer: str
    pool: str | None
    host: str
    pid: int
    labels: dict[str, str]
    queues: list[str]
    state: str
    alive: bool
    concurrency: int
    saturation: float
    handled: int
    failed: int
    started_at: Seconds
    seen_at: Seconds
    work: list[WorkView]


class ConsumerList(Output):
    """By name and start; `amplification` is how many of them are busy at least half of the time."""

    consumers: list[ConsumerView]
    amplification: int


class PoolView(Output):
    """A pool, by what its live consumers tell."""

    name: str
    consumers: int
    hosts: list[str]
    queues: list[str]
    saturation: float
    handled: int
    failed: int


class PoolList(Output):
    """By name."""

    pools: list[PoolView]


class AttachmentView(Output):
    """That someone changed from which queues a consumer takes."""

    consumer: str
    queue: str
    attached: bool
    weight: float | None
    empty: str | None
    changed_at: SecondsOrNone


class AttachmentList(Output):
    """What was changed. What code declares is not in it."""

    attachments: list[AttachmentView]


class Attach(Input):
    """Has a consumer take from a queue, or a group as topic/group."""

    consumer: str = Field(min_length=1, max_length=200, pattern=NAME)
    queue: str = Field(min_length=1, max_length=401, pattern=r"^[^\x00-\x1f\x7f]+$")
    weight: float | None = Field(None, gt=0, le=HEAVIEST)
    empty: Literal["poll", "hibernate", "terminate"] | None = None


class Detach(Input):
    """Has a consumer take nothing more from a queue, whatever its code says."""

    consumer: str = Field(min_length=1, max_length=200, pattern=NAME)
    queue: str = Field(min_length=1, max_length=401, pattern=r"^[^\x00-\x1f\x7f]+$")


ConsumerName = Annotated[str | None, Query(min_length=1, max_length=200, pattern=NAME)]


@router.get("/consumers", operation_id="list_consumers", responses=refusals())
def list_consumers(
    access: Reads,
    alive: Annotated[bool, Query(description="False: also those that fell silent within the hour.")] = True,
) -> ConsumerList:
    """Who runs, where, how busy, with what in hand."""
    hf = access.client
    return ConsumerList(
        consumers=[_shown(one) for one in hf.consumers.list(alive)], amplification=hf.consumers.amplification()
    )


@router.get("/pools", operation_id="list_pools", responses=refusals())
def list_pools(access: Reads) -> PoolList:
    """The pools that have live consumers."""
    members: dict[str, list[ConsumerStatus]] = {}
    for one in access.client.consumers.list():
        if one.pool is not None:
            members.setdefault(one.pool, []).append(one)
    return PoolList(pools=[_pool(name, crew) for name, crew in sorted(members.items())])


@router.get("/attachments", operation_id="list_attachments", responses=refusals())
def list_attachments(access: Reads, consumer: ConsumerName = None) -> AttachmentList:
    """What `attach` and `detach` have changed."""
    name = None if consumer is None else existing(consumer, "consumer")
    found = access.client.consumers.attachments(name)
    lines = [
        AttachmentView(
            consumer=one.consumer,
            queue=one.queue,
            attached=one.attached,
            weight=one.weight,
            empty=one.empty,
            changed_at=seconds_or_none(one.changed_at),
        )
        for one in found
    ]
    return AttachmentList(attachments=lines)


@router.post("/attachments/attach", operation_id="attach_consumer", responses=refusals(body=True))
def attach_consumer(access: Operates, which: Attach) -> Done:
    """Has a consumer take from a queue too, or in another way; running ones follow at once."""
    queue = existing_reader(which.queue) or ""
    access.client.consumers.attach(existing(which.consumer, "consumer"), queue, weight=which.weight, empty=which.empty)
    return Done()


@router.post("/attachments/detach", operation_id="detach_consumer", responses=refusals(body=True))
def detach_consumer(access: Operates, which: Detach) -> Done:
    """Has a consumer take nothing more from a queue until it is attached again."""
    access.client.consumers.detach(existing(which.consumer, "consumer"), existing_reader(which.queue) or "")
    return Done()


def _pool(name: str, crew: list[ConsumerStatus]) -> PoolView:
    return PoolView(
        name=name,
        consumers=len(crew),
        hosts=sorted({one.host for one in crew}),
        queues=sorted({queue for one in crew for queue in one.queues}),
        saturation=sum(one.saturation for one in crew) / len(crew),
        handled=sum(one.handled for one in crew),
        failed=sum(one.failed for one in crew),
    )


def _shown(one: ConsumerStatus) -> ConsumerView:
    return ConsumerView(
        id=one.id,
        consumer=one.consumer,
        pool=one.pool,
        host=one.host,
        pid=one.pid,
        labels=one.labels,
        queues=one.queues,
        state=one.state,
        alive=one.alive,
        concurrency=one.concurrency,
        saturation=one.saturation,
        handled=one.handled,
        failed=one.failed,
        started_at=seconds(one.started_at),
        seen_at=seconds(one.seen_at),
        work=[
            WorkView(id=w.id, queue=w.queue, attempt=w.attempt, since=seconds(w.since), progress=w.progress)
            for w in one.work
        ],
    )
