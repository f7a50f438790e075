"""HTTP/1.1 on one connection: within limits from the first byte on, and one request at a time.

`listening.Listener` makes a `HttpConnection` of each that it accepts, and calls its `shutdown` when the server stops.

Bytes go into a buffer. From there one request is read: its head by `heads.Request`, its body by what `framing` says.
Until it is answered the next one is not parsed, and no more than one read of the socket is kept of what follows it. So
pipelining does not fill the memory. What is left in the buffers of all connections (pipelined requests, thousands of
tiny chunks) is worked off piece by piece, one in each turn of the loop, so other connections are served in between.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import lru_cache, partial

from starlette.responses import Response
from starlette.types import Scope

from holdfast.server.app import App
from holdfast.server.guard import AUTHORITY, guarded
from holdfast.server.limits import ServerLimits
from holdfast.server.protocol import transport as transports
from holdfast.server.protocol.asgi_exchange import STATUS_LINES, Exchange, lines, refusal
from holdfast.server.protocol.body_framing import ChunkedBody, FixedLengthBody, framing_of
from holdfast.server.protocol.listener import ServerState
from holdfast.server.protocol.request_head import END, Request, RequestRefused, Target
from holdfast.server.protocol.transport import ConnectionTransport
from holdfast.server.proxies import Proxies
from holdfast.server.webhooks.hook import Hook

LINGER = 1.0
"""Seconds to listen to a sender that was answered before it was through: closing at once could lose the answer."""

LINGER_BYTES = 1_048_576
"""Bytes that are read and dropped meanwhile, at most."""

IDLE, HEAD, BODY = "idle", "head", "body"
"""What is being read. The connection is idle between two requests, also while one is being answered."""


class ReadTurns:
    """Connections with work left over: one of them goes on in each turn of the loop, however many there are."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, go_on: Callable[[], None]) -> None:
        """Calls this when its turn has come, never at once."""
        self._waiting.append(go_on)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        try:
            self._waiting[0]()
        finally:
            self._waiting.popleft()
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._next)


