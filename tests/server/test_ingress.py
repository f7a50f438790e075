"""Deliveries: what is accepted is in the queue, in the order of checks that is promised."""

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict
from unittest.mock import ANY

import httpx
import pytest

from holdfast import Holdfast
from holdfast.server.limits import ServerLimits
from holdfast.server.webhooks.hook import Hook, networks, type_check
from holdfast.server.webhooks.signatures import Verifier
from tests.server.servers import NOW, SECRET, Running, hook, running, sign, sign_base64

pytestmark = [pytest.mark.on_postgres, pytest.mark.above_the_stores]


@pytest.fixture
def server(hf: Holdfast) -> Iterator[Running]:
    with running(hf, hook()) as found:
        yield found


def error(response: httpx.Response) -> str:
    found: dict[str, Any] = response.json()["error"]
    assert isinstance(found["message"], str)
    return str(found["code"])


def test_enqueue_a_delivery_is_in_the_queue_when_it_is_answered(server: Running) -> None:
    response = server.post("orders", '{"n": 1}', user_agent="tests/1")
    assert response.status_code == 202
    (claim,) = server.hf.claim("orders")
    assert response.json() == {"queued": True, "id": claim.message.id, "idempotency_key": ANY}
    body = claim.message.body
    assert body["payload"] == {"n": 1}
    assert body["source_ip"] == "127.0.0.1"
    assert body["received_at"] == "2027-01-15T08:00:00.000000Z"
    assert body["headers"]["user-agent"] == "tests/1"
    assert body["headers"]["content-type"] == "application/json"


def test_on_every_store(url: str) -> None:
    with Holdfast(url, patience=5) as hf, running(hf, hook(key=lambda e: e["payload"]["id"])) as server:
        first = server.post("orders", '{"id": "a\\u0000b"}')
        assert first.status_code == 400, "no database keeps such a key"
        first = server.post("orders", '{"id": "é", "text": "a\\u0000b"}')
        assert first.status_code == 202
        again = server.post("orders", '{"id": "é", "text": "a\\u0000b"}')
        assert again.json()["id"] == first.json()["id"]
        (claim,) = hf.claim("orders", n=5)
        assert claim.message.body["payload"]["text"] == "a\0b"
        claim.ack({"made": 1})
        again = server.post("orders", '{"id": "é", "text": "a\\u0000b"}')
        assert (again.status_code, again.json()["result"]) == (200, {"made": 1})


def test_many_at_once_are_all_there(server: Running) -> None:
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda n: server.post("orders", f'{{"n": {n}}}'), range(200)))
    assert {answer.status_code for answer in answers} == {202}
    claims = server.hf.claim("orders", n=1000)
    assert sorted(claim.message.body["payload"]["n"] for claim in claims) == list(range(200))
    assert {claim.message.id for claim in claims} == {answer.json()["id"] for answer in answers}


def test_secrets_and_signatures_are_never_stored(server: Running) -> None:
    secrets = {
        "authorization": "Bearer x",
        "cookie": "a=b",
        "x_gitlab_token": "t",
        "x_api_key": "k",
        "x_hub_signature": "s",
    }
    assert server.post("orders", "{}", proxy_authorization="p", **secrets).status_code == 202
    (claim,) = server.hf.claim("orders")
    kept = claim.message.body["headers"]
    assert not kept.keys() & {name.replace("_", "-") for name in [*secrets, "x-signature", "proxy-authorization"]}


def test_an_allow_list_of_headers(hf: Holdfast) -> None:
    with running(hf, hook(headers=frozenset({"x-event", "authorization"}))) as server:
        server.post("orders", "{}", x_event="opened", authorization="Bearer x")
    assert hf.claim("orders")[0].message.body["headers"] == {"x-event": "opened"}


def test_an_unknown_webhook_is_404(server: Running) -> None:
    response = server.post("nobody")
    assert (response.status_code, error(response)) == (404, "not_found")


def test_another_method_is_405_and_says_which_are_allowed(server: Running) -> None:
    response = server.http.get("/hook/orders")
    assert (response.status_code, error(response), response.headers["allow"]) == (405, "method_not_allowed", "POST")


# --- the signature ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "signature",
    [
        "-",
        "",
        "0" * 64,
        "nonsense",
        "sha1=" + "0" * 40,
        "v9=" + sign(b"{}"),
        "v1=é",
        "\xff" * 64,
        sign(b"{}", "of another hook"),
    ],
)
def test_what_is_not_signed_is_401_and_every_answer_is_the_same(server: Running, signature: str) -> None:
    expected = server.post("orders", "{}", x_signature="-")
    headers = [("content-type", "application/json")]
    if signature != "-":
        headers.append(("x-signature", signature))
    raw = [(name.encode(), text.encode("latin-1")) for name, text in headers]
    response = server.http.post("/hook/orders", content=b"{}", headers=raw)
    assert response.status_code == 401
    assert response.content == expected.content
    assert response.headers["www-authenticate"]
    assert server.hf.claim("orders") == []


