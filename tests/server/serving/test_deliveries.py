"""Webhooks of a spec, delivered to a server in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast import Holdfast
from holdfast.server.serving.webhooks import expect_message_types, hooks_of
from holdfast.spec.apply import apply
from holdfast.spec.reading import read_text
from tests.server.servers import SECRET, Running, running

pytestmark = pytest.mark.above_the_stores

SIGNED = 'verify_hmac { header: "X-Signature" secret_env: "SECRET" }'


@contextmanager
def served(hf: Holdfast, parts: str) -> Iterator[Running]:
    spec = read_text(f"app X {{ {parts} }}").spec
    assert spec is not None
    apply(hf, spec)
    expect_message_types(hf, spec)
    with running(hf, *hooks_of(hf, spec, {"SECRET": SECRET})) as server:
        yield server


@pytest.fixture
def hf(url: str) -> Iterator[Holdfast]:
    with Holdfast(url) as client:
        yield client


@pytest.mark.parametrize("url", ["sqlite-apsw"], indirect=True)
@pytest.mark.parametrize("target", ["queue: q", "command: Tag.Note { known: true }"])
def test_what_an_expression_cannot_afford_is_refused_with_the_reason(hf: Holdfast, target: str) -> None:
    @hf.command("Tag.Note")
    def note(known: bool) -> None:
        raise AssertionError("it was refused")

    with served(hf, f'queue q {{}} webhook W {{ {target} filter: "x" in payload.tags {SIGNED} }}') as server:
        answer = server.post("W", json.dumps({"tags": ["a"] * 100_001}))
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "too_costly")
        assert "steps" in answer.json()["error"]["message"]
        assert server.post("W", '{"tags": ["x"]}').status_code in (202, 500)


@pytest.mark.parametrize("key", ["1", "k" * 600])
def test_two_webhooks_of_one_command_never_share_a_key(hf: Holdfast, key: str) -> None:
    ran: list[str] = []

    @hf.command("Ticket.Open")
    def open_ticket(title: str) -> str:
        ran.append(title)
        return title

    webhook = "webhook {} {{ command: Ticket.Open {{ title: payload.title }} idempotency_key: payload.id {} }}"
    with served(hf, webhook.format("A", SIGNED) + webhook.format("B", SIGNED)) as server:
        answers = [server.post(to, json.dumps({"id": key, "title": to + again})) for again in ("", "!") for to in "AB"]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert [answer.json()["result"] for answer in answers] == ["A", "B", "A", "B"]
    assert {answer.json()["idempotency_key"] for answer in answers} == {key}
    assert ran == ["A", "B"]


@pytest.mark.parametrize("url", ["sqlite-apsw"], indirect=True)
def test_routing_leads_to_no_dead_letters_and_past_no_message_type(hf: Holdfast) -> None:
    queues = """
      queue q { delivery { dead_letter_queue: Graves } }
      queue Graves {}
      queue typed { message_type { payload: string } }
    """
    routes = f"routing: payload.to {SIGNED}"
    with served(hf, f"{queues} webhook W {{ queue: q {routes} }} webhook Strict {{ {routes} }}") as server:
        assert server.post("W", '{"to": "Graves"}').status_code == 202
        refused = server.post("Strict", '{"to": "Graves"}')
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "no_route")
        misfit = server.post("W", '{"to": "typed"}')
        assert (misfit.status_code, misfit.json()["error"]["code"]) == (400, "schema")
        assert server.post("Strict", '{"to": "q"}').status_code == 202
    assert [hf.stats(queue).pending for queue in ("q", "Graves", "typed")] == [2, 0, 0]


@pytest.mark.parametrize("url", ["sqlite-apsw"], indirect=True)
def test_a_spec_says_whether_forms_are_taken_and_which_headers_are_kept(hf: Holdfast) -> None:
    """As Slack sends slash commands."""
    webhook = f'webhook W {{ queue: q forms: true headers: ["X-Event", "X-Signature", "Cookie"] {SIGNED} }}'
    with served(hf, f"queue q {{}} {webhook} webhook Json {{ queue: q {SIGNED} }}") as server:
        form = {"content_type": "application/x-www-form-urlencoded", "x_event": "command", "cookie": "a=b"}
        assert server.post("W", "command=%2Fdeploy&text=now", **form).status_code == 202
        assert server.post("Json", "command=%2Fdeploy&text=now", **form).status_code == 415
    (claim,) = hf.claim("q", n=9)
    assert claim.message.body["payload"] == {"command": "/deploy", "text": "now"}
    assert claim.message.body["headers"] == {"x-event": "command"}


TOPIC = 'topic shop { max_size: 2000 %s group email {} group paid { patterns: ["shop.paid"] } }'
SHOP = f"webhook W {{ topic: shop routing: payload.name idempotency_key: payload.id key: payload.who {SIGNED} }}"


def test_a_webhook_publishes_to_all_groups_once_per_key(hf: Holdfast) -> None:
    with served(hf, TOPIC % "" + SHOP) as server:
        first = server.post("W", '{"id": "1", "name": "shop.paid", "who": "ada"}')
        assert (first.status_code, first.json()["queued"]) == (202, True)
        again = server.post("W", '{"id": "1", "name": "shop.paid", "who": "ada"}')
        assert (again.status_code, again.json()) == (202, {**first.json(), "duplicate": True})
        other = server.post("W", '{"id": "1", "name": "shop.late", "who": "ada"}')
        assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_conflict")
        assert server.post("W", '{"name": "shop.paid"}').status_code == 400, "the key is missing"
    (paid,) = hf.claim("shop/paid", n=9)
    (email,) = hf.claim("shop/email", n=9)
    assert {paid.message.id, email.message.id} == {first.json()["id"]}
    assert (paid.message.topic, paid.message.key) == ("shop.paid", "ada")
    assert paid.message.body["payload"] == {"id": "1", "name": "shop.paid", "who": "ada"}
    assert paid.message.body["source_ip"] == "127.0.0.1"


@pytest.mark.parametrize("url", ["sqlite-apsw"], indirect=True)
def test_a_name_that_is_none_of_the_topic_is_never_published_under(hf: Holdfast) -> None:
    names = ["shop.eu.paid", "shop", "shops.paid", "other", "shop..x", "shop.*", "shop." + "x" * 600, None, 5, ""]
    with served(hf, "queue other {}" + TOPIC % "" + SHOP) as server:
        for number, name in enumerate(names):
            delivery = json.dumps({"id": str(number), "name": name, "who": "ada"})
            assert server.post("W", delivery).status_code == 202, name
    published = [claim.message.topic for claim in hf.claim("shop/email", n=99)]
    assert published == ["shop.eu.paid"] + ["shop"] * 9
    assert hf.stats("other").pending == 0


def test_what_a_topic_refuses_for_now_is_503_and_can_be_sent_again(hf: Holdfast) -> None:
    nobody = f'topic quiet {{ no_subscribers: refuse }} webhook Q {{ topic: quiet idempotency_key: "one" {SIGNED} }}'
    with served(hf, TOPIC % "max_depth: 1" + SHOP + nobody) as server:
        assert server.post("W", '{"id": "1"}').status_code == 202
        full = server.post("W", '{"id": "2"}')
        assert (full.status_code, full.json()["error"]["code"]) == (503, "queue_full")
        assert full.headers["retry-after"]
        unwanted = server.post("Q", "{}")
        assert (unwanted.status_code, unwanted.json()["error"]["code"]) == (503, "no_subscribers")
        assert unwanted.headers["retry-after"]
        hf.subscribe("quiet", "reader")
        assert server.post("Q", "{}").status_code == 202, "the key was not taken by what was refused"
        large = server.post("W", json.dumps({"id": "3", "text": "x" * 3_000}))
        assert (large.status_code, large.json()["error"]["code"]) == (413, "too_large")
    assert len(hf.claim("quiet/reader", n=9)) == 1
