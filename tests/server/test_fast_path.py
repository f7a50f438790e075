"""Deliveries that arrive in one piece take the fast path. Only the time that it takes tells the two ways apart."""

import json
import re
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from starlette.responses import Response

from holdfast import Holdfast
from holdfast.server.app import ROUTERS
from holdfast.server.limits import ServerLimits
from holdfast.server.protocol.connection import HttpConnection
from holdfast.server.webhooks.hook import Hook, TypeFault, networks
from holdfast.spec.running import function_of
from tests.server.servers import Running, everything, hook, running, sign
from tests.waiting import eventually, spend

pytestmark = pytest.mark.above_the_stores

IDLE = 3.0
"""Seconds that a connection of `file_server` may rest."""


@pytest.fixture(autouse=True)
def queues_stay_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that was not looked at for a while is looked up, which is the longer way."""
    monkeypatch.setattr("holdfast.client.catalog.FRESH", 3600.0)


@pytest.fixture
def server(hf: Holdfast) -> Iterator[Running]:
    with running(hf, hook(key=function_of("payload.id"), key_is_signed=True)) as found:
        assert found.post("orders", '{"id": "first"}').status_code == 202  # The queue is known from here on.
        hf.queues.purge("orders")
        yield found


def request(body: bytes, *more: bytes) -> bytes:
    lines = [
        b"POST /hook/orders HTTP/1.1",
        b"Host: localhost",
        b"Content-Type: application/json",
        b"X-Signature: " + sign(body).encode(),
        b"Content-Length: %d" % len(body),
        *more,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def deliver(server: Running, body: bytes, *more: bytes, wait: bool = False) -> tuple[int, dict[str, str], Any]:
    """Status, headers and content of the answer to a delivery: in one piece, or with a body that waits to be called."""
    data = request(body, *more, *([b"Expect: 100-continue"] if wait else []), b"Connection: close")
    with server.connect() as connection:
        head = data.removesuffix(body)
        connection.sendall(head if wait else data)
        if wait and (early := connection.recv(65_536)) == b"HTTP/1.1 100 Continue\r\n\r\n":
            connection.sendall(body)
            early = b""
        answer = (early if wait else b"") + everything(connection)
    head, _, content = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), json.loads(content or b"null")


def forbid_the_usual_way(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    async def receive(request: object) -> Response:
        return Response(status_code=418)

    monkeypatch.setattr(server.ingress, "receive", receive)


def test_the_fast_path_is_taken(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_the_usual_way(server, monkeypatch)
    assert deliver(server, b'{"id": 1}')[0] == 202
    assert deliver(server, b'{"id": 2}', wait=True)[0] == 418
    assert server.hf.stats("orders").pending == 1


def test_both_ways_give_the_same_answer_and_the_same_message(server: Running) -> None:
    status, headers, content = deliver(server, b'{"id": "a"}')
    assert (status, content) == (202, {"queued": True, "id": content["id"], "idempotency_key": "a"})
    again, others, _ = deliver(server, b'{"id": "b"}', wait=True)
    assert (again, {**others, "date": ""}) == (status, {**headers, "date": ""})
    one, two = (claim.message.body for claim in server.hf.claim("orders", n=5))
    assert two["headers"].pop("expect") == "100-continue"
    assert {**one, "payload": {"id": "b"}} == two


@pytest.mark.parametrize("wait", [False, True])
def test_a_second_delivery_under_a_key_is_no_second_message(server: Running, wait: bool) -> None:
    _, _, first = deliver(server, b'{"id": "k"}')
    status, _, content = deliver(server, b'{"id": "k"}', wait=wait)
    assert (status, content["id"], content["duplicate"], content["queued"]) == (202, first["id"], True, True)
    assert server.hf.stats("orders").pending == 1


REFUSED = {
    "unsigned": (b"{}", b"X-Signature: x", 401),
    "not JSON": (b"{", b"X: y", 400),
    "compressed": (b"{}", b"Content-Encoding: gzip", 415),
    "from another page": (b"{}", b"Origin: http://evil.example", 403),
    "with two hosts": (b"{}", b"Host: localhost", 400),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_refused_either_way(server: Running, name: str) -> None:
    body, header, expected = REFUSED[name]
    answers = [deliver(server, body, header, wait=wait) for wait in (False, True)]
    assert [(status, content) for status, _, content in answers] == [(expected, answers[0][2])] * 2
    assert server.hf.stats("orders").pending == 0


def fail(envelope: dict[str, Any]) -> Any:
    raise RuntimeError("a bug in a function of the webhook")


RULES: dict[str, tuple[dict[str, Any], bytes, int, str | None]] = {
    "the sender": ({"networks": networks(["203.0.113.0/24"])}, b"{}", 403, "forbidden"),
    "the size": ({"max_size": 3}, b'"xx"', 413, "too_large"),
    "the filter": ({"wanted": lambda envelope: False}, b"{}", 200, None),
    "the key": ({"key": lambda envelope: None}, b"{}", 400, "invalid"),
    "an empty key": ({"key": lambda envelope: ""}, b"{}", 400, "invalid"),
    "the route": ({"queue": None, "queues": frozenset({"q"}), "routing": lambda envelope: "z"}, b"{}", 400, "no_route"),
    "the message type": ({"check": lambda envelope: TypeFault("$.payload", "no")}, b"{}", 400, "schema"),
    "the priority": ({"priority": lambda envelope: "wrong"}, b"{}", 400, "schema"),
    "a bug": ({"wanted": fail}, b"{}", 500, "internal"),
}


@pytest.mark.parametrize("name", RULES)
def test_every_rule_gives_the_same_answer_either_way(hf: Holdfast, name: str) -> None:
    settings, body, expected, code = RULES[name]
    hf.queue("orders")
    with running(hf, hook(**settings)) as server:
        answers = [deliver(server, body, wait=wait) for wait in (False, True)]
        assert [status for status, _, _ in answers] == [expected] * 2
        assert answers[0][2] == answers[1][2]
        assert answers[0][2].get("error", {}).get("code") == code
    assert hf.stats("orders").pending == 0


def test_a_full_queue_is_503(hf: Holdfast) -> None:
    hf.queue("orders", max_depth=1)
    hf.enqueue("orders", 1)
    with running(hf, hook()) as server:
        answers = [deliver(server, b"{}", wait=wait) for wait in (True, False)]
        assert [(status, content["error"]["code"]) for status, _, content in answers] == [(503, "queue_full")] * 2
        assert all(int(headers["retry-after"]) > 0 for _, headers, _ in answers)


def test_patience_ends(sqlite_path: Path) -> None:
    with (
        Holdfast(f"sqlite:///{sqlite_path}", patience=30) as hf,
        running(hf, hook(), patience=0.3) as server,
    ):
        eventually(lambda: deliver(server, b"1")[0] == 202, "a delivery is in time")
        with locked(sqlite_path):
            status, _, content = deliver(server, b"2")
        assert (status, content["error"]["code"]) == (503, "store_unavailable")
        eventually(lambda: deliver(server, b"3")[0] == 202, "a delivery is in time again")
        assert server.ingress.fast_path.under_way == 0


def test_several_in_one_piece_are_answered_in_their_order(server: Running) -> None:
    bodies = [b'{"id": %d}' % number for number in range(5)]
    data = b"".join(map(request, bodies[:-1])) + request(bodies[-1], b"Connection: close")
    answer = server.raw(data)
    assert [part.split(b'"')[0] for part in answer.split(b'"idempotency_key":"')[1:]] == [b"0", b"1", b"2", b"3", b"4"]
    assert [claim.message.body["payload"]["id"] for claim in server.hf.claim("orders", n=9)] == list(range(5))


@pytest.fixture
def file_server(sqlite_path: Path) -> Iterator[Running]:
    with (
        Holdfast(f"sqlite:///{sqlite_path}", patience=30) as hf,
        running(
            hf, hook(key=function_of("payload.id"), key_is_signed=True), limits=ServerLimits(idle_seconds=IDLE)
        ) as found,
    ):
        assert deliver(found, b'{"id": 1}')[0] == 202
        hf.queues.purge("orders")
        yield found


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Whatever is delivered meanwhile stays under way."""
    rival = apsw.Connection(str(path))
    rival.set_busy_timeout(60_000)  # Maintenance writes now and then.
    rival.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        rival.execute("ROLLBACK")
        rival.close()


