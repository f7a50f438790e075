"""What happens, as it happens: server-sent events out of rows that are stored anyway, so that every process sees the
same, and a reader that was cut off goes on where it was.

The rows are the audit (what operators did) and the notices (every death, every trouble that was reported). Each has a
place: its time, or the time in its id. That is when its transaction began, by the clock of whoever began it; it is seen
when that ends, so some come in late, behind others. So each pass over them reaches back a little, and what was sent is
remembered for that long. A reader that comes back gets that little time once more: an event may then come twice, with
the same id, but none is left out.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Container
from typing import Any
from uuid import UUID

import msgspec
from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from holdfast.client.client import Holdfast
from holdfast.core.dead_letter import AuditRecord
from holdfast.errors import StoreError
from holdfast.notices.rules import DEAD_LETTER, Notice
from holdfast.server.error_responses import RETRY_AFTER, Refusal

log = logging.getLogger("holdfast.server")

MOST_STREAMS = 50
LOOK_EVERY = 1.0
"""Seconds between two looks at the database."""

HEARTBEAT = 15.0
"""Seconds without an event after which a comment says that the stream is alive."""

NAP = 0.25
LATE = 70_000_000
"""Microseconds by which an event may come in behind others: ten seconds for its transaction, the rest for clocks."""

ACT, NOTICE = "a", "n"
"""What keys of events begin with."""

ALIVE = b": alive\n\n"
PAGE = 500
MOST_PAGES = 20
"""So many a look reads, and sends, at most. If there are more, the next one goes on there."""


class StreamedEvent(msgspec.Struct, frozen=True):
    """Something that happened: its `id` is where and which, and leads back to this place."""

    place: int
    key: str
    kind: str
    at: int
    data: dict[str, Any]

    @property
    def id(self) -> str:
        """As the reader keeps it."""
        return f"{self.place}-{self.key}"

    def text(self) -> bytes:
        """As it is sent. JSON has no line breaks."""
        return b"id: %s\nevent: %s\ndata: %s\n\n" % (
            self.id.encode(),
            self.kind.encode(),
            msgspec.json.encode({"at": self.at / 1_000_000, **self.data}),
        )


class EventReader:
    """Where one reader is. It goes over the last while again and again, in as many looks as that takes."""

    def __init__(self, hf: Holdfast, last_id: str | None) -> None:
        self._hf = hf
        place = _place_of(last_id)
        self._is_new = place is None
        self._newest = _now(hf) if place is None else place
        self._sent: dict[str, int] = {} if last_id is None else {last_id: self._newest}
        self._begin(self._newest)

    def look(self) -> list[StreamedEvent]:
        """What is new, in order. The first look of a reader that was never here only learns what is there."""
        fresh = self._look()
        while self._is_new and not self._is_through:
            fresh += self._look()
        fresh, self._is_new = [] if self._is_new else fresh, False
        if self._is_through:
            self._begin(self._before)
        return fresh

    def _begin(self, newest: int) -> None:
        """Another pass: as far back as what was not there when the one before began can be."""
        self._since = newest - LATE
        self._before = self._newest
        self._after, self._is_through = _first_id(self._since), False
        self._sent = {key: place for key, place in self._sent.items() if place >= self._since}

    def _look(self) -> list[StreamedEvent]:
        """Up to where both have been read: whoever comes back to the last of these has missed nothing."""
        notices, self._is_through = _notices(self._hf, self._after)
        acts = _acts(self._hf, self._since, self._sent)
        ends = [] if self._is_through else [notices[-1].place]
        if len(acts) > MOST_PAGES * PAGE:
            ends.append(acts.popleft().place)
            self._is_through = False
        both = [event for event in (*acts, *notices) if all(event.place <= end for end in ends)]
        self._after = max([self._after, *(event.key[1:] for event in both if event.key.startswith(NOTICE))])
        fresh = [event for event in both if event.id not in self._sent]
        fresh.sort(key=lambda event: (event.place, len(event.key), event.key))  # Act 9 is before act 10.
        self._sent |= {event.id: event.place for event in fresh}
        self._newest = max([self._newest, *(event.place for event in fresh)])
        return fresh


def _acts(hf: Holdfast, since: int, known: Container[str]) -> deque[StreamedEvent]:
    """What is new, the newest first; if that is too much, the oldest of it, and one more."""
    found: deque[StreamedEvent] = deque(maxlen=MOST_PAGES * PAGE + 1)
    before = None
    while True:
        page = hf.audit.list(PAGE, before=before)
        found += [event for one in page if one.at_us >= since and (event := _act(one)).id not in known]
        if len(page) < PAGE or page[-1].at_us < since:
            return found
        before = page[-1].id


def _notices(hf: Holdfast, after: str) -> tuple[list[StreamedEvent], bool]:
    """Some, the oldest first, and whether these are all."""
    found: list[StreamedEvent] = []
    for _ in range(MOST_PAGES):
        page = hf.notices.list(acknowledged=True, n=PAGE, after=after)
        found += map(_notice, page)
        if len(page) < PAGE:
            return found, True
        after = page[-1].id
    return found, False


def _act(one: AuditRecord) -> StreamedEvent:
    data = {"actor": one.actor, "act": one.act, "queue": one.queue, "about": one.about, "count": one.count}
    return StreamedEvent(one.at_us, f"{ACT}{one.id}", "act", one.at_us, data)


def _notice(one: Notice) -> StreamedEvent:
    data = {"notice_id": one.id, "queue": one.queue, "owner": one.owner, "error": one.error, "attempts": one.attempts}
    place, key = _time_in(one.id), f"{NOTICE}{one.id}"
    if one.kind == DEAD_LETTER:
        more = {"dead_id": one.dead_id, "message_id": one.message_id}
        return StreamedEvent(place, key, "death", one.created_at_us, data | more)
    return StreamedEvent(place, key, "report", one.created_at_us, {**data, "kind": one.kind, "about": one.about})


def _first_id(micros: int) -> str:
    """The first UUIDv7 of a moment."""
    return str(UUID(int=max(micros // 1_000, 0) << 80))


def _time_in(id: str) -> int:
    """The moment in a UUIDv7, in microseconds."""
    return (UUID(id).int >> 80) * 1_000


def _place_of(last_id: str | None) -> int | None:
    """Where the event was that a reader has seen last."""
    digits = (last_id or "").partition("-")[0]
    if last_id is None:
        return None
    if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        raise Refusal(422, "Last-Event-ID is none of ours: leave it out, and the stream begins with what comes now")
    return int(digits)


def _now(hf: Holdfast) -> int:
    return time.time_ns() // 1_000 if hf.settings.clock is None else hf.settings.clock()


class Streams:
    """The streams of one server, which are so many at most."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._lock = threading.Lock()
        self.open = 0

    def enter(self) -> None:
        """One more, or 429."""
        with self._lock:
            if self.open >= MOST_STREAMS:
                raise Refusal(
                    429, f"{MOST_STREAMS} streams are open; close one", headers={"Retry-After": str(RETRY_AFTER)}
                )
            self.open += 1

    def leave(self) -> None:
        """One less."""
        with self._lock:
            self.open -= 1

    async def texts(self, reading: EventReader, queue: str | None) -> AsyncIterator[bytes]:
        """What is sent, until the reader hangs up or the server stops."""
        yield b"retry: 2000\n\n"
        quiet_since = time.monotonic()
        while not self._stopping.is_set():
            try:
                events = await run_in_threadpool(reading.look)
            except StoreError as problem:
                log.warning("a stream of events waits for the database: %s", problem)
                events = []
            wanted = [event for event in events if queue in (None, event.data.get("queue"))]
            for event in wanted:
                yield event.text()
            if wanted or time.monotonic() - quiet_since >= HEARTBEAT:
                yield ALIVE
                quiet_since = time.monotonic()
            looked = time.monotonic()
            while time.monotonic() - looked < LOOK_EVERY and not self._stopping.is_set():
                await asyncio.sleep(NAP)


class EventStream(StreamingResponse):
    """Gives its place back however it ends."""

    media_type = "text/event-stream"

    def __init__(self, streams: Streams, reading: EventReader, queue: str | None) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(streams.texts(reading, queue), headers=headers)
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.leave()


def streams_of(app: FastAPI) -> Streams:
    """The app's own. They end when `app.state.stopping` is set."""
    if not hasattr(app.state, "streams"):
        app.state.streams = Streams(app.state.stopping)
    found: Streams = app.state.streams
    return found
