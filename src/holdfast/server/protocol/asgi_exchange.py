"""One request and its answer, as an ASGI application sees them."""

from __future__ import annotations

import asyncio
import http
import logging
import re
from collections.abc import Callable, Iterable, Sequence

import msgspec
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Scope

from holdfast.server.error_responses import CODES, RETRY_AFTER
from holdfast.server.guard import SECURITY_HEADERS
from holdfast.server.protocol.request_head import Request
from holdfast.server.protocol.transport import BODY, ConnectionTransport

log = logging.getLogger("holdfast.server")

HIGH_WATER = 65_536
"""Bytes of a body that may wait for the application; beyond that, nothing is read."""

_BAD_NAME = re.compile(rb"[^!#$%&'*+.^_`|~0-9A-Za-z-]")
_BAD_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")

MESSAGES = {
    400: "this is not a request that can be understood",
    408: "the request did not arrive in time",
    413: "the body is larger than allowed",
    431: "the headers are more, or longer, than allowed",
    500: "something went wrong here; the server's log says what",
    501: "no transfer coding but chunked is supported",
    503: "there are too many connections; try again later",
    505: "speak HTTP/1.1, or HTTP/1.0",
}

Headers = Iterable[tuple[bytes, bytes]]


def _phrase(status: int) -> bytes:
    try:
        return http.HTTPStatus(status).phrase.encode()
    except ValueError:
        return b""


STATUS_LINES = {status: b"HTTP/1.1 %d %b\r\n" % (status, _phrase(status)) for status in range(100, 600)}


def lines(headers: Headers) -> bytes:
    """Header fields as they are sent."""
    return b"".join([b"%b: %b\r\n" % header for header in headers])


def refusal(status: int) -> bytes:
    """An answer that needs no application, and is the last of its connection."""
    body = msgspec.json.encode({"error": {"code": CODES[status], "message": MESSAGES[status]}})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *SECURITY_HEADERS,
        *([(b"retry-after", str(RETRY_AFTER).encode())] if status == 503 else []),
    ]
    return b"".join([STATUS_LINES[status], lines(headers), b"\r\n", body])


class Exchange:
    """Runs an application for a request, gives it the body as it arrives, and writes its answer."""

    def __init__(
        self,
        wire: ConnectionTransport,
        request: Request,
        scope: Scope,
        always: Sequence[tuple[bytes, bytes]],
        on_answered: Callable[[], None],
    ) -> None:
        self.keep_alive = request.keep_alive
        self.is_started = False
        self.is_complete = False
        self.is_endless = False
        """Whether the answer is a stream of events, which ends when the peer says that it is through."""
        self.is_gone = False
        self._wire = wire
        self._scope = scope
        self._always = always
        self._on_answered = on_answered
        self._is_old = request.version == "1.0"
        self._expects = request.expects
        self._body = bytearray()
        self._has_more = True
        self._news = asyncio.Event()
        self._has_body = True
        self._is_chunked = False
        self._left: int | None = None  # Bytes to be sent, if their number was declared.

    def feed(self, body: bytes, is_end: bool) -> None:
        """Takes a part of the body. Nobody reads what arrives after the answer."""
        if self.is_complete or self.is_gone:
            return
        self._body += body
        self._has_more = not is_end
        if self._has_more and len(self._body) > HIGH_WATER:
            self._wire.pause_reading(BODY)
        self._news.set()

    def hang_up(self) -> None:
        """The peer is gone, or was refused: the application hears of it, and its answer is dropped."""
        self.is_gone = True
        self._news.set()

    async def run(self, app: ASGIApp) -> None:
        """Runs the application. If it fails, the answer is 500, or ends in the middle."""
        try:
            await app(self._scope, self._receive, self._send)
        except asyncio.CancelledError:
            self._wire.close()  # The server stops now.
            raise
        except Exception as problem:
            if not (self.is_gone and isinstance(problem, ClientDisconnect)):
                log.error("a request failed", exc_info=problem)
            self._fail()
        else:
            if not self.is_complete and not self.is_gone and not self._wire.is_closing:
                log.error("a request was not answered to the end: %s", self._scope["path"])
                self._fail()

    def _fail(self) -> None:
        if not self.is_started and not self.is_gone:
            self._wire.write(refusal(500))
        if not self.is_complete:
            self._wire.close()

    async def _receive(self) -> Message:
        if self._expects and not self.is_started:
            self._expects = False
            self._wire.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not self.is_gone and not self.is_complete:
            if self._has_more:
                self._wire.resume_reading(BODY)
            await self._news.wait()
            self._news.clear()
        if self.is_gone or self.is_complete:
            return {"type": "http.disconnect"}
        body, self._body = bytes(self._body), bytearray()
        return {"type": "http.request", "body": body, "more_body": self._has_more}

    async def _send(self, message: Message) -> None:
        if self._wire.is_full and not self.is_gone:
            await self._wire.drain()
        if self.is_gone or self._wire.is_closing:
            return
        expected = "http.response.body" if self.is_started else "http.response.start"
        if message["type"] != expected or self.is_complete:
            raise RuntimeError(f"an application sent {message['type']} instead of {expected}")
        if self.is_started:
            self._write(message.get("body", b""), not message.get("more_body", False))
        else:
            self._start(message["status"], list(message.get("headers", ())))

    def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        length = None
        for name, value in headers:
            if _BAD_NAME.search(name) or _BAD_VALUE.search(value):
                raise RuntimeError(f"an application sent a header that is none: {name!r}")
            lowered = name.lower()
            if lowered == b"content-length":
                length = int(value)
            elif lowered == b"connection" and b"close" in value.lower():
                self.keep_alive = False
            elif lowered == b"content-type":
                self.is_endless = value.startswith(b"text/event-stream")
        headers = [header for header in headers if header[0].lower() not in (b"connection", b"transfer-encoding")]
        self._has_body = self._scope["method"] != "HEAD" and status not in (204, 304)
        if self._has_body and length is not None:
            self._left = length
        elif self._has_body and not self._is_old:
            self._is_chunked = True
            headers.append((b"transfer-encoding", b"chunked"))
        elif self._has_body:
            self.keep_alive = False  # HTTP/1.0 has no chunks: the body ends when the connection does.
        if not self.keep_alive:
            headers.append((b"connection", b"close"))
        self.is_started = True
        self._wire.write(b"".join([STATUS_LINES[status], lines(self._always), lines(headers), b"\r\n"]))
        if self.is_endless and self._wire.has_ended:
            self.hang_up()
            self._wire.close()

    def _write(self, body: bytes, is_end: bool) -> None:
        if self._is_chunked:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            self._wire.write(chunk + b"0\r\n\r\n" if is_end else chunk)
        elif self._has_body:
            if self._left is not None:
                self._left -= len(body)
                if self._left < 0 or (is_end and self._left):
                    raise RuntimeError("an application sent more or less than its Content-Length")
            self._wire.write(body)
        if is_end:
            self.is_complete = True
            self._news.set()
            self._on_answered()