def is_the_last(connection: HttpConnection) -> bool:
    """Whether the delivery under way is the connection's last one, with another behind it."""
    return bool(connection._under_way and not connection._under_way.keep_alive and connection._buffer)


def wait_for_one_under_way(server: Running, count: int = 1) -> None:
    eventually(lambda: server.ingress.fast_path.under_way == count, f"{count} deliveries are under way")


def keys_of(answers: bytes) -> list[bytes]:
    return re.findall(rb'"idempotency_key":"(.*?)"', answers)


def test_what_comes_while_a_delivery_is_under_way_has_its_turn_after_it(
    file_server: Running, sqlite_path: Path
) -> None:
    with file_server.connect() as connection:
        with locked(sqlite_path):
            connection.sendall(request(b'{"id": "a"}'))
            wait_for_one_under_way(file_server)
            later = request(b'{"id": "b"}') + b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n"
            connection.sendall(later + request(b'{"id": "c"}', b"Connection: close")[:50])
            connection.settimeout(0.2)
            with pytest.raises(TimeoutError):
                connection.recv(1)
            connection.settimeout(60)
        connection.sendall(request(b'{"id": "c"}', b"Connection: close")[50:])
        answers = everything(connection)
    assert keys_of(answers) == [b"a", b"b", b"c"]
    assert re.findall(rb"HTTP/1.1 (...) ", answers) == [b"202", b"202", b"404", b"202"]
    assert file_server.hf.stats("orders").pending == 3


