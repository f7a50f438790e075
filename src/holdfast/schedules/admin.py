"""Schedules: when they fire, stopping and starting them, firing one now."""

from __future__ import annotations

from fastapi import APIRouter

from holdfast.errors import NotFound
from holdfast.schedules import rules as core
from holdfast.server.admin.models import (
    Done,
    DoneWithMessage,
    Json,
    LengthOrNone,
    Name,
    Output,
    Seconds,
    SecondsOrNone,
    existing,
    refusals,
    seconds,
    seconds_or_none,
)
from holdfast.server.admin.roles import Administers, Operates, Reads

router = APIRouter(prefix="/admin/schedules", tags=["schedules"])


class ScheduleView(Output):
    """A schedule as it stands: by a cron line in a time zone, or every so many seconds."""

    name: str
    queue: str
    cron: str | None
    every: LengthOrNone
    tz: str
    missed: str
    priority: int
    key: str | None
    headers: dict[str, Json] | None
    body: Json
    paused: bool
    next_at: SecondsOrNone
    last_slot: SecondsOrNone
    last_at: SecondsOrNone
    created_at: Seconds
    error: str | None


class ScheduleList(Output):
    """By name."""

    schedules: list[ScheduleView]


@router.get("", operation_id="list_schedules", responses=refusals())
def list_schedules(access: Reads) -> ScheduleList:
    """All schedules of the tenant: when each fires next and did last, and what keeps it from firing."""
    return ScheduleList(schedules=[_shown(one) for one in access.client.schedules.list()])


@router.get("/{name}", operation_id="get_schedule", responses=refusals())
def get_schedule(access: Reads, name: Name) -> ScheduleView:
    """One of them."""
    for one in access.client.schedules.list():
        if one.name == name:
            return _shown(one)
    raise NotFound(f"there is no schedule {name!r}")


@router.post("/{name}/pause", operation_id="pause_schedule", responses=refusals())
def pause_schedule(access: Operates, name: Name) -> Done:
    """Stops it. Slots in between are not missed, they do not happen."""
    access.client.schedules.pause(existing(name, "schedule"))
    return Done()


@router.post("/{name}/resume", operation_id="resume_schedule", responses=refusals())
def resume_schedule(access: Operates, name: Name) -> Done:
    """Lets it go on with its first slot from now."""
    access.client.schedules.resume(existing(name, "schedule"))
    return Done()


@router.post("/{name}/trigger", operation_id="trigger_schedule", responses=refusals())
def trigger_schedule(access: Operates, name: Name) -> DoneWithMessage:
    """Sends its message now, beside the plan, paused or not."""
    return DoneWithMessage(new_message_id=access.client.schedules.run(existing(name, "schedule")).id)


@router.delete("/{name}", operation_id="remove_schedule", responses=refusals())
def remove_schedule(access: Administers, name: Name) -> Done:
    """Ends it. Messages that it has sent stay."""
    if not access.client.schedules.remove(existing(name, "schedule")):
        raise NotFound(f"there is no schedule {name!r}")
    return Done()


def _shown(one: core.Schedule) -> ScheduleView:
    return ScheduleView(
        name=one.name,
        queue=one.queue,
        cron=one.cron,
        every=one.every,
        tz=one.tz,
        missed=one.missed,
        priority=one.priority,
        key=one.key,
        headers=one.headers,
        body=one.body,
        paused=one.paused,
        next_at=seconds_or_none(one.next_at),
        last_slot=seconds_or_none(one.last_slot),
        last_at=seconds_or_none(one.last_at),
        created_at=seconds(one.created_at),
        error=one.error,
    )
