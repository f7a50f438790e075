"""Queues: how they stand, stopping and starting them, what is next in them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from pydantic import Field

from holdfast.client.client import Holdfast
from holdfast.core.message import Message
from holdfast.core.stats import Stats
from holdfast.server.admin.models import (
    NAME,
    TEXT,
    Count,
    Done,
    DoneCount,
    Input,
    Json,
    Name,
    Output,
    Seconds,
    SecondsOrNone,
    existing,
    refusals,
    seconds,
)
from holdfast.server.admin.roles import Administers, Operates, Reads

router = APIRouter(prefix="/admin/queues", tags=["queues"])


class QueueView(Output):
    """A queue at a glance. `depth` waits, due or not; `messages_per_minute` is what was acked in the last one."""

    name: str
    depth: int
    in_flight: int
    oldest_message_age_seconds: int | None = Field(description="Seconds; null if the queue is empty.")
    messages_per_minute: int = Field(description="Messages acked per minute, over the last minute.")


class QueueList(Output):
    """All of them, by name."""

    queues: list[QueueView]


class QueueDetail(QueueView):
    """A queue in all its numbers. Rates are per second over the last minute, times are seconds."""

    paused: bool
    pending: int
    waiting: int
    dead: int
    consumers: int
    claim_rate: float = Field(description="Claims per second, over the last minute.")
    completion_rate: float = Field(description="Acks per second, over the last minute.")
    failure_rate: float = Field(description="Failed attempts per second, over the last minute.")
    timeout_rate: float = Field(description="Expired leases per second, over the last minute.")
    avg_processing_time: float | None = Field(
        description="Seconds from claim to ack, over the last minute; null if nothing was acked in it."
    )
    spent: float
    blocked_keys: int


class StoredSettings(Output):
    """All settings of a queue, a topic or a group, as stored; durations are seconds."""

    settings: dict[str, Json] = Field(
        description="By name: durations in seconds, rates as `count` per so many seconds (`per`)."
    )


class Waiting(Output):
    """A message that waits."""

    id: str
    priority: int
    key: str | None
    correlation_id: str | None
    enqueued_at: Seconds
    expires_at: SecondsOrNone
    headers: dict[str, Json]
    body: Json


class Peeked(Output):
    """The next ones, in the order of claiming."""

    messages: list[Waiting]


class Blocked(Output):
    """A key that waits for someone's decision; none for all of a fifo queue."""

    key: str | None
    dead_id: str
    blocked_at: Seconds
    waiting: int


class BlockedKeys(Output):
    """All of a queue, longest first."""

    blocked_keys: list[Blocked]


class Unblock(Input):
    """Which key is to go on; none for all of a fifo queue."""

    key: str | None = Field(None, max_length=500, pattern=TEXT)


class BudgetReset(Done):
    """What the queue had spent until now."""

    spent: float


MOST_BLOCKED = 1_000


@router.get("", operation_id="list_queues", responses=refusals())
def list_queues(
    access: Reads,
    n: Count = 1_000,
    after: Annotated[str | None, Query(max_length=200, pattern=NAME, description="The last name before.")] = None,
) -> QueueList:
    """All queues of the tenant."""
    hf = access.client
    names = [name for name in sorted(hf.queues.list()) if after is None or name > after]
    return QueueList(queues=[_queue(name, hf.stats(name)) for name in names[:n]])


@router.get("/{name}", operation_id="get_queue", responses=refusals())
def get_queue(access: Reads, name: Name) -> QueueDetail:
    """One queue, in more numbers."""
    hf, name = access.client, existing(name)
    stats = hf.stats(name)
    return QueueDetail(
        **_queue(name, stats).model_dump(),
        paused=hf.queues.is_paused(name),
        pending=stats.pending,
        waiting=stats.waiting,
        dead=stats.dead,
        consumers=stats.consumer_count,
        claim_rate=stats.claim_rate,
        completion_rate=stats.completion_rate,
        failure_rate=stats.failure_rate,
        timeout_rate=stats.timeout_rate,
        avg_processing_time=stats.avg_processing_time,
        spent=hf.queues.budget(name),
        blocked_keys=len(hf.queues.blocked(name, MOST_BLOCKED)),
    )