def test_what_follows_a_duplicate_has_its_turn_too(file_server: Running, sqlite_path: Path) -> None:
    deliver(file_server, b'{"id": "a"}')
    with file_server.connect() as connection:
        with locked(sqlite_path):
            connection.sendall(request(b'{"id": "a"}'))
            wait_for_one_under_way(file_server)
            connection.sendall(request(b'{"id": "b"}', b"Connection: close"))
        answers = everything(connection)
    assert keys_of(answers) == [b"a", b"b"]
    assert answers.count(b'"duplicate":true') == 1


def test_who_hangs_up_meanwhile_has_delivered_all_the_same(file_server: Running, sqlite_path: Path) -> None:
    with locked(sqlite_path):
        with file_server.connect() as connection:
            connection.sendall(request(b'{"id": "a"}'))
            wait_for_one_under_way(file_server)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connections = file_server.server._http.state.connections
        eventually(lambda: not connections, "the connection is closed")
    wait_for_one_under_way(file_server, 0)
    assert deliver(file_server, b'{"id": "b"}')[0] == 202
    assert file_server.hf.stats("orders").pending == 2


def test_a_server_that_stops_answers_what_is_under_way(file_server: Running, sqlite_path: Path) -> None:
    with file_server.connect() as connection:
        with locked(sqlite_path):
            connection.sendall(request(b'{"id": "a"}'))
            wait_for_one_under_way(file_server)
            [protocol] = file_server.server._http.state.connections
            connection.sendall(request(b'{"id": "b"}'))
            file_server.server.stop()
            assert isinstance(protocol, HttpConnection)
            eventually(lambda: is_the_last(protocol), "the stop has reached the connection")
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 202 ")
    assert b"connection: close\r\n" in answer
    wait_for_one_under_way(file_server, 0)
    assert file_server.hf.stats("orders").pending == 1, "what came behind it was not read"


@pytest.mark.parametrize(
    "behind", [b"\x00garbage\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"]
)
def test_a_delivery_counts_whatever_stands_behind_it(server: Running, behind: bytes) -> None:
    answer = server.raw(request(b'{"id": "a"}') + behind)
    assert answer.startswith(b"HTTP/1.1 202 ")
    assert keys_of(answer) == [b"a"]
    assert server.hf.stats("orders").pending == 1


def test_what_is_wrong_with_a_delivery_is_said_behind_another_request(server: Running) -> None:
    with server.connect() as connection:
        connection.sendall(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 404 ")
        whole = request(b"", b"Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"")
        connection.sendall(whole + b"2\r\n{}xx0\r\n\r\n")
        assert everything(connection).startswith(b"HTTP/1.1 400 ")


def test_a_connection_that_rests_after_a_delivery_is_closed(file_server: Running) -> None:
    """Its time begins anew with each delivery."""
    with file_server.connect() as connection:
        for name in (b"a", b"b"):
            spend(0.5)  # Much less than a connection may rest.
            sent = time.monotonic()
            connection.sendall(request(b'{"id": "%b"}' % name))
            assert connection.recv(65_536).startswith(b"HTTP/1.1 202 ")
        assert connection.recv(1) == b""
    assert time.monotonic() - sent > 0.9 * IDLE


def test_every_delivery_is_counted(hf: Holdfast) -> None:
    with (
        running(hf, hook(key=function_of("payload.id"), key_is_signed=True), routers=ROUTERS) as server,
        server.connect() as connection,
    ):
        for number in range(230):
            connection.sendall(request(b'{"id": %d}' % number))
            connection.recv(65_536)
        page = server.http.get("/metrics").text
    assert 'holdfast_ingress_seconds_count{hook="orders",status="202"} 230.0' in page
    assert 'holdfast_http_request_seconds_count{method="POST",route="/hook/{name}",status="202"} 230.0' in page


def test_routes_filters_and_shapes_count(hf: Holdfast) -> None:
    choosing = Hook(
        name="orders",
        verifier=hook().verifier,
        queue="orders",
        queues=frozenset({"big"}),
        routing=function_of("payload.to"),
        wanted=function_of("!has(payload.skip)"),
        order_key=function_of("payload.key"),
        shapes={"big": lambda envelope: {"only": envelope["payload"]}},
    )
    hf.queue("big")
    hf.queue("orders")
    with running(hf, choosing) as server:
        assert deliver(server, b'{"to": "big", "key": "k"}')[0] == 202
        assert deliver(server, b'{"to": "elsewhere"}')[0] == 202
        assert deliver(server, b'{"skip": 1}')[2] == {"queued": False, "filtered": True}
        [big], [other] = hf.claim("big", n=5), hf.claim("orders", n=5)
        assert (big.message.body, big.message.key) == ({"only": {"to": "big", "key": "k"}}, "k")
        assert other.message.body["payload"] == {"to": "elsewhere"}