def test_a_changed_body_is_401_even_by_a_space(server: Running) -> None:
    assert server.post("orders", b'{"n": 1}', x_signature=sign(b'{"n":1}')).status_code == 401


def test_nothing_is_parsed_before_the_signature_is_right(server: Running) -> None:
    for content in (b"not json", b"[" * 100_000, b"\xff"):
        assert server.post("orders", content, x_signature="0" * 64).status_code == 401
        assert server.post("orders", content, x_signature="0" * 64, content_type="text/plain").status_code == 401


def test_a_second_secret_is_as_good_as_the_first(hf: Holdfast) -> None:
    with running(hf, hook(verifier=Verifier("X-Signature", ["new", SECRET]))) as server:
        assert server.post("orders").status_code == 202
        assert server.post("orders", x_signature=sign(b"{}", "new")).status_code == 202
        assert server.post("orders", x_signature=sign(b"{}", "retired")).status_code == 401


def test_a_replay_of_a_delivery_outside_of_the_window_is_401(hf: Holdfast) -> None:
    with running(hf, hook(verifier=Verifier("Stripe-Signature", [SECRET]))) as server:
        for moment, status in ((NOW, 202), (NOW - 301, 401), (NOW + 301, 401)):
            signed = sign(f"{int(moment)}.{{}}".encode())
            assert server.post("orders", stripe_signature=f"t={int(moment)},v1={signed}").status_code == status


def test_a_replay_inside_of_the_window_is_no_second_message(hf: Holdfast) -> None:
    verifier = Verifier("X-Shopify-Hmac-Sha256", [SECRET])
    with running(hf, hook(verifier=verifier)) as server:
        sent = {"x_shopify_hmac_sha256": sign_base64(b"{}"), "x_shopify_webhook_id": "d-1"}
        first, second = server.post("orders", **sent), server.post("orders", **sent)
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["id"] == second.json()["id"]
    assert first.json()["idempotency_key"] == "d-1"
    assert len(hf.claim("orders", n=10)) == 1


# --- what may come in -------------------------------------------------------------------------------------------------


def test_a_sender_who_is_not_on_the_list_is_403(hf: Holdfast) -> None:
    away, here = networks(["10.0.0.0/8", "2001:db8::/32"]), networks(["10.0.0.0/8", "127.0.0.1"])
    with running(hf, hook("away", networks=away), hook("here", networks=here)) as server:
        refused = server.post("away", x_forwarded_for="10.0.0.1")
        assert (refused.status_code, error(refused)) == (403, "forbidden")
        assert server.post("here").status_code == 202


@pytest.mark.parametrize(
    "kind", ["-", "", "text/plain", "application/x-www-form-urlencoded", "application/xml", "json"]
)
def test_what_is_no_json_by_its_type_is_415(server: Running, kind: str) -> None:
    response = server.post("orders", "{}", content_type=kind)
    assert (response.status_code, error(response)) == (415, "unsupported_type")


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON; charset=utf-8", "application/cloudevents+json"]
)
def test_json_by_any_of_its_types(server: Running, kind: str) -> None:
    assert server.post("orders", "{}", content_type=kind).status_code == 202


def test_a_compressed_body_is_415_and_never_unpacked(server: Running) -> None:
    assert server.post("orders", "{}", content_encoding="gzip").status_code == 415


def test_a_form_if_the_webhook_wants_one(hf: Holdfast) -> None:
    with running(hf, hook(forms=True)) as server:
        kind = "application/x-www-form-urlencoded"
        assert server.post("orders", "text=a%20b&user=%C3%A9&empty=", content_type=kind).status_code == 202
        for bad in ("a=1&a=2", "a=%FF", "a", b"\xff=1"):
            assert server.post("orders", bad, content_type=kind).status_code == 400
    (claim,) = hf.claim("orders", n=9)
    assert claim.message.body["payload"] == {"text": "a b", "user": "é", "empty": ""}


def test_a_webhook_may_allow_more_than_the_server_does(hf: Holdfast) -> None:
    """Others on the same server may not, and neither may the admin API."""
    most = ServerLimits().body_bytes
    hooks = [hook("large", queue="q", max_size=2 * most), hook("usual", queue="q")]
    hf.queue("q", max_size=3 * most)
    with running(hf, *hooks) as server:
        body = json.dumps("x" * (2 * most - 2)).encode()
        assert server.post("large", body).status_code == 202
        chunks = iter([body, b" "])
        response = server.http.post("/hook/large", content=chunks, headers={"content-type": "application/json"})
        assert response.status_code == 413
        assert server.post("usual", body).status_code == 413
        assert server.http.post("/admin/queues", content=body).status_code == 413
        server.ingress.replace([hook("small", queue="q")])
        assert server.post("small", body).status_code == 413


