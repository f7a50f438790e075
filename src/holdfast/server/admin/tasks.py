"""Tasks: a message by the names of whoever wants something done, not of whoever operates. A type is a queue."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import AfterValidator, BeforeValidator, Field

from holdfast.messages.admin import TimelineEntryView, cancel, find, now, state
from holdfast.server.admin.models import (
    LATEST,
    NAME,
    TEXT,
    Done,
    Id,
    Input,
    Json,
    Output,
    Seconds,
    SecondsOrNone,
    existing,
    refusals,
)
from holdfast.server.admin.roles import Operates, Reads

router = APIRouter(prefix="/tasks", tags=["tasks"])

LONGEST = 100 * 365 * 86_400


def _not_blank(payload: Any) -> Any:
    if payload is None or (isinstance(payload, str) and not payload.strip()):
        raise ValueError("a payload must not be blank")
    return payload


def _whole(number: Any) -> Any:
    """To JSON, 3.0 is an integer, and true is none."""
    if isinstance(number, bool):
        raise ValueError("a priority is no truth value")
    return int(number) if isinstance(number, float) and number.is_integer() else number


class NewTask(Input):
    """What is to be done. It begins after `delay` seconds, or at `run_at` if that is later."""

    type: str = Field(min_length=1, max_length=200, pattern=NAME, description="The name of a queue.")
    payload: Annotated[Json, AfterValidator(_not_blank)] = Field(
        json_schema_extra={"not": {"type": "null"}, "description": "Any JSON value but null and blank text."}
    )
    priority: Annotated[Literal[0, 1, 2, 3, "urgent", "high", "normal", "low"], BeforeValidator(_whole)] = "normal"
    delay: float = Field(0, ge=0, le=LONGEST, description="Seconds.")
    run_at: float | None = Field(None, ge=0, le=LATEST, description="Seconds since 1970.")
    key: str | None = Field(None, max_length=500, pattern=TEXT, description="What it has to be in order with.")
    idempotency_key: str | None = Field(None, max_length=500, pattern=TEXT)
    correlation_id: str | None = Field(None, max_length=500, pattern=TEXT)


class TaskReceipt(Output):
    """What was stored. A `duplicate` was there before under the same idempotency key, with its result if it is done."""

    id: str
    type: str
    status: str
    duplicate: bool
    result: Json = None


class Task(Output):
    """Where a task is. `claimed_at` is when the claim began that it is in, or that ended it; `session` is what its
    handlers keep with it. `retry_state` says in words what will happen next."""

    id: str
    type: str
    status: str
    attempts: int
    enqueued_at: Seconds
    due_at: SecondsOrNone
    finished_at: SecondsOrNone
    worker: str | None
    claimed_at: SecondsOrNone
    leased_until: SecondsOrNone
    session: str | None
    last_error: str | None
    retry_state: str
    timeline: list[TimelineEntryView]
    progress: Json
    result: Json
    payload: Json


_CREATED: dict[int | str, dict[str, Any]] = {
    200: {"model": TaskReceipt, "description": "It was there before, under the same idempotency key."},
}


@router.post("", operation_id="create_task", status_code=201, responses=refusals(409, body=True) | _CREATED)
def create_task(access: Operates, task: NewTask, response: Response) -> TaskReceipt:
    """Has something done, now or later. When it is answered, it survives a crash."""
    hf, queue = access.client, existing(task.type)
    wait = 0.0 if task.run_at is None else task.run_at - now(hf) / 1_000_000
    receipt = hf.enqueue(
        queue,
        task.payload,
        priority=task.priority,
        delay=max(task.delay, wait),
        key=task.key,
        idempotency_key=task.idempotency_key,
        correlation_id=task.correlation_id,
    )
    found = hf.status(receipt.id) if receipt.duplicate else None
    response.status_code = 200 if receipt.duplicate else 201
    return TaskReceipt(
        id=receipt.id,
        type=queue,
        status="pending" if found is None else str(found.state),
        duplicate=receipt.duplicate,
        result=receipt.result,
    )


@router.get("/{task_id:uuid}", operation_id="get_task", responses=refusals())
def get_task(access: Reads, task_id: Id) -> Task:
    """Where a task is and what happened to it."""
    status = find(access.client, str(task_id))
    known = state(status, now(access.client))
    return Task(type=known.pop("queue"), payload=status.message.body if status.message else None, **known)


@router.put("/{task_id:uuid}/cancel", operation_id="cancel_task", responses=refusals(409))
def cancel_task(access: Operates, task_id: Id) -> Done:
    """Takes a task back that has not ended; whoever works on it loses it."""
    cancel(access.client, str(task_id))
    return Done()
