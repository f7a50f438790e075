"""What happens, as it happens: server-sent events out of rows that are stored anyway, so that every process sees the
same, and a reader that was cut off goes on where it was.

The rows are the audit (what operators did) and the notices (every death, every trouble that was reported). They are
numbered or timed when their transaction begins, and seen when it ends: one that took longer comes in late, before
others. So each look reaches back a little, and what was sent is remembered for that long. A reader that comes back gets
that little time once more: an event may then come twice, with the same id, but none is left out.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import UUID

import msgspec
from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from holdfast.client import Holdfast
from holdfast.core.deadletter import AuditRecord
from holdfast.core.notice import DEAD_LETTER, Notice
from holdfast.errors import StoreError
from holdfast.http.answers import RETRY_AFTER, Refusal

log = logging.getLogger("holdfast.http")

MOST_STREAMS = 50
LOOK_EVERY = 1.0
"""Seconds between two looks at the database."""

HEARTBEAT = 15.0
"""Seconds without an event after which a comment says that the stream is alive."""

NAP = 0.25
OVERLAP = 10_000_000
"""Microseconds: so much longer than others may the transaction of an event have taken."""

SKEW = 60_000_000
"""Microseconds by which the clocks of machines that make ids may differ."""

BEGINNING = 600_000_000
"""A stream begins with what is not there yet when it begins; it knows what is there of the last ten minutes."""

ALIVE = b": alive\n\n"
PAGE = 500
MOST_PAGES = 20


class Event(msgspec.Struct, frozen=True):
    """Something that happened: its `id` is when and which, and leads back to this place."""

    at: int
    key: str
    kind: str
    data: dict[str, Any]

    @property
    def id(self) -> str:
        """As the reader keeps it."""
        return f"{self.at}-{self.key}"

    def text(self) -> bytes:
        """As it is sent. JSON has no line breaks."""
        return b"id: %s\nevent: %s\ndata: %s\n\n" % (
            self.id.encode(),
            self.kind.encode(),
            msgspec.json.encode({"at": self.at / 1_000_000, **self.data}),
        )


class Reading:
    """Where one reader is."""

    def __init__(self, hf: Holdfast, last_id: str | None) -> None:
        self._hf = hf
        self._newest = _time_of(last_id)
        self._sent: dict[str, int] = {} if last_id is None else {last_id: self._newest or 0}

    def look(self) -> list[Event]:
        """What is new, in order. The first look of a reader that was never here only learns what is there."""
        if self._newest is None:
            self._newest = _now(self._hf)
            self._sent = {event.id: event.at for event in _happened(self._hf, self._newest - BEGINNING)}
            return []
        since = self._newest - OVERLAP
        fresh = [event for event in _happened(self._hf, since) if event.id not in self._sent]
        fresh.sort(key=lambda event: (event.at, event.key))
        self._sent |= {event.id: event.at for event in fresh}
        self._newest = max([self._newest, *(event.at for event in fresh)])
        self._sent = {key: at for key, at in self._sent.items() if at >= self._newest - OVERLAP - BEGINNING}
        return fresh


def _happened(hf: Holdfast, since: int) -> Iterator[Event]:
    yield from _acts(hf, since)
    yield from _notices(hf, since)


def _acts(hf: Holdfast, since: int) -> Iterator[Event]:
    """The newest first, as far as they are new enough."""
    before = None
    for _ in range(MOST_PAGES):
        page = hf.audit(PAGE, before=before)
        yield from (_act(one) for one in page if one.at >= since)
        if len(page) < PAGE or page[-1].at < since:
            return
        before = page[-1].id


def _notices(hf: Holdfast, since: int) -> Iterator[Event]:
    after = _first_id(since - SKEW)
    for _ in range(MOST_PAGES):
        page = hf.notices(acknowledged=True, n=PAGE, after=after)
        yield from (_notice(one) for one in page if one.created_at >= since)
        if len(page) < PAGE:
            return
        after = page[-1].id


def _act(one: AuditRecord) -> Event:
    data = {"actor": one.actor, "act": one.act, "queue": one.queue, "about": one.about, "count": one.count}
    return Event(one.at, f"a{one.id}", "act", data)


def _notice(one: Notice) -> Event:
    data = {"notice_id": one.id, "queue": one.queue, "owner": one.owner, "error": one.error, "attempts": one.attempts}
    if one.kind == DEAD_LETTER:
        return Event(
            one.created_at, f"n{one.id}", "death", {**data, "dead_id": one.dead_id, "message_id": one.message_id}
        )
    return Event(one.created_at, f"n{one.id}", "report", {**data, "kind": one.kind, "about": one.about})


def _first_id(micros: int) -> str:
    """The first UUIDv7 of a moment."""
    return str(UUID(int=max(micros // 1_000, 0) << 80))


def _time_of(last_id: str | None) -> int | None:
    """When the event was that a reader has seen last."""
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

    async def texts(self, reading: Reading, queue: str | None) -> AsyncIterator[bytes]:
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

    def __init__(self, streams: Streams, reading: Reading, queue: str | None) -> None:
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
