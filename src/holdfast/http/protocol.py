"""HTTP/1.1 as uvicorn speaks it, within limits: it has none for headers, and waits for ever for a slow sender."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import httptools
import msgspec
from starlette.responses import Response
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from holdfast.http.answers import CODES, RETRY_AFTER
from holdfast.http.guard import SECURITY_HEADERS, guarded
from holdfast.http.limits import Limits

LINGER = 1.0
"""Seconds to listen to one who was answered before he was through: if we hung up at once, the answer could be lost."""


LINGER_BYTES = 1_048_576
"""So much is listened to at most."""


Take = Callable[[Any, bytes, Callable[[Response | None], None]], bool]
"""`App.take`."""


class Bounded(HttpToolsProtocol):
    """A connection within `limits`.

    Most requests arrive in one piece; only one that does not has a clock set.
    """

    limits = Limits()

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._deadline: asyncio.TimerHandle | None = None
        self._phase = "idle"
        self._received = 0
        self._body_size = 0
        self._status = 400
        self._deaf = False
        self._take: Take | None = getattr(self.app, "take", None)
        self._most_bytes = self.limits.body_bytes
        self._may_hold = False
        self._held: RequestResponseCycle | None = None

    # --- the connection -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Someone is there; he has to say what he wants."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self._refuse(503)
        else:
            self._set_deadline(self.limits.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._clear_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Some bytes; afterwards a clock is set if something is still missing."""
        if self._deaf:
            self._ignore(data)
            return
        if self._phase == "idle":
            self._phase, self._received = "headers", 0
        before = self._phase
        self._received += len(data)
        super().data_received(data)
        held, self._held = self._held, None
        if held is not None and not held.disconnected:
            self._begin(held)
        if self._deaf or self.transport.is_closing():
            return
        if self._phase == "headers" and self._received > self.limits.header_bytes:
            self._refuse(431)
        elif self._phase == "idle":
            self._clear_deadline()
        elif before != self._phase or self._deadline is None:
            body = self._phase == "body"
            self._set_deadline(self.limits.body_seconds if body else self.limits.header_seconds)

    # --- the request --------------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins, perhaps behind another one in the same bytes."""
        self._phase, self._body_size = "headers", 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """All headers are there. What raises here is answered by `send_400_response`."""
        size, declared, is_chunked = len(self.url), None, False
        for name, value in self.headers:
            size += len(name) + len(value)
            if name == b"content-length":
                if declared is not None or not value.isdigit():
                    self._fail(400)
                declared = value
            elif name == b"transfer-encoding":
                is_chunked = True
        if len(self.headers) > self.limits.headers or size > self.limits.header_bytes:
            self._fail(431)
        if (is_chunked and declared is not None) or self.parser.should_upgrade():
            self._fail(400)
        self._most_bytes = max(self.limits.body_bytes, self._allowed(self.url))
        if declared is not None and int(declared[:20]) > self._most_bytes:
            self._fail(413)
        self._phase = "body"
        self._may_hold = self._take is not None
        super().on_headers_complete()
        self._may_hold = False

    def _allowed(self, url: bytes) -> int:
        """What the application allows for a path beyond the limit of all."""
        allowed: Callable[[bytes], int] | None = getattr(self.app, "body_bytes", None)
        return 0 if allowed is None else allowed(url)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """The headers are there. Perhaps the body is too, in the same bytes; then there may be a shorter way."""
        if self._may_hold and app is self.app:
            self._held = cycle
        else:
            super()._start_asgi_task(cycle, app)

    def _begin(self, cycle: RequestResponseCycle) -> None:
        assert self._take is not None, "otherwise nothing is held"
        is_whole = not cycle.more_body and not self.flow.write_paused
        if not is_whole or not self._take(cycle.scope, bytes(cycle.body), partial(self._answer, cycle)):
            super()._start_asgi_task(cycle, self.app)

    def _answer(self, cycle: RequestResponseCycle, response: Response | None) -> None:
        """All of an answer at once; without one, the application is asked."""
        if response is None:
            super()._start_asgi_task(cycle, self.app)
            return
        if cycle.disconnected:
            return
        cycle.response_started = cycle.response_complete = True
        headers = [*cycle.default_headers, *guarded(response.raw_headers)]
        if not cycle.keep_alive:
            headers.append((b"connection", b"close"))
        lines = [b"%b: %b\r\n" % header for header in headers]
        self.transport.write(b"".join([STATUS_LINE[response.status_code], *lines, b"\r\n", response.body]))
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._body_size += len(body)
        if self._body_size > self._most_bytes:
            self._fail(413)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._phase, self._received = "idle", 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """The parser, or one of the checks above, has had enough."""
        self._refuse(self._status)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _fail(self, status: int) -> None:
        self._status = status
        raise httptools.HttpParserError

    def _refuse(self, status: int) -> None:
        """Answers, if no other answer is under way, listens a little longer, and hangs up."""
        self._clear_deadline()
        self._deaf, self._received = True, 0
        if self.pipeline:  # The answer to an earlier request is under way, and this one has begun as well.
            self.transport.close()
            return
        answered = self.cycle is not None and self.cycle.response_complete and self._phase == "body"
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy and (self.cycle.response_started or self._phase != "body"):
            self.cycle.keep_alive = False  # What is under way goes out first; then uvicorn hangs up.
            return
        if busy:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if not answered:
            self.transport.write(_answer(status))
        self.loop.call_later(LINGER, self.transport.close)
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _ignore(self, data: bytes) -> None:
        self._received += len(data)
        if self._received > LINGER_BYTES:
            self.transport.abort()

    def _set_deadline(self, seconds: float) -> None:
        self._clear_deadline()
        self._deadline = self.loop.call_later(seconds, self._too_slow)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if self._phase == "idle":
            self.transport.close()
        else:
            self._refuse(408)


def bounded(limits: Limits) -> type[Bounded]:
    """The protocol of a server with these limits."""
    return type("Bounded", (Bounded,), {"limits": limits})


MESSAGES = {
    400: "this is not a request that can be understood",
    408: "the request did not arrive in time",
    413: "the body is larger than allowed",
    431: "the headers are more, or longer, than allowed",
    503: "there are too many connections; try again later",
}


def _answer(status: int) -> bytes:
    body = msgspec.json.encode({"error": {"code": CODES[status], "message": MESSAGES[status]}})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *SECURITY_HEADERS,
        *([(b"retry-after", str(RETRY_AFTER).encode())] if status == 503 else []),
    ]
    return b"".join([STATUS_LINE[status], *(b"%b: %b\r\n" % header for header in headers), b"\r\n", body])