def test_the_largest_body_passes_and_one_byte_more_is_413(hf: Holdfast) -> None:
    with running(hf, hook(max_size=1000)) as server:
        assert server.post("orders", '"' + "x" * 998 + '"').status_code == 202
        response = server.post("orders", '"' + "x" * 999 + '"')
        assert (response.status_code, error(response)) == (413, "too_large")


def test_a_message_that_the_queue_finds_too_large_is_413(hf: Holdfast) -> None:
    hf.queue("orders", max_size=500)
    with running(hf, hook()) as server:
        assert server.post("orders", '"' + "x" * 500 + '"').status_code == 413


def test_a_filtered_delivery_is_accepted_and_forgotten(hf: Holdfast) -> None:
    with running(hf, hook(wanted=lambda e: e["payload"].get("n", 0) > 1)) as server:
        response = server.post("orders", '{"n": 1}')
        assert (response.status_code, response.json()) == (200, {"queued": False, "filtered": True})
        assert server.post("orders", '{"n": 2}').status_code == 202
    assert len(hf.claim("orders", n=9)) == 1


def test_routing_leads_to_the_queues_of_the_webhook_and_nowhere_else(hf: Holdfast) -> None:
    chosen = frozenset({"high", "low"})
    hooks = [
        hook("all", queue="other", queues=chosen, routing=lambda e: e["payload"]["to"]),
        Hook(name="some", queues=chosen, routing=lambda e: e["payload"]["to"]),
    ]
    with running(hf, *hooks) as server:
        for to in ('"high"', '"low"', '"evil"', "null", "7"):
            assert server.post("all", f'{{"to": {to}}}').status_code == 202
        assert server.post("some", '{"to": "high"}').status_code == 202
        refused = server.post("some", '{"to": "evil"}')
        assert (refused.status_code, error(refused)) == (400, "no_route")
    assert {name: hf.stats(name).pending for name in hf.queues.list()} == {"high": 2, "low": 1, "other": 3}


# --- idempotency ------------------------------------------------------------------------------------------------------


def test_idempotency_the_same_key_twice_gives_the_stored_result(hf: Holdfast) -> None:
    with running(hf, hook(key=lambda e: e["payload"]["id"])) as server:
        first = server.post("orders", '{"id": "i1"}')
        second = server.post("orders", '{"id": "i1"}')
        assert (second.status_code, second.json()["queued"]) == (202, True)
        assert second.json()["id"] == first.json()["id"]
        (claim,) = hf.claim("orders", n=9)
        assert server.post("orders", '{"id": "i1"}').status_code == 202, "it is being worked on"
        claim.ack({"incident": 7})
        third = server.post("orders", '{"id": "i1"}')
    assert third.status_code == 200
    assert third.json() == {
        "queued": False,
        "duplicate": True,
        "id": first.json()["id"],
        "idempotency_key": "i1",
        "result": {"incident": 7},
    }
    assert hf.claim("orders") == []


def test_a_duplicate_without_a_result_is_200_once_it_was_processed(hf: Holdfast) -> None:
    with running(hf, hook(key=lambda e: e["payload"])) as server:
        server.post("orders", "1")
        hf.claim("orders")[0].ack()
        response = server.post("orders", "1")
        assert (response.status_code, response.json()["result"]) == (200, None)
        server.post("orders", "2")
        hf.claim("orders")[0].dead_letter("no")
        response = server.post("orders", "2")
        assert (response.status_code, response.json()["state"]) == (200, "dead")


def test_a_duplicate_of_a_replayed_dead_letter_gets_the_result_of_the_replay(hf: Holdfast) -> None:
    with running(hf, hook(key=lambda e: e["payload"])) as server:
        server.post("orders", "1")
        hf.claim("orders")[0].dead_letter("no")
        hf.dead_letters.replay(hf.dead_letters.list("orders")[0].id)
        assert server.post("orders", "1").json()["queued"], "the replay is waiting"
        hf.claim("orders")[0].ack({"incident": 7})
        response = server.post("orders", "1")
    assert (response.status_code, response.json()["result"]) == (200, {"incident": 7})


