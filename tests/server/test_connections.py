"""One request at a time, peers that end early, and names in absolute URIs. On raw sockets."""

import asyncio
import contextlib
import logging
import re
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated

import pytest
from fastapi import APIRouter, Depends
from starlette.responses import StreamingResponse

from holdfast import Holdfast
from holdfast.server.auth import Access, require
from holdfast.server.protocol.body_framing import MOST_STEPS, ChunkedBody
from holdfast.server.protocol.connection import HttpConnection
from holdfast.server.protocol.request_head import Request
from tests.server.servers import Running, everything, hook, running, sign
from tests.waiting import eventually

pytestmark = pytest.mark.above_the_stores

HELD = b"GET /admin/held HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Gate:
    """Holds requests to /admin/held until a test opens it."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)
        self.open = threading.Event()
        self.answered = 0
        self.answered_before: int | None = None
        """How many had been answered when one was held."""
        self.on_answer: Callable[[], None] = lambda: None

    def routers(self) -> list[APIRouter]:
        router = APIRouter()

        @router.get("/health")
        async def health() -> dict[str, bool]:
            self.answered += 1
            self.on_answer()
            return {"ok": True}

        @router.get("/admin/held")
        async def held(access: Annotated[Access, Depends(require("read"))], size: int = 2) -> dict[str, str]:
            self.answered_before = self.answered
            self.begun.release()
            while not self.open.is_set():
                await asyncio.sleep(0.005)
            self.ended.release()
            return {"held": "x" * size}

        @router.get("/admin/stream")
        async def stream(access: Annotated[Access, Depends(require("read"))], kind: str) -> StreamingResponse:
            async def texts() -> AsyncIterator[bytes]:
                self.begun.release()
                try:
                    for _ in range(20_000):
                        yield b": alive\n\n"
                        await asyncio.sleep(0.005)
                        if self.open.is_set():
                            return
                finally:
                    self.ended.release()

            return StreamingResponse(texts(), media_type=kind)

        return [router]


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def server(hf: Holdfast, gate: Gate) -> Iterator[Running]:
    with running(hf, hook(accept_replays=True), routers=gate.routers()) as found:
        yield found
        gate.open.set()


def begun(gate: Gate) -> None:
    assert gate.begun.acquire(timeout=60)


def delivery(body: bytes, *more: bytes) -> bytes:
    lines = [
        b"POST /hook/orders HTTP/1.1",
        b"Host: localhost",
        b"Content-Type: application/json",
        b"X-Signature: " + sign(body).encode(),
        b"Content-Length: %d" % len(body),
        *more,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def statuses(answers: bytes) -> list[bytes]:
    return re.findall(rb"HTTP/1\.1 (...) ", answers)


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def send(connection: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(data)


# --- pipelining -------------------------------------------------------------------------------------------------------


def test_what_stands_behind_a_request_is_not_parsed_before_its_answer(
    server: Running, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[bytes] = []
    feed = Request.feed

    def count(self: Request, data: bytes, line: bytes) -> None:
        parsed.append(data)
        feed(self, data, line)

    monkeypatch.setattr(Request, "feed", count)
    with server.connect() as connection:
        connection.sendall(HELD + HEALTH * 5_000 + HEALTH.replace(b"Host", b"Connection: close\r\nHost"))
        begun(gate)
        [protocol] = server.server._http.state.connections
        assert isinstance(protocol, HttpConnection)
        eventually(lambda: protocol._wire.is_paused)
        assert parsed == [HELD]
        assert len(protocol._buffer) <= 300_000, "one read of the socket"
        assert server.http.get("/health").status_code == 200
        gate.open.set()
        answers = everything(connection)
    assert statuses(answers) == [b"200"] * 5_002
    assert b"connection: close" not in answers.partition(b'"held"')[0]


def test_no_more_is_read_while_there_are_requests_in_the_buffer(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These are 2.5 MB of small requests. If each answer let the server read on, it would soon hold all of them."""
    held: list[int] = []
    read_on = HttpConnection._read_on

    def note(self: HttpConnection) -> None:
        held.append(len(self._buffer))
        read_on(self)

    monkeypatch.setattr(HttpConnection, "_read_on", note)
    with server.connect() as connection:
        sender = threading.Thread(target=send, args=[connection, HEALTH * 50_000])
        sender.start()
        answers = 0
        while answers < 1_000:
            answers += connection.recv(65_536).count(b"HTTP/1.1 ")
        connection.shutdown(socket.SHUT_RDWR)  # Wakes the sender, if there is no room for what it sends.
        sender.join()
    assert max(held) < 600_000, "no more than one read and the rest of the one before"


def test_garbage_behind_a_request_is_found_after_its_answer(server: Running, gate: Gate) -> None:
    with server.connect() as connection:
        connection.sendall(HELD + b"\x00garbage\r\n\r\n")
        begun(gate)
        assert server.http.get("/health").status_code == 200
        gate.open.set()
        answers = everything(connection)
    assert statuses(answers) == [b"200", b"400"]
    assert b"connection: close" not in answers.partition(b"HTTP/1.1 400")[0]


