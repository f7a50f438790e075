"""The stream of events."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from holdfast.server.admin.models import ReaderName, existing_reader, refusals
from holdfast.server.admin.roles import Reads
from holdfast.server.events_stream import EventReader, EventStream, streams_of

router = APIRouter(prefix="/admin/events", tags=["events"])

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events: `act`, `death` and `report`, each with an id and JSON as its data. "
        "All have `at` in seconds since 1970.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


@router.get("", operation_id="stream_events", response_class=StreamingResponse, responses=refusals(429) | _STREAM)
async def stream_events(
    access: Reads,
    request: Request,
    queue: ReaderName = None,
    last_event_id: Annotated[str | None, Header(max_length=100, description="Goes on after this event.")] = None,
) -> EventStream:
    """What happens from now on, or from the last event that was seen: what operators do, every death, every report.

    After a reconnect an event may come once more, with the same id. None is left out.
    """
    wanted = existing_reader(queue)
    hf = await run_in_threadpool(lambda: access.client)
    reading = EventReader(hf, last_event_id)
    if last_event_id is None:
        await run_in_threadpool(reading.look)  # From here on: what comes after the answer has begun is in it.
    streams = streams_of(request.app)
    streams.enter()
    return EventStream(streams, reading, wanted)
