"""Deliveries that come in one piece take a shorter way. Nobody can tell, but by the time that it takes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from starlette.responses import Response

from holdfast import Holdfast
from holdfast.http.hooks import Hook
from holdfast.spec.running import function_of
from tests.http.servers import Running, everything, hook, running, sign


@pytest.fixture
def server(hf: Holdfast) -> Iterator[Running]:
    with running(hf, hook(key=function_of("payload.id"))) as found:
        assert found.post("orders").status_code == 202  # The queue is known from here on, for a second.
        hf.purge("orders")
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


def forbid_the_long_way(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    async def receive(request: object) -> Response:
        return Response(status_code=418)

    monkeypatch.setattr(server.ingress, "receive", receive)


def test_the_short_way_is_taken(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_the_long_way(server, monkeypatch)
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
    status, _, content = deliver(server, b'{"id": "k", "again": true}', wait=wait)
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
        assert deliver(server, b"1")[0] == 202
        rival = apsw.Connection(str(sqlite_path))
        rival.execute("BEGIN IMMEDIATE")
        status, _, content = deliver(server, b"2")
        rival.execute("ROLLBACK")
        rival.close()
        assert (status, content["error"]["code"]) == (503, "store_unavailable")
        assert deliver(server, b"3")[0] == 202
        assert not server.ingress._waiting


def test_several_in_one_piece_are_answered_in_their_order(server: Running) -> None:
    bodies = [b'{"id": %d}' % number for number in range(5)]
    data = b"".join(map(request, bodies[:-1])) + request(bodies[-1], b"Connection: close")
    answer = server.raw(data)
    assert [part.split(b'"')[0] for part in answer.split(b'"idempotency_key":"')[1:]] == [b"0", b"1", b"2", b"3", b"4"]
    assert [claim.message.body["payload"]["id"] for claim in server.hf.claim("orders", n=9)] == list(range(5))


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
