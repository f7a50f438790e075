"""The audit: which operator did what, and to how many."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from holdfast.core.dead_letter import AuditRecord
from holdfast.server.admin.models import Count, Json, Output, Seconds, refusals, seconds
from holdfast.server.admin.roles import Reads

router = APIRouter(prefix="/admin/audit", tags=["audit"])


class Act(Output):
    """One act: who, what, when, which, how many."""

    id: int
    at: Seconds
    actor: str
    act: str
    queue: str | None
    about: dict[str, Json]
    count: int


class AuditList(Output):
    """Newest first. The next page is `before` the last id."""

    audit: list[Act]


@router.get("", operation_id="list_audit", responses=refusals())
def list_audit(
    access: Reads,
    n: Count = 100,
    before: Annotated[int | None, Query(ge=0, lt=2**62, description="The last id of the page before.")] = None,
) -> AuditList:
    """What operators did, newest first."""
    return AuditList(audit=[shown(one) for one in access.client.audit.list(n, before=before)])


def shown(one: AuditRecord) -> Act:
    """A line of it."""
    return Act(
        id=one.id, at=seconds(one.at), actor=one.actor, act=one.act, queue=one.queue, about=one.about, count=one.count
    )
