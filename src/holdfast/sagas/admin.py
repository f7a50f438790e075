"""Sagas: where each is and what happened to it; turning one round, and deciding about a step that is stuck."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field

from holdfast.client.client import Holdfast
from holdfast.core.times import fields
from holdfast.errors import InvalidInput, NotFound, shown
from holdfast.sagas.rules import declaration as core
from holdfast.server.admin.models import (
    NAME,
    TEXT,
    Count,
    Done,
    Input,
    Json,
    Name,
    Output,
    Seconds,
    SecondsOrNone,
    existing,
    refusals,
    seconds,
    seconds_or_none,
)
from holdfast.server.admin.roles import Operates, Reads
from holdfast.server.error_responses import Refusal

router = APIRouter(prefix="/admin/sagas", tags=["sagas"])

SagaId = Annotated[str, Path(min_length=1, max_length=500, pattern=NAME)]
Status = Literal[
    "pending", "in_progress", "completed", "failed", "compensating", "compensated", "compensation_failed", "canceled"
]


class SagaStepView(Output):
    """A step as it stands. While `undoing`, its status is that of its undo."""

    name: str
    status: str
    queue: str | None
    undo: str | None
    tries: int
    undo_tries: int
    undoing: bool
    undoable: bool
    error: str | None
    traceback: str | None
    output: Json
    started_at: SecondsOrNone
    ended_at: SecondsOrNone
    due_at: SecondsOrNone
    messages: list[str]


class SagaEventView(Output):
    """One line of a saga's history."""

    at: Seconds
    what: str
    step: str | None
    who: str | None
    attempt: int | None
    error: str | None
    traceback: str | None
    output: Json


class SagaView(Output):
    """A saga at a glance."""

    id: str
    name: str
    version: int
    status: Status
    error: str | None
    started_at: Seconds
    updated_at: Seconds
    ended_at: SecondsOrNone


class SagaDetail(SagaView):
    """The same with its data, its steps and all that happened."""

    traceback: str | None
    data: dict[str, Json]
    steps: list[SagaStepView]
    timeline: list[SagaEventView]


class SagaList(Output):
    """In the order they were started."""

    sagas: list[SagaView]


class Reason(Input):
    """Why."""

    reason: Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]


class MaybeReason(Input):
    """Why, if someone says so."""

    reason: Annotated[str | None, Field(max_length=500, pattern=TEXT)] = None


class StepOutcomeInput(Input):
    """What came of something that was done by hand, or happened elsewhere."""

    data: Json = None


@router.get("", operation_id="list_sagas", responses=refusals())
def list_sagas(
    access: Reads,
    status: Annotated[Status | None, Query()] = None,
    name: Annotated[str | None, Query(min_length=1, max_length=200, pattern=NAME)] = None,
    n: Count = 100,
    after: Annotated[str | None, Query(min_length=1, max_length=500, pattern=TEXT)] = None,
) -> SagaList:
    """Sagas, all or those with a status or of a definition; the next page is `after` the last id."""
    wanted = None if name is None else existing(name, "saga")
    last = None if after is None else _existing(after)
    found = access.client.sagas.list(status, name=wanted, n=n, after=last)
    return SagaList(sagas=[SagaView(**_glance(one)) for one in found])


@router.get("/{saga_id}", operation_id="get_saga", responses=refusals())
def get_saga(access: Reads, saga_id: SagaId) -> SagaDetail:
    """One of them, step by step, with its timeline."""
    found = _find(access.client, saga_id)
    return SagaDetail(
        **_glance(found),
        traceback=found.traceback,
        data=found.data,
        steps=[SagaStepView(**_with_seconds(step)) for step in found.steps],
        timeline=[SagaEventView(**_with_seconds(event)) for event in found.timeline],
    )


@router.post("/{saga_id}/cancel", operation_id="cancel_saga", responses=refusals(409, body=True))
def cancel_saga(access: Operates, saga_id: SagaId, why: MaybeReason) -> Done:
    """Turns it round: what was completed is undone."""
    _find(access.client, saga_id)
    return _decided(access.client.sagas.cancel(saga_id, why.reason), "it has turned round, or ended, before")


@router.post("/{saga_id}/signals/{name}", operation_id="signal_saga", responses=refusals(409, body=True))
def signal_saga(access: Operates, saga_id: SagaId, name: Name, what: StepOutcomeInput) -> Done:
    """Tells it that something happened which a step waits for, now or later."""
    _find(access.client, saga_id)
    return _decided(access.client.signal(saga_id, existing(name, "signal"), what.data), "it has no use for it")


@router.post("/{saga_id}/steps/{step}/retry", operation_id="retry_saga_step", responses=refusals(409))
def retry_saga_step(access: Operates, saga_id: SagaId, step: Name) -> Done:
    """Sends a failed step, or a failed undo, once more."""
    place = _step(access.client, saga_id, step)
    return _decided(access.client.sagas.retry(saga_id, place), "it has not failed, or was undone since")


@router.post("/{saga_id}/steps/{step}/skip", operation_id="skip_saga_step", responses=refusals(409, body=True))
def skip_saga_step(access: Operates, saga_id: SagaId, step: Name, why: Reason) -> Done:
    """Goes on without a step, or without its undo. A saga of which an undo was skipped ends as failed."""
    place = _step(access.client, saga_id, step)
    return _decided(access.client.sagas.skip(saga_id, place, why.reason), "there is nothing to decide about it")


@router.post("/{saga_id}/steps/{step}/done", operation_id="mark_saga_step_done", responses=refusals(409, body=True))
def mark_saga_step_done(access: Operates, saga_id: SagaId, step: Name, what: StepOutcomeInput) -> Done:
    """Says that a step, or its undo, was done by hand."""
    place = _step(access.client, saga_id, step)
    return _decided(access.client.sagas.mark_done(saga_id, place, what.data), "there is nothing to decide about it")


def _existing(saga_id: str) -> str:
    """An id from a request. One that no saga can have is one that no saga has."""
    try:
        return core.checked_saga_id(saga_id)
    except InvalidInput:
        raise NotFound(f"there is no saga {shown(saga_id)}") from None


def _find(hf: Holdfast, saga_id: str) -> core.SagaStatus:
    found = hf.sagas.get(_existing(saga_id))
    if found is None:
        raise NotFound(f"there is no saga {saga_id!r}")
    return found


def _step(hf: Holdfast, saga_id: str, step: str) -> str:
    if step not in [one.name for one in _find(hf, saga_id).steps]:
        raise NotFound(f"the saga {saga_id!r} has no step {step!r}")
    return step


def _decided(it_was: bool, why_not: str) -> Done:
    if not it_was:
        raise Refusal(409, why_not)
    return Done()


def _glance(one: core.SagaStatus) -> dict[str, Any]:
    plain = {"id": one.id, "name": one.name, "version": one.version, "status": one.status, "error": one.error}
    times = {"started_at": seconds(one.started_at), "updated_at": seconds(one.updated_at)}
    return {**plain, **times, "ended_at": seconds_or_none(one.ended_at)}


def _with_seconds(one: core.StepStatus | core.SagaEvent) -> dict[str, Any]:
    parts = fields(one)
    return {name: seconds(part) if isinstance(part, datetime) else part for name, part in parts.items()}
