"""HTTP/1.1 as uvicorn speaks it, within limits: it has none for headers, and waits for ever for a slow sender."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import chain
from typing import Any

import httptools
import msgspec
from starlette.responses import Response
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from holdfast.http.answers import CODES, RETRY_AFTER
from holdfast.http.fields import Fields
from holdfast.http.guard import SECURITY_HEADERS, guarded
from holdfast.http.hooks import Hook
from holdfast.http.limits import Limits

LINGER = 1.0
"""Seconds to listen to one who was answered before he was through: if we hung up at once, the answer could be lost."""


LINGER_BYTES = 1_048_576
"""So much is listened to at most."""


class Arrival:
    """A delivery of a webhook, on its way past uvicorn: for each request that makes a dozen objects and a task.

    It says what the parser would say, in case that it has to go that way after all.
    """

    __slots__ = ("body", "expects", "fields", "headers", "hook", "is_whole", "keep_alive", "url")

    def __init__(self, hook: Hook, url: bytes, headers: list[tuple[bytes, bytes]], fields: Fields) -> None:
        self.hook = hook
        self.url = url
        self.headers = headers
        self.fields = fields
        self.body = b""
        self.is_whole = False
        self.expects = False
        self.keep_alive = True

    def get_method(self) -> bytes:
        """Nobody delivers otherwise."""
        return b"POST"

    def get_http_version(self) -> str:
        """The older one has habits of its own; uvicorn knows them."""
        return "1.1"

    def should_keep_alive(self) -> bool:
        """Whether the connection may serve the next one."""
        return self.keep_alive

    def should_upgrade(self) -> bool:
        """Such requests are refused."""
        return False


class Bounded(HttpToolsProtocol):
    """A connection within `limits`.

    Most requests arrive in one piece; only one that does not has a clock set. A delivery that does is given to the
    application at once, and until it is answered nothing more is read.
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
        self._most_bytes = self.limits.body_bytes
        self._hook_at: Callable[[bytes], Hook | None] | None = getattr(self.app, "hook_at", None)
        self._arriving: Arrival | None = None
        self._under_way: Arrival | None = None
        self._early = b""
        self._resting_since: float | None = None
        self._rest: asyncio.TimerHandle | None = None

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
        self._arriving = self._under_way = None
        if self._rest is not None:
            self._rest.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server stops; what is under way is answered before."""
        if self._under_way is not None:
            self._under_way.keep_alive = False
        else:
            super().shutdown()

    def data_received(self, data: bytes) -> None:
        """Some bytes; afterwards a clock is set if something is still missing."""
        if self._deaf:
            self._ignore(data)
            return
        if self._under_way is not None:
            self._early += data
            self.flow.pause_reading()
            return
        if self._phase == "idle":
            self._phase, self._received = "headers", 0
        before = self._phase
        self._received += len(data)
        self._resting_since = None
        super().data_received(data)
        if self._arriving is not None:
            self._begin(self._arriving)
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
        if self._arriving is not None:
            self._give_to_uvicorn(self._arriving)  # It knows how to answer them in their order.
        self._phase, self._body_size = "headers", 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """All headers are there. What raises here is answered by `send_400_response`."""
        fields = Fields(self.headers)
        size = len(self.url) + sum(map(len, chain.from_iterable(self.headers)))
        if len(self.headers) > self.limits.headers or size > self.limits.header_bytes:
            self._fail(431)
        declared = fields.get(b"content-length")
        if declared is not None and (not declared.isdigit() or b"transfer-encoding" in fields):
            self._fail(400)
        if self.parser.should_upgrade():
            self._fail(400)
        self._most_bytes = max(self.limits.body_bytes, self._allowed(self.url))
        if declared is not None and int(declared[:20]) > self._most_bytes:
            self._fail(413)
        self._phase = "body"
        self._arriving = self._delivery(fields)
        if self._arriving is None:
            super().on_headers_complete()

    def _allowed(self, url: bytes) -> int:
        """What the application allows for a path beyond the limit of all."""
        allowed: Callable[[bytes], int] | None = getattr(self.app, "body_bytes", None)
        return 0 if allowed is None else allowed(url)

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._body_size += len(body)
        if self._body_size > self._most_bytes:
            self._fail(413)
        if self._arriving is not None:
            self._arriving.body += body
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._phase, self._received = "idle", 0
        if self._arriving is not None:
            self._arriving.is_whole = True
        else:
            super().on_message_complete()

    # --- deliveries ---------------------------------------------------------------------------------------------------

    def _delivery(self, fields: Fields) -> Arrival | None:
        """What has begun to arrive, if it is a delivery and nothing before it is still to be answered."""
        hook = self._hook_at(self.url) if self._hook_at is not None else None
        is_usual = self.parser.get_method() == b"POST" and self.parser.get_http_version() == "1.1"
        if hook is None or not is_usual or not (self.cycle is None or self.cycle.response_complete):
            return None
        arrival = Arrival(hook, self.url, self.headers, fields)
        arrival.expects = self.expect_100_continue
        arrival.keep_alive = self.parser.should_keep_alive()
        return arrival

    def _begin(self, arrival: Arrival) -> None:
        """The bytes are read. If the whole delivery was in them, the application may take it."""
        address = self.client[0] if self.client else ""
        if (
            arrival.is_whole
            and not self.flow.write_paused
            and self.app.take(arrival.hook, address, arrival.fields, arrival.body, partial(self._answer, arrival))
        ):
            self._arriving, self._under_way = None, arrival
        else:
            self._give_to_uvicorn(arrival)

    def _give_to_uvicorn(self, arrival: Arrival) -> None:
        """The usual way, from its beginning up to here."""
        self._arriving = None
        parser, self.parser = self.parser, arrival  # type: ignore[assignment]
        super().on_message_begin()
        self.url, self.expect_100_continue = arrival.url, arrival.expects
        self.headers += arrival.headers
        super().on_headers_complete()
        if arrival.body:
            super().on_body(arrival.body)
        if arrival.is_whole:
            super().on_message_complete()
        self.parser = parser

    def _answer(self, arrival: Arrival, response: Response | None) -> None:
        """All of an answer at once; without one, the application is asked."""
        if self._under_way is not arrival:
            return  # Nobody is there any more.
        self._under_way = None
        if response is None:
            self._give_to_uvicorn(arrival)
        else:
            self._send(response, arrival.keep_alive)
        if self.transport.is_closing():
            return  # Nobody would hear of what stands behind it.
        self.flow.resume_reading()
        if self._early:
            early, self._early = self._early, b""
            self.data_received(early)

    def _send(self, response: Response, keep_alive: bool) -> None:
        head = _lines(response.status_code, tuple(response.raw_headers))
        always = _lines(None, tuple(self.server_state.default_headers))
        end = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
        self.transport.write(b"".join((head, always, end, response.body)))
        self.server_state.total_requests += 1
        if not keep_alive:
            self.transport.close()
            return
        self._resting_since = self.loop.time()
        if self._rest is None:
            self._rest = self.loop.call_later(self.timeout_keep_alive, self._rested)

    def _rested(self) -> None:
        """Hangs up if nothing has come since the last answer for as long as a connection may be idle.

        One look now and then is less work than a clock that every request sets and stops.
        """
        self._rest = None
        if self._resting_since is None or self.transport.is_closing():
            return
        left = self._resting_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._rest = self.loop.call_later(left, self._rested)
        else:
            self.transport.close()

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
        is_new = self._arriving is not None
        self._arriving = None
        if self.pipeline:  # The answer to an earlier request is under way, and this one has begun as well.
            self.transport.close()
            return
        answered = self.cycle is not None and self.cycle.response_complete and self._phase == "body" and not is_new
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


@lru_cache(maxsize=1_000)
def _lines(status: int | None, headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """The beginning of an answer, or more of its headers. Most are as they were before."""
    first, told = (b"", headers) if status is None else (STATUS_LINE[status], guarded(headers))
    return first + b"".join([b"%b: %b\r\n" % header for header in told])


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