def test_a_flood_of_tiny_requests_takes_turns_with_everybody_else(server: Running, gate: Gate) -> None:
    """Each of these connections has 1,000 requests in the server's buffers. While the tenth is answered, another
    connection asks for something."""
    state = server.server._http.state
    at_work: list[tuple[int, int]] = []

    def ask() -> None:
        at_work.append((len(state.tasks), len(state.connections)))
        if gate.answered == 10:
            late.sendall(HELD)

    gate.on_answer = ask
    gate.open.set()
    late, flood = server.connect(), [server.connect() for _ in range(10)]
    try:
        eventually(lambda: len(state.connections) == 11, "all connections are accepted")
        for connection in flood:
            connection.sendall(HEALTH * 1_000)
        assert statuses(late.recv(65_536)) == [b"200"]
        assert gate.answered_before is not None
        assert 10 <= gate.answered_before < 10_000, "it was answered in between"
        assert all(tasks <= 2 * count for tasks, count in list(at_work)), "one at work, and one that is about to end"
    finally:
        for connection in [late, *flood]:
            reset(connection)


def test_deliveries_and_other_requests_are_answered_in_their_order(server: Running) -> None:
    data = b"".join(delivery(b"%d" % n) + HEALTH for n in range(50))
    answers = server.raw(data + delivery(b"50", b"Connection: close") + HEALTH)
    assert statuses(answers) == [b"202", b"200"] * 50 + [b"202"], "nothing is read behind the last one"
    assert [claim.message.body["payload"] for claim in server.hf.claim("orders", n=99)] == list(range(51))


def test_empty_lines_between_requests_are_skipped(server: Running) -> None:
    answers = server.raw(b"\r\n" + HEALTH + b"\r\n\r\n" + HEALTH.replace(b"Host", b"Connection: close\r\nHost"))
    assert statuses(answers) == [b"200", b"200"]


