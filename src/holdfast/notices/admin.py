"""Escalations: notices that wait for an answer, and the owners that have to give it."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import Field

from holdfast.client.client import Holdfast
from holdfast.errors import NotFound
from holdfast.notices import rules as core
from holdfast.server.admin.models import (
    TEXT,
    After,
    Count,
    Done,
    Id,
    Input,
    Length,
    LengthOrNone,
    Output,
    ReaderName,
    Seconds,
    SecondsOrNone,
    Text,
    existing_reader,
    refusals,
    seconds,
    seconds_or_none,
)
from holdfast.server.admin.roles import Operates, Reads
from holdfast.server.error_responses import Refusal

router = APIRouter(prefix="/admin", tags=["escalations"])


class NoticeView(Output):
    """Someone has to look at something. `level` is how often it has climbed, `climbs_at` when it does next."""

    id: str
    kind: str
    about: str | None
    queue: str | None
    owner: str | None
    level: int
    dead_id: str | None
    message_id: str | None
    error: str
    traceback: str | None
    attempts: int
    repeats: int
    created_at: Seconds
    climbs_at: SecondsOrNone
    acknowledged_at: SecondsOrNone
    acknowledged_by: str | None
    remark: str | None


class NoticeList(Output):
    """Oldest first. The next page is `after` the last id."""

    notices: list[NoticeView]


class OwnerView(Output):
    """Who answers for dead letters. Lengths are seconds."""

    name: str
    inbox: str
    owner: str | None
    escalate_after: LengthOrNone
    notify: str
    digest_every: Length


class OwnerList(Output):
    """By name."""

    owners: list[OwnerView]


class Acknowledge(Input):
    """What was done about it."""

    remark: str | None = Field(None, max_length=500, pattern=TEXT)


@router.get("/notices", operation_id="list_notices", responses=refusals())
def list_notices(
    access: Reads,
    owner: Text = None,
    queue: ReaderName = None,
    acknowledged: Annotated[bool, Query(description="Also those that someone looks after.")] = False,
    n: Count = 100,
    after: After = None,
) -> NoticeList:
    """What waits for an answer, oldest first. `owner=` (empty) chooses what nobody owns."""
    found = access.client.notices.list(owner, queue=existing_reader(queue), acknowledged=acknowledged, n=n, after=after)
    return NoticeList(notices=[_shown(one) for one in found])


@router.post(
    "/notices/{notice_id:uuid}/acknowledge", operation_id="acknowledge_notice", responses=refusals(409, body=True)
)
def acknowledge_notice(access: Operates, notice_id: Id, how: Acknowledge | None = None) -> Done:
    """Someone looks after it: it climbs no further."""
    hf = access.client
    if not hf.notices.acknowledge(str(notice_id), remark=how.remark if how else None):
        known = _find(hf, notice_id)
        raise Refusal(409, f"{known.acknowledged_by} has acknowledged it before", code="acknowledged")
    return Done()


@router.get("/owners", operation_id="list_owners", responses=refusals())
def list_owners(access: Reads) -> OwnerList:
    """Everyone who was declared."""
    found = access.client.notices.owners()
    lines = [
        OwnerView(
            name=name,
            inbox=spec.inbox,
            owner=spec.owner,
            escalate_after=spec.escalate_after,
            notify=spec.notify,
            digest_every=spec.digest_every,
        )
        for name, spec in sorted(found.items())
    ]
    return OwnerList(owners=lines)


def _find(hf: Holdfast, notice_id: UUID) -> core.Notice:
    """Notices are listed by id: the first one after the id just before this one."""
    before = str(UUID(int=notice_id.int - 1)) if notice_id.int else None
    found = hf.notices.list(acknowledged=True, n=1, after=before)
    if not found or found[0].id != str(notice_id):
        raise NotFound(f"there is no notice {notice_id}")
    return found[0]


def _shown(one: core.Notice) -> NoticeView:
    return NoticeView(
        id=one.id,
        kind=one.kind,
        about=one.about,
        queue=one.queue,
        owner=one.owner,
        level=one.level,
        dead_id=one.dead_id,
        message_id=one.message_id,
        error=one.error,
        traceback=one.traceback,
        attempts=one.attempts,
        repeats=one.repeats,
        created_at=seconds(one.created_at),
        climbs_at=seconds_or_none(one.climbs_at),
        acknowledged_at=seconds_or_none(one.acknowledged_at),
        acknowledged_by=one.acknowledged_by,
        remark=one.remark,
    )
