"""H1, H2, H6: what is in a body, a header or a path. Never a 5xx, and what is accepted comes out as it went in."""

from collections.abc import Iterator

import msgspec
import pytest

from holdfast import Holdfast
from tests.server.servers import Running, hook, running, sign

pytestmark = pytest.mark.above_the_stores

TEXTS = [
    *(
        "",
        "a\0b",
        "\ufeffbom",
        "\u202ertl",
        "e\u0301 combining",
        "👩‍👩‍👧",
        "𝄞",
        "\u2028",
        "\x7f",
        '"\\/',
        "<img onerror=x>",
        "'; DROP TABLE x; --",
    ),
]


@pytest.fixture(scope="module")
def shared(shared_hf: Holdfast) -> Iterator[Running]:
    with running(shared_hf, hook(accept_replays=True), hook("keyed", key=lambda e: e["payload"]["id"])) as found:
        yield found


@pytest.fixture
def server(shared: Running) -> Running:
    for queue in shared.hf.queues.list():
        shared.hf.queues.purge(queue)
    return shared


@pytest.mark.parametrize("text", TEXTS)
def test_h1_text_comes_out_as_it_went_in(server: Running, text: str) -> None:
    body = msgspec.json.encode({"text": text, text: 1})
    assert server.post("orders", body).status_code == 202
    (claim,) = server.hf.claim("orders")
    assert claim.message.body["payload"] == {"text": text, text: 1}


@pytest.mark.parametrize(
    "body",
    [
        *(
            rb'"\ud800"',
            rb'"\udc00x"',
            rb'{"\ud800": 1}',
            b'"\xff"',
            b'"\xed\xa0\x80"',
            b"\xef\xbb\xbf{}",
            b'"\xc0\x80"',
        ),
        *(
            b"",
            b" ",
            b"{",
            b"'a'",
            b"{'a': 1}",
            b"[1,]",
            b"// x",
            b"\x00",
            b'"a\x00b"',
            b'"a\nb"',
            b"{}{}",
            b"{} x",
            b"undefined",
        ),
    ],
)
def test_h1_what_is_no_text_or_no_json_is_400(server: Running, body: bytes) -> None:
    response = server.post("orders", body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "bad_json")
    assert server.post("orders").status_code == 202, "the server is well"


@pytest.mark.parametrize(
    "body",
    [
        *(
            b"NaN",
            b"[NaN]",
            b"Infinity",
            b"-Infinity",
            b"1e400",
            b"[-1e400]",
            b"9" * 5000,
            b"18446744073709551616",
            b"-9223372036854775809",
        ),
        *(
            b'{"a": 1, "a": 2}',
            b'{"b": {"a": 1, "a": 2}}',
            rb'{"a": 1, "\u0061": 2}',
            rb'[{"x\"": 1, "x\"": 1}]',
            b'{"a":"1","a":"1"}',
        ),
        *(b"[" * 1000 + b"]" * 1000, b"[" * 100_000, b'{"a":' * 500 + b"1" + b"}" * 500, b"[" * 101 + b"]" * 101),
    ],
    ids=lambda body: body[:20].decode(),
)
def test_h2_numbers_twins_and_depth_are_400(server: Running, body: bytes) -> None:
    assert server.post("orders", body).status_code == 400
    assert server.post("orders").status_code == 202, "the server is well"


@pytest.mark.parametrize(
    "body",
    ["null", "0", "-0.0", "1e300", "18446744073709551615", "[]", '"x"', "true", '{"a": {"a": [{"a": 1}, {"a": 1}]}}'],
)
def test_h2_every_json_value_is_a_payload(server: Running, body: str) -> None:
    assert server.post("orders", body).status_code == 202
    (claim,) = server.hf.claim("orders")
    assert claim.message.body["payload"] == msgspec.json.decode(body)


def test_h2_odd_headers_are_stored_as_they_are_or_refused(server: Running) -> None:
    odd = {"x-odd": "NaN", "x-latin": "\xe9\xff", "x-long": "9" * 5000}
    raw = [(name.encode(), text.encode("latin-1")) for name, text in odd.items()]
    sent = [(b"content-type", b"application/json"), (b"x-signature", sign(b"{}").encode()), *raw]
    assert server.http.post("/hook/orders", content=b"{}", headers=sent).status_code == 202
    kept = server.hf.claim("orders")[0].message.body["headers"]
    assert {name: kept[name] for name in odd} == odd


NAMES = [
    "a/b",
    "..",
    "../admin",
    "%",
    "%00",
    "a;b",
    "a'b",
    'a"b',
    "a<b",
    "ORDERS",
    "orders%20",
    "",
    "é",
    "x" * 10_000,
    "%2e%2e",
    "orders/",
    "orders%2F",
]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name[:12])
def test_h6_odd_names_of_webhooks_are_unknown(server: Running, name: str) -> None:
    path = f"/hook/{name}".encode()
    answer = server.raw(
        b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    assert answer[9:12] in (b"404", b"400"), answer[:100]
    assert set(server.hf.queues.list()) <= {"orders", "keyed"}


@pytest.mark.parametrize("key", ["a/b", "..", "%", "a;b", "a'b", 'a"b', "a<b", "Case", "case", "é" * 1000, " ", "null"])
def test_h6_odd_keys_are_kept_exactly(server: Running, key: str) -> None:
    body = msgspec.json.encode({"id": key})
    first, second = server.post("keyed", body), server.post("keyed", body)
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["idempotency_key"] == key
    assert first.json()["id"] == second.json()["id"]


def test_h6_an_empty_key_is_not_a_missing_one(server: Running) -> None:
    assert server.post("keyed", '{"id": ""}').status_code == 400
    assert "missing or null" in server.post("keyed", '{"id": null}').json()["error"]["message"]
