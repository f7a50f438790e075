"""Behind a trusted proxy: whose address counts, and that nothing else is different."""

from collections.abc import Iterator

import pytest
from starlette.responses import Response

from holdfast import Holdfast
from holdfast.errors import InvalidInput
from holdfast.server.proxies import Proxies
from holdfast.server.webhooks.headers import Fields
from holdfast.server.webhooks.hook import networks
from tests.server.servers import Running, hook, running, sign

pytestmark = pytest.mark.above_the_stores

LARGE = 3_000_000


@pytest.fixture
def server(hf: Holdfast) -> Iterator[Running]:
    hooks = [
        hook(accept_replays=True),
        hook("large", max_size=LARGE),
        hook("picky", networks=networks(["203.0.113.0/24"])),
    ]
    hf.queue("large", max_size=LARGE + 10_000)
    with running(hf, *hooks, proxies=["127.0.0.1", "10.0.0.0/8"]) as found:
        yield found


def test_a_hook_may_allow_more_than_the_server(server: Running) -> None:
    body = b'"%b"' % (b"x" * (LARGE - 2))
    assert server.post("large", body, x_forwarded_for="203.0.113.7").status_code == 202
    assert server.post("large", body + b" ", x_forwarded_for="203.0.113.7").status_code == 413
    assert server.post("orders", body, x_forwarded_for="203.0.113.7").status_code == 413


@pytest.mark.parametrize("forwarded", ["203.0.113.7", "-"])
def test_a_delivery_in_one_piece_takes_the_fast_path(
    server: Running, monkeypatch: pytest.MonkeyPatch, forwarded: str
) -> None:
    async def receive(request: object) -> Response:
        return Response(status_code=418)

    assert server.post("orders", x_forwarded_for=forwarded).status_code == 202  # The queue is known from here on.
    monkeypatch.setattr(server.ingress, "receive", receive)
    with server.connect() as connection:
        more = b"" if forwarded == "-" else b"X-Forwarded-For: %b\r\n" % forwarded.encode()
        connection.sendall(
            b"POST /hook/orders HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"X-Signature: " + sign(b"{}").encode() + b"\r\nContent-Length: 2\r\n" + more + b"\r\n{}"
        )
        assert connection.recv(65_536).startswith(b"HTTP/1.1 202 ")
    sources = [claim.message.body["source_ip"] for claim in server.hf.claim("orders", n=9)]
    assert sources == [forwarded if forwarded != "-" else "127.0.0.1"] * 2


def test_the_address_that_the_proxy_saw_is_the_senders(server: Running) -> None:
    for good in (
        "203.0.113.7",
        "1.2.3.4, 203.0.113.7",
        "203.0.113.7, 10.1.2.3",
        "203.0.113.7:4711",
        "::ffff:203.0.113.7",
    ):
        assert server.post("picky", x_forwarded_for=good).status_code == 202
    for bad in ("203.0.113.7, 1.2.3.4", "1.2.3.4", "unknown", "203.0.113.7, unknown", "203.0.113.7,", "", "10.9.9.9"):
        assert server.post("picky", x_forwarded_for=bad).status_code == 403
    assert server.post("picky").status_code == 403, "the proxy itself"


def test_an_address_in_a_trailer_does_not_count(server: Running) -> None:
    head = (
        b"POST /hook/picky HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
        b"X-Signature: " + sign(b"{}").encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    answer = server.raw(head + b"2\r\n{}\r\n0\r\nX-Forwarded-For: 203.0.113.7\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403 ")
    answer = server.raw(head.replace(b"Host", b"X-Forwarded-For: 203.0.113.7\r\nHost") + b"2\r\n{}\r\n0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 202 ")


def test_without_a_trusted_proxy_nobody_is_believed(hf: Holdfast) -> None:
    for proxies in ((), ["10.0.0.1"]):
        with running(hf, hook("picky", networks=networks(["203.0.113.0/24"])), proxies=proxies) as server:
            assert server.post("picky", x_forwarded_for="203.0.113.7").status_code == 403


def test_the_last_address_that_no_trusted_proxy_has_counts() -> None:
    proxies = Proxies(["10.0.0.0/8", "2001:db8::1"])

    def client(peer: str, forwarded: bytes) -> str:
        found = proxies.client((peer, 1), Fields([(b"x-forwarded-for", forwarded)]))
        assert found is not None
        return found[0]

    assert client("10.0.0.1", b"1.1.1.1, 2.2.2.2, 10.0.0.9") == "2.2.2.2"
    assert client("::ffff:10.0.0.1", b"1.1.1.1") == "1.1.1.1"
    assert client("10.0.0.1", b"10.0.0.3, 10.0.0.2") == "10.0.0.3", "all are ours: the first one asked"
    assert client("2001:db8::1", b"[2001:db8::7]:443") == "2001:db8::7"
    assert client("10.0.0.1", b"x" * 30_000) == ""
    assert client("11.0.0.1", b"1.1.1.1") == "11.0.0.1"
    assert Proxies(["*"]).client(("11.0.0.1", 1), Fields([(b"x-forwarded-for", b"1.1.1.1, 2.2.2.2")])) == ("1.1.1.1", 0)
    assert Proxies(["*"]).client(None, Fields()) is None


def test_https_is_believed_of_a_trusted_proxy() -> None:
    told = Fields([(b"x-forwarded-proto", b"https")])
    assert Proxies(["10.0.0.1"]).scheme(("10.0.0.1", 1), told) == "https"
    assert Proxies(["10.0.0.1"]).scheme(("10.0.0.2", 1), told) == "http"
    assert Proxies(["10.0.0.1"]).scheme(("10.0.0.1", 1), Fields([(b"x-forwarded-proto", b"gopher")])) == "http"


@pytest.mark.parametrize("bad", ["", "proxy.example.com", "10.0.0.0/99", "10.0.0.1:80"])
def test_what_is_no_address_is_refused_at_the_start(bad: str) -> None:
    with pytest.raises(InvalidInput, match="not the address of a proxy"):
        Proxies([bad])
