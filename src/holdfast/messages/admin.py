"""Messages: finding them, where they are, taking them back."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Query

from holdfast.client.client import Holdfast
from holdfast.core.message import MessageStatus
from holdfast.core.timeline import timeline
from holdfast.errors import InvalidInput, NotFound
from holdfast.server.admin import retry_text
from holdfast.server.admin.models import (
    After,
    Count,
    Done,
    Id,
    Json,
    Output,
    ReaderName,
    Seconds,
    SecondsOrNone,
    Text,
    existing,
    refusals,
    seconds,
    seconds_or_none,
)
from holdfast.server.admin.roles import Operates, Reads
from holdfast.server.error_responses import Refusal

router = APIRouter(prefix="/admin/messages", tags=["messages"])


class TimelineEntryView(Output):
    """Something that happened to a message."""

    event: str
    at: Seconds
    attempt: int | None = None
    worker: str | None = None
    error: str | None = None
    traceback: str | None = None


class MessageStatusView(Output):
    """Where a message is. `claimed_at` is when the claim began that it is in, or that ended it; `session` is what its
    handlers keep with it. `retry_state` says in words what will happen next; `last_error` is that of its last attempt
    that failed."""

    id: str
    queue: str
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


class MessageDetail(MessageStatusView):
    """The same, with the message itself."""

    priority: int | None
    key: str | None
    correlation_id: str | None
    reply_to: str | None
    headers: dict[str, Json]
    body: Json


class Found(Output):
    """Oldest first. The next page is `after` the last id."""

    messages: list[MessageDetail]


class CommitmentView(Output):
    """How a check of what was promised went. `code` is null where it did not finish."""

    name: str
    passed: bool
    code: int | None
    output: str
    attempt: int
    checked_at: Seconds


class CommitmentList(Output):
    """All that are remembered, attempt by attempt."""

    commitments: list[CommitmentView]


@router.get("", operation_id="search_messages", responses=refusals())
def search_messages(
    access: Reads,
    queue: ReaderName = None,
    key: Text = None,
    correlation_id: Text = None,
    header: Annotated[str | None, Query(min_length=1, max_length=200, description="The name of a header …")] = None,
    header_value: Annotated[str | None, Query(max_length=500, description="… and its text.")] = None,
    n: Count = 100,
    after: After = None,
) -> Found:
    """Messages by key, correlation id or a header, in whatever state, oldest first. Without any of these: none."""
    headers = None if header is None else {header: header_value or ""}
    if key is None and correlation_id is None and headers is None:
        return Found(messages=[])
    name = None if queue is None else existing(queue)
    found = access.client.messages.search(
        name, key=key, correlation_id=correlation_id, headers=headers, n=n, after=after
    )
    return Found(messages=[detail(status, now(access.client)) for status in found])


@router.get("/{message_id:uuid}", operation_id="get_message", responses=refusals())
def get_message(access: Reads, message_id: Id) -> MessageDetail:
    """Where a message is, what happened to it, and what it carries."""
    return detail(find(access.client, str(message_id)), now(access.client))


@router.post("/{message_id:uuid}/cancel", operation_id="cancel_message", responses=refusals(409))
def cancel_message(access: Operates, message_id: Id) -> Done:
    """Ends a message that is pending or being worked on, where the claim is lost."""
    cancel(access.client, str(message_id))
    return Done()


@router.get("/{message_id:uuid}/commitments", operation_id="list_commitments", responses=refusals())
def list_commitments(access: Reads, message_id: Id) -> CommitmentList:
    """How the checks of a message's commitments went."""
    find(access.client, str(message_id))
    found = access.client.messages.commitments(str(message_id))
    lines = [
        CommitmentView(
            name=one.name,
            passed=one.passed,
            code=one.code,
            output=one.output,
            attempt=one.attempt,
            checked_at=seconds(one.checked_at),
        )
        for one in found
    ]
    return CommitmentList(commitments=lines)


def find(hf: Holdfast, message_id: str) -> MessageStatus:
    """What is known of it; 404 if nothing is."""
    found = hf.status(message_id)
    if found is None:
        raise NotFound(f"there is no message {message_id}: it never was, or its history is over")
    return found


def cancel(hf: Holdfast, message_id: str) -> None:
    """Takes it back; 409 if it cannot be."""
    status = find(hf, message_id)
    try:
        is_canceled = hf.cancel(message_id)
    except InvalidInput as problem:  # It was published, and is not ours alone.
        raise Refusal(409, str(problem), code="cannot_cancel") from None
    if not is_canceled:
        state = (hf.status(message_id) or status).state
        raise Refusal(409, f"message {message_id} has ended ({state}): it cannot be canceled", code="cannot_cancel")


def now(hf: Holdfast) -> int:
    """The time, for words about it; nothing is decided by it."""
    return time.time_ns() // 1_000 if hf.settings.clock is None else hf.settings.clock()


def state(status: MessageStatus, moment: int) -> dict[str, Any]:
    """The fields of `MessageStatusView`."""
    steps = [TimelineEntryView(**{**one, "at": seconds(one["at"])}) for one in timeline(status)]
    return {
        "id": status.id,
        "queue": status.queue,
        "status": str(status.state),
        "attempts": status.attempts,
        "enqueued_at": seconds(status.enqueued_at),
        "due_at": seconds_or_none(status.due_at),
        "finished_at": seconds_or_none(status.finished_at),
        "worker": status.worker,
        "claimed_at": seconds_or_none(status.claimed_at),
        "leased_until": seconds_or_none(status.until),
        "session": status.session,
        "last_error": status.history[-1].error if status.history else None,
        "retry_state": retry_text.retry_state(status, moment),
        "timeline": steps,
        "progress": status.progress,
        "result": status.result,
    }


def detail(status: MessageStatus, moment: int) -> MessageDetail:
    """A message whole."""
    message = status.message
    return MessageDetail(
        **state(status, moment),
        priority=message.priority if message else None,
        key=message.key if message else None,
        correlation_id=message.correlation_id if message else None,
        reply_to=message.reply_to if message else None,
        headers=message.headers if message else {},
        body=message.body if message else None,
    )