def test_tiny_chunks_take_turns_with_everybody_else(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    head = delivery(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked").replace(b"orders", b"unknown")
    taken: list[int] = []
    take = ChunkedBody.take

    def note(self: ChunkedBody, data: bytes, at: int) -> tuple[bytes, int]:
        found = take(self, data, at)
        taken.append(found[1] - at)
        return found

    monkeypatch.setattr(ChunkedBody, "take", note)
    body = b"5\r\n12345\r\n" * 10_000
    answers = server.raw(head + body + b"0\r\n\r\n" + delivery(b"1", b"Connection: close"))
    assert statuses(answers) == [b"404", b"202"]
    assert sum(taken) == len(body) + 5
    assert max(taken) <= 10 * MOST_STEPS, "a turn of the loop has so much of it"


# --- half-closed ------------------------------------------------------------------------------------------------------


def test_who_sends_no_more_still_gets_all_answers(server: Running, gate: Gate) -> None:
    with server.connect() as connection:
        connection.sendall(HELD + delivery(b"1") + HEALTH)
        connection.shutdown(socket.SHUT_WR)
        begun(gate)
        assert server.http.get("/health").status_code == 200  # The end has been seen by now.
        gate.open.set()
        assert statuses(everything(connection)) == [b"200", b"202", b"200"]
    assert server.hf.stats("orders").pending == 1


@pytest.mark.parametrize("data", [HEALTH, delivery(b"1"), delivery(b"1") * 3 + HEALTH * 3])
def test_a_request_and_the_end_in_one_go_are_answered_and_closed(server: Running, data: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        assert len(statuses(everything(connection))) == data.count(b"HTTP/1.1")
    eventually(lambda: not server.server._http.state.connections)


@pytest.mark.parametrize(
    "data", [b"", HEALTH[:20], delivery(b"123")[:-1], delivery(b"123", b"Expect: 100-continue")[:-3]]
)
def test_half_a_request_and_the_end_are_closed(server: Running, data: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        assert b"HTTP/1.1 2" not in everything(connection)
    eventually(lambda: not server.server._http.state.connections)
    eventually(lambda: not server.server._http.state.tasks)
    assert server.hf.stats("orders").pending == 0 if "orders" in server.hf.queues.list() else True


def test_an_answer_in_parts_goes_on_for_who_sends_no_more(server: Running, gate: Gate) -> None:
    with server.connect() as connection:
        connection.sendall(b"GET /admin/stream?kind=text/plain HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        begun(gate)
        assert server.http.get("/health").status_code == 200
        gate.open.set()
        assert everything(connection).endswith(b"\r\n0\r\n\r\n")


def test_a_stream_of_events_ends_when_the_reader_does(server: Running, gate: Gate) -> None:
    with server.connect() as connection:
        connection.sendall(b"GET /admin/stream?kind=text/event-stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        begun(gate)
        connection.shutdown(socket.SHUT_WR)
        assert statuses(everything(connection)) == [b"200"]
    assert gate.ended.acquire(timeout=60)


@pytest.mark.parametrize("request_", [HEALTH, HEALTH.replace(b"/health", b"/nowhere"), delivery(b"1")])
def test_who_asks_for_the_end_gets_it_with_the_answer(server: Running, request_: bytes) -> None:
    asking = request_.replace(b"Host:", b"Connection: close\r\nHost:")
    answers = server.raw(asking + request_)
    assert len(statuses(answers)) == 1, "nothing is read behind it"
    assert b"\r\nconnection: close\r\n" in answers
    older = server.raw(request_.replace(b"HTTP/1.1", b"HTTP/1.0") + request_)
    assert len(statuses(older)) == 1
    assert b"\r\nconnection: close\r\n" in older


# --- closed -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [b"/admin/held?size=2000000", b"/admin/stream?kind=text/plain"])
@pytest.mark.parametrize("behind", [b"", HEALTH * 50])
def test_an_answer_to_someone_who_is_gone_is_dropped_without_a_word(
    server: Running, gate: Gate, caplog: pytest.LogCaptureFixture, path: bytes, behind: bytes
) -> None:
    with caplog.at_level(logging.INFO):
        for leave in (reset, socket.socket.close):
            connection = server.connect()
            connection.sendall(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path + behind)
            begun(gate)
            leave(connection)
        assert server.http.get("/health").status_code == 200
        gate.open.set()
        for _ in range(2):
            assert gate.ended.acquire(timeout=60)
        eventually(lambda: not server.server._http.state.tasks)
        eventually(lambda: not server.server._http.state.connections)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_who_is_refused_in_the_middle_of_a_body_and_gone_is_no_word_worth(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for _ in range(20):
            connection = server.connect()
            connection.sendall(delivery(b"{}", b"Transfer-Encoding: chunked") + HEALTH)
            reset(connection)
            connection = server.connect()
            head = delivery(b"{}").replace(b"Content-Length: 2", b"Transfer-Encoding: chunked").removesuffix(b"{}")
            connection.sendall(head + b"2\r\n{}\r\n")
            connection.sendall(b"xx\r\n")
            reset(connection)
        eventually(lambda: not server.server._http.state.connections)
        eventually(lambda: not server.server._http.state.tasks)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


# --- names ------------------------------------------------------------------------------------------------------------


def asked(server: Running, target: bytes, host: bytes = b"localhost") -> bytes:
    answers = server.raw(b"GET %b HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n" % (target, host))
    [found] = statuses(answers)
    return found


@pytest.mark.parametrize("name", [b"evil.com", b"localhost.evil.com", b"evil.com:80", b"LOCALHOST.evil"])
def test_the_host_of_an_absolute_uri_is_checked(server: Running, name: bytes) -> None:
    for scheme in (b"http", b"HTTP", b"https"):
        for path in (b"", b"/health", b"/admin/held", b"?x=y"):
            assert asked(server, scheme + b"://" + name + path) == b"421"
    posted = delivery(b"1", b"Connection: close").replace(b" /hook", b" http://" + name + b"/hook", 1)
    assert statuses(server.raw(posted)) == [b"421"]


def test_our_own_name_in_an_absolute_uri_is_answered(server: Running) -> None:
    for name in (b"localhost", b"LOCALHOST:8484", b"127.0.0.1", b"[::1]:80"):
        assert asked(server, b"http://" + name + b"/health") == b"200"
        assert asked(server, b"http://" + name + b"/health", b"evil.com") == b"421", "the header counts as well"
    assert asked(server, b"http://localhost") == b"404"
    posted = delivery(b"1", b"Connection: close").replace(b" /hook", b" http://localhost/hook", 1)
    assert statuses(server.raw(posted)) == [b"202"]


@pytest.mark.parametrize("target", [b"http://", b"http:///health", b"http://x@localhost/health", b"ftp://localhost/"])
def test_an_absolute_uri_that_names_no_host_is_400(server: Running, target: bytes) -> None:
    assert asked(server, target) == b"400"


def test_the_origin_of_a_page_is_compared_with_the_absolute_uri(server: Running) -> None:
    begin = b"POST http://localhost:1/hook/orders HTTP/1.1\r\nHost: localhost:2\r\nConnection: close\r\n"
    assert statuses(server.raw(begin + b"Origin: http://localhost:2\r\n\r\n")) == [b"403"]


# --- older peers ------------------------------------------------------------------------------------------------------


def test_http_1_0_gets_no_chunks_and_a_closed_connection(server: Running, gate: Gate) -> None:
    gate.open.set()
    answer = server.raw(b"GET /admin/stream?kind=text/plain HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"transfer-encoding" not in answer
    assert answer.endswith(b"\r\n\r\n: alive\n\n")


def test_a_head_has_no_body(server: Running) -> None:
    answers = server.raw(
        HEALTH.replace(b"GET", b"HEAD") + b"GET /openapi.json HTTP/1.1\r\nHost: evil\r\nConnection: close\r\n\r\n"
    )
    assert statuses(answers) == [b"405", b"421"]