class HttpConnection(asyncio.Protocol):
    """A connection within `limits`.

    A delivery of a webhook that arrives in one piece, as most do, is given to the application at once (`App.take`),
    without a task. Every other request is an `Exchange`.
    """

    app: App
    limits = ServerLimits()
    proxies = Proxies()
    turns = ReadTurns()

    def __init__(self, state: ServerState) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = state
        self._wire: ConnectionTransport
        self._local: tuple[str, int] | None = None
        self._peer: tuple[str, int] | None = None
        self._buffer = b""
        self._at = 0
        self._phase = IDLE
        self._request = Request()
        self._fed = 0
        self._framing: FixedLengthBody | ChunkedBody = FixedLengthBody(0)
        self._under_way: Request | None = None
        self._exchange: Exchange | None = None
        self._is_deaf = False
        self._is_behind = False
        """Whether the rest of the buffer is read in a later turn of the loop."""
        self._skipped = 0
        self._dropped = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._timed = ""
        self._resting_since: float | None = None
        self._rest: asyncio.TimerHandle | None = None

    # --- the connection -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins; the first request has to arrive in time."""
        self._server.connections.add(self)
        self._wire = ConnectionTransport(transport)
        self._local, self._peer = _name(transport, "sockname"), _name(transport, "peername")
        if len(self._server.connections) > self.limits.connections:
            self._refuse(503)
        else:
            self._set_deadline(IDLE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends. What was delivered stays delivered."""
        self._server.leave(self)
        self._clear_deadline()
        if self._rest is not None:
            self._rest.cancel()
        if self._exchange is not None:
            self._exchange.hang_up()
        self._under_way = self._exchange = None
        self._buffer, self._at = b"", 0
        self._wire.resume_writing()

    def shutdown(self) -> None:
        """Closes the connection after the answer that is under way."""
        if self._under_way is not None:
            self._under_way.keep_alive = False
        elif self._exchange is not None and not self._exchange.is_complete:
            self._exchange.keep_alive = False
        else:
            self._wire.close()

    def pause_writing(self) -> None:
        """The peer reads too slowly."""
        self._wire.pause_writing()

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self._wire.resume_writing()

    def data_received(self, data: bytes) -> None:
        """Reads what has arrived, or keeps it for later and reads no more."""
        if self._is_deaf:
            self._drop(data)
            return
        self._buffer = self._buffer[self._at :] + data if self._at < len(self._buffer) else data
        self._fed, self._at = max(0, self._fed - self._at), 0
        if self._is_reading():
            self._read()
        else:
            self._wire.pause_reading(transports.BUFFER)

    def eof_received(self) -> bool:
        """The peer sends no more, but may still read: what it has sent as a whole is answered, then we hang up."""
        is_waiting = not self._is_deaf and not self._is_reading()
        if not is_waiting or (self._exchange is not None and self._exchange.is_endless):
            return False
        self._wire.has_ended = True
        return True

    # --- requests -----------------------------------------------------------------------------------------------------

    def _is_reading(self) -> bool:
        """Whether the next bytes have their turn; not while a request that has arrived is being answered."""
        return not self._is_behind and (self._phase == BODY or (self._under_way is None and self._exchange is None))

    def _read(self) -> None:
        try:
            while self._at < len(self._buffer) and self._is_reading() and not self._wire.is_closing:
                if not (self._read_body() if self._phase == BODY else self._read_head()):
                    break
                if self._phase == BODY and self._framing.is_tired:
                    self._take_turns()
        except RequestRefused as problem:
            self._refuse(problem.status)
        if self._phase != IDLE and self._timed != self._phase and not self._is_deaf:
            self._set_deadline(self._phase)

    def _take_turns(self) -> None:
        """Goes on after other connections, and reads no more until then."""
        self._is_behind = True
        self._wire.pause_reading(transports.BUFFER)
        self.turns.add(self._go_on)

    def _go_on(self) -> None:
        self._is_behind = False
        if not self._is_deaf and not self._wire.is_closing:
            self._read_on()

    def _read_on(self) -> None:
        """Reads what is in the buffer, and then what the peer sends."""
        if self._at < len(self._buffer):
            self._read()
        if not self._is_reading():
            return
        if self._wire.has_ended:
            self._wire.close()
        else:
            self._wire.resume_reading(transports.BUFFER)  # Not before, or each small request would add to the buffer.

    def _read_head(self) -> bool:
        """Reads what there is of a head; whether that is all of it."""
        if self._phase == IDLE and not self._begin_head():
            return False
        data, at, most = self._buffer, self._at, self.limits.header_bytes
        end = data.find(END, max(at, self._fed - 3), at + most)
        if end < 0 and len(data) - at > most:
            raise RequestRefused(431)
        stop = len(data) if end < 0 else end + len(END)
        line = data[at:stop].partition(b"\r\n")[0]
        self._request.feed(data[self._fed : stop], line)
        self._fed = stop
        if end < 0:
            if self._request.is_complete:
                raise RequestRefused(400)
            return False
        self._request.finish(line, self.limits)
        self._at = stop
        self._begin_body(self._request)
        return True

    def _begin_head(self) -> bool:
        """Skips empty lines, which some send behind a body, and which do not count as a request."""
        if self._buffer[self._at] in b"\r\n":
            rest = self._buffer[self._at :].lstrip(b"\r\n")
            self._skipped += len(self._buffer) - self._at - len(rest)
            self._buffer, self._at = rest, 0
        self._fed = self._at
        if self._skipped > self.limits.header_bytes:
            raise RequestRefused(400)
        if self._at == len(self._buffer):
            return False
        self._skipped = 0
        self._phase, self._request, self._resting_since = HEAD, Request(), None
        return True

    def _begin_body(self, request: Request) -> None:
        """The head is there. A delivery that is there as a whole may be taken at once."""
        path = request.url if request.url.startswith(b"/") else Target(request.url).path
        most = max(self.limits.body_bytes, self.app.body_bytes(path))
        self._framing = framing_of(request, most, self.limits)
        self._phase = BODY
        hook = self.app.hook_at(request.url) if request.method == b"POST" and request.version == "1.1" else None
        body = b""
        if hook is not None:
            body, self._at = self._framing.take(self._buffer, self._at)
        if not self._framing.is_done:
            self._start(request, body, is_whole=False)
            return
        self._end_request()
        if hook is None or self._wire.is_full or not self._hand_over(hook, request, body):
            self._start(request, body, is_whole=True)

    def _read_body(self) -> bool:
        """Reads what there is of a body; whether that was anything."""
        body, at = self._framing.take(self._buffer, self._at)
        is_more, self._at = at > self._at, at
        if self._exchange is not None and (body or self._framing.is_done):
            self._exchange.feed(body, self._framing.is_done)
        if self._framing.is_done:
            self._end_request()
            if self._exchange is not None and self._exchange.is_complete:
                self._exchange = None
                self._rest_from_now()
        return is_more

    def _end_request(self) -> None:
        """All of the request is there."""
        self._phase = IDLE
        self._wire.resume_reading(transports.BODY)
        self._clear_deadline()

    # --- answers ------------------------------------------------------------------------------------------------------

    def _hand_over(self, hook: Hook, request: Request, body: bytes) -> bool:
        """Gives the application a delivery; whether it takes it without questions."""
        client = self.proxies.client(self._peer, request.fields)
        answer = partial(self._answer, request, body)
        if self.app.take(hook, client[0] if client else "", request.fields, body, answer):
            self._under_way = request
            return True
        return False

    def _answer(self, request: Request, body: bytes, response: Response | None) -> None:
        """Writes the answer to a delivery; without one, the application is asked as for any request."""
        if self._under_way is not request:
            return  # The connection was lost meanwhile.
        self._under_way = None
        if response is None:
            self._start(request, body, is_whole=True)
            return
        head = _head(response.status_code, tuple(response.raw_headers))
        end = b"\r\n" if request.keep_alive else b"connection: close\r\n\r\n"
        self._wire.write(b"".join((head, _always(self._server.headers()), end, response.body)))
        self._next(request.keep_alive)

    def _start(self, request: Request, body: bytes, *, is_whole: bool) -> None:
        """Runs the application in a task."""
        scope = self._scope(request)
        exchange = Exchange(self._wire, request, scope, self._server.headers(), self._answered)
        if body or is_whole:
            exchange.feed(body, is_whole)
        self._exchange = exchange
        self._server.run(exchange.run(self.app))

    def _scope(self, request: Request) -> Scope:
        target = Target(request.url)
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": request.version,
            "server": self._local,
            "client": self.proxies.client(self._peer, request.fields),
            "scheme": self.proxies.scheme(self._peer, request.fields),
            "method": request.method.decode("ascii"),
            "root_path": "",
            "path": target.text,
            "raw_path": target.path,
            "query_string": target.query,
            "headers": request.headers,
            "state": {},
        }
        if target.authority is not None:
            scope[AUTHORITY] = target.authority
        return scope

    def _answered(self) -> None:
        """An exchange has written the last byte of its answer, perhaps before the request was through."""
        exchange = self._exchange
        if exchange is None:
            return
        if self._phase != BODY:
            self._exchange = None
            self._next(exchange.keep_alive)
        elif exchange.keep_alive:
            self._wire.resume_reading(transports.BODY)  # Nobody asks for the rest of the body any more.
        else:
            self._linger()

    def _next(self, keep_alive: bool) -> None:
        """Goes on with what has arrived behind the request that was answered."""
        if not keep_alive:
            self._wire.close()
        if self._wire.is_closing:
            return
        self._rest_from_now()
        if self._at < len(self._buffer):
            self._take_turns()
        else:
            self._read_on()

    # --- the end ------------------------------------------------------------------------------------------------------

    def _refuse(self, status: int) -> None:
        """Answers, unless an answer has begun, listens a little longer, and hangs up."""
        exchange = self._exchange
        self._is_deaf = True
        self._clear_deadline()
        if exchange is not None and exchange.is_started and not exchange.is_complete:
            exchange.hang_up()
            self._wire.close()
            return
        if exchange is None or not exchange.is_complete:
            self._wire.write(refusal(status))
        if exchange is not None:
            exchange.hang_up()
        self._linger()

    def _linger(self) -> None:
        self._is_deaf, self._buffer, self._at = True, b"", 0
        self._clear_deadline()
        self._wire.end()
        self._wire.resume_reading(transports.BUFFER, transports.BODY)
        self._loop.call_later(LINGER, self._wire.close)

    def _drop(self, data: bytes) -> None:
        self._dropped += len(data)
        if self._dropped > LINGER_BYTES:
            self._wire.abort()

    def _set_deadline(self, phase: str) -> None:
        self._clear_deadline()
        seconds = self.limits.body_seconds if phase == BODY else self.limits.header_seconds
        self._deadline, self._timed = self._loop.call_later(seconds, self._too_slow), phase

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline, self._timed = None, ""

    def _too_slow(self) -> None:
        self._deadline = None
        if self._phase == IDLE:
            self._wire.close()
        else:
            self._refuse(408)

    def _rest_from_now(self) -> None:
        self._resting_since = self._loop.time()
        if self._rest is None:
            self._rest = self._loop.call_later(self.limits.idle_seconds, self._rested)

    def _rested(self) -> None:
        """Hangs up if nothing has come since the last answer for as long as a connection may be idle.

        One look now and then is less work than a clock that every request sets and stops.
        """
        self._rest = None
        if self._resting_since is None or self._wire.is_closing:
            return
        since = self._loop.time() if self._is_behind else self._resting_since
        left = since + self.limits.idle_seconds - self._loop.time()
        if left > 0:
            self._rest = self._loop.call_later(left, self._rested)
        else:
            self._wire.close()


def connections(app: App, limits: ServerLimits, proxies: Proxies) -> type[HttpConnection]:
    """Returns the class of the connections of a server."""
    return type(
        "Connection", (HttpConnection,), {"app": app, "limits": limits, "proxies": proxies, "turns": ReadTurns()}
    )


def _name(transport: asyncio.Transport, which: str) -> tuple[str, int] | None:
    found = transport.get_extra_info(which)
    return (str(found[0]), int(found[1])) if isinstance(found, tuple | list) and len(found) >= 2 else None


@lru_cache(maxsize=1_000)
def _head(status: int, headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """The beginning of an answer. Most are as they were before."""
    return STATUS_LINES[status] + lines(guarded(headers))


@lru_cache(maxsize=8)
def _always(headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """What every answer says, such as the date."""
    return lines(headers)