@router.get("/{name}/settings", operation_id="get_queue_settings", responses=refusals())
def get_queue_settings(access: Reads, name: Name) -> StoredSettings:
    """Every setting that can be declared, in the words of `hf.queue`, or of `hf.topic` for a topic."""
    return stored_settings(access.client, existing(name))


def stored_settings(client: Holdfast, name: str) -> StoredSettings:
    """The settings of a queue, a topic, or a group by its address."""
    return StoredSettings(settings=msgspec.to_builtins(client.queues.settings(name)))


@router.post("/{name}/pause", operation_id="pause_queue", responses=refusals())
def pause_queue(access: Operates, name: Name) -> Done:
    """Nothing is handed out any more, anywhere; what comes is kept."""
    access.client.queues.pause(existing(name))
    return Done()


@router.post("/{name}/resume", operation_id="resume_queue", responses=refusals())
def resume_queue(access: Operates, name: Name) -> Done:
    """Ends a pause."""
    access.client.queues.resume(existing(name))
    return Done()


@router.post("/{name}/purge", operation_id="purge_queue", responses=refusals())
def purge_queue(access: Administers, name: Name) -> DoneCount:
    """Removes every pending message for good. What is being worked on is left alone."""
    return DoneCount(count=access.client.queues.purge(existing(name)))


@router.get("/{name}/messages", operation_id="peek_queue", responses=refusals())
def peek_queue(access: Reads, name: Name, n: Count = 10) -> Peeked:
    """The next messages in the order of claiming, without claiming them."""
    found = access.client.queues.peek(existing(name), n)
    return Peeked(messages=[waiting(message) for message in found])


@router.get("/{name}/blocked", operation_id="list_blocked_keys", responses=refusals())
def list_blocked_keys(access: Reads, name: Name, n: Count = 100) -> BlockedKeys:
    """Keys whose head has died and whose queue waits for a decision."""
    found = access.client.queues.blocked(existing(name), n)
    lines = [
        Blocked(key=one.key, dead_id=one.dead_id, blocked_at=seconds(one.blocked_at), waiting=one.waiting)
        for one in found
    ]
    return BlockedKeys(blocked_keys=lines)


@router.post("/{name}/unblock", operation_id="unblock_key", responses=refusals(409, body=True))
def unblock_key(access: Operates, name: Name, which: Unblock) -> Done:
    """Lets a blocked key go on without the one that died. `ok` is false if it was not blocked."""
    return Done(ok=access.client.queues.unblock(existing(name), which.key))


@router.post("/{name}/budget/reset", operation_id="reset_budget", responses=refusals())
def reset_budget(access: Operates, name: Name) -> BudgetReset:
    """The queue has spent nothing from now on. If it was paused for its budget, it stays so until `resume`."""
    return BudgetReset(spent=access.client.queues.reset_budget(existing(name)))


def waiting(message: Message) -> Waiting:
    """A message as it is shown before anyone has it."""
    return Waiting(
        id=message.id,
        priority=message.priority,
        key=message.key,
        correlation_id=message.correlation_id,
        enqueued_at=seconds(message.enqueued_at),
        expires_at=None if message.expires_at is None else seconds(message.expires_at),
        headers=message.headers,
        body=message.body,
    )


def _queue(name: str, stats: Stats) -> QueueView:
    age = stats.age_of_oldest_item
    return QueueView(
        name=name,
        depth=stats.queue_depth,
        in_flight=stats.in_flight_count,
        oldest_message_age_seconds=None if age is None else int(age),
        messages_per_minute=round(stats.completion_rate * 60),
    )