@pytest.mark.parametrize(("value", "key"), [("7", "7"), ("true", "true"), ('"x"', "x"), ("[1]", "[1]")])
def test_a_key_is_text_whatever_the_expression_gives(hf: Holdfast, value: str, key: str) -> None:
    with running(hf, hook(key=lambda e: e["payload"])) as server:
        assert server.post("orders", value).json()["idempotency_key"] == key
        assert server.post("orders", value).json()["duplicate"] is True


def test_an_empty_key_is_refused_and_a_long_one_is_not(hf: Holdfast) -> None:
    with running(hf, hook(key=lambda e: e["payload"])) as server:
        assert server.post("orders", '""').status_code == 400
        first, second = server.post("orders", '"' + "é" * 5000 + '"'), server.post("orders", '"' + "é" * 5001 + '"')
        assert (first.status_code, second.status_code) == (202, 202)
        assert first.json()["id"] != second.json()["id"]


def test_two_webhooks_of_one_queue_have_keys_of_their_own(hf: Holdfast) -> None:
    with running(hf, hook("one", queue="q", key=lambda e: "k"), hook("two", queue="q", key=lambda e: "k")) as server:
        assert server.post("one").json()["id"] != server.post("two").json()["id"]


def test_the_usual_header_is_a_key_too(server: Running) -> None:
    first = server.post("orders", '{"k": 1}', idempotency_key="k1")
    assert first.json()["idempotency_key"] == "k1"
    assert server.post("orders", '{"k": 1}', idempotency_key="k1").json()["id"] == first.json()["id"]


# --- message type, depth, database ------------------------------------------------------------------------------------


class Order(TypedDict):
    n: int


class OrderEnvelope(TypedDict):
    payload: Order


class StricterEnvelope(TypedDict):
    payload: str


def test_what_does_not_fit_the_message_type_is_400_with_the_path(hf: Holdfast) -> None:
    hf.queue("typed", message_type=OrderEnvelope)
    with running(hf, hook(check=type_check(OrderEnvelope)), hook("typed")) as server:
        for name in ("orders", "typed"):
            response = server.post(name, '{"n": "one"}')
            assert (response.status_code, error(response)) == (400, "schema")
            assert response.json()["error"]["path"] == "$.payload.n"
            assert server.post(name, '{"n": 1}').status_code == 202


def test_the_key_is_looked_at_before_the_message_type(hf: Holdfast) -> None:
    hooks = [hook(key=lambda e: e["payload"]["n"], check=type_check(OrderEnvelope))]
    with running(hf, *hooks) as server:
        assert server.post("orders", '{"n": "1"}').status_code == 400
        first = server.post("orders", '{"n": 1}')
        server.ingress.replace([hook(key=lambda e: e["payload"]["n"], check=type_check(StricterEnvelope))])
        again = server.post("orders", '{"n": 1}')
        assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])


def test_backpressure_a_full_queue_is_503_with_the_time_to_try_again(hf: Holdfast) -> None:
    hf.queue("orders", max_depth=2)
    with running(hf, hook(key=lambda e: e["payload"])) as server:
        assert [server.post("orders", str(n)).status_code for n in range(3)] == [202, 202, 503]
        response = server.post("orders", "9")
        assert error(response) == "queue_full"
        assert int(response.headers["retry-after"]) > 0
        assert server.post("orders", "1").status_code == 202, "what is there already needs no room"
        hf.claim("orders")[0].ack()
        assert server.post("orders", "2").status_code == 202


def test_replaced_webhooks_count_from_the_next_delivery(server: Running) -> None:
    server.ingress.replace([hook("new")])
    assert server.post("orders").status_code == 404
    assert server.post("new").status_code == 202


# --- commands ---------------------------------------------------------------------------------------------------------


def test_a_command_runs_at_once(hf: Holdfast) -> None:
    async def later(envelope: dict[str, Any], key: str | None) -> Any:
        return [envelope["payload"], key]

    def now(envelope: dict[str, Any], key: str | None) -> Any:
        if envelope["payload"] == "bad":
            raise RuntimeError("a secret of the command")
        return {"made": envelope["payload"]}

    with running(
        hf,
        hook("now", command=now),
        hook("later", command=later),
        hook("typed", command=now, check=type_check(OrderEnvelope)),
    ) as server:
        done = server.post("now", "1")
        assert (done.status_code, done.json()["result"]) == (200, {"made": 1})
        fingerprint = "sha256:" + hashlib.sha256(b".2").hexdigest()
        assert server.post("later", "2", idempotency_key="k").json()["result"] == [2, "later:" + fingerprint]
        assert server.post("typed", '{"n": "x"}').status_code == 400
        failed = server.post("now", '"bad"')
        assert (failed.status_code, error(failed)) == (500, "internal")
        assert "secret" not in failed.text
        assert "Traceback" not in failed.text
