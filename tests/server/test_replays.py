"""A signed delivery that somebody has seen and sends again is no second message, whoever signed it."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.client.client import internals
from holdfast.commands.rules import CommandKey
from holdfast.server.webhooks.signatures import Verifier
from tests.server.servers import NOW, SECRET, hook, running, sign, sign_base64

pytestmark = pytest.mark.above_the_stores


@pytest.fixture
def hf(url: str) -> Iterator[Holdfast]:
    with Holdfast(url) as client:
        yield client


BODY = b'{"n": 1}'
MOMENT = int(NOW)
WHSEC = "whsec_" + base64.b64encode(b"k" * 32).decode()


def standard(body: bytes) -> str:
    digest = hmac.digest(b"k" * 32, f"d1.{MOMENT}.".encode() + body, "sha256")
    return "v1," + base64.b64encode(digest).decode()


def stripe(moment: int) -> str:
    return f"t={moment},v1={sign(f'{moment}.'.encode() + BODY)}"


def slack(moment: int) -> dict[str, str]:
    signature = "v0=" + sign(f"v0:{moment}:".encode() + BODY)
    return {"x_slack_signature": signature, "x_slack_request_timestamp": str(moment)}


@pytest.mark.parametrize(
    ("header", "sent", "again"),
    [
        ("X-Signature", {}, {"x_signature": "sha256=" + sign(BODY).upper()}),
        ("X-Hub-Signature-256", {"x_hub_signature_256": "sha256=" + sign(BODY)}, {}),
        (
            "X-PagerDuty-Signature",
            {"x_pagerduty_signature": "v1=" + sign(BODY)},
            {"x_pagerduty_signature": f"v1={'0' * 64},v1={sign(BODY)}"},
        ),
        ("Stripe-Signature", {"stripe_signature": stripe(MOMENT)}, {"stripe_signature": stripe(MOMENT) + ",v0=other"}),
        ("X-Slack-Signature", slack(MOMENT), {}),
        (
            "webhook-signature",
            {"webhook_signature": standard(BODY), "webhook_id": "d1", "webhook_timestamp": str(MOMENT)},
            {},
        ),
        ("X-Shopify-Hmac-Sha256", {"x_shopify_hmac_sha256": sign_base64(BODY)}, {}),
    ],
)
def test_a_replay_is_no_second_message(hf: Holdfast, header: str, sent: dict[str, str], again: dict[str, str]) -> None:
    """Nor is one with another header around the right signature."""
    verifier = Verifier(header, [WHSEC if header == "webhook-signature" else SECRET])
    with running(hf, hook(verifier=verifier)) as server:
        answers = [server.post("orders", BODY, **sent), server.post("orders", BODY, **sent | again)]
        assert [answer.status_code for answer in answers] == [202, 202]
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert sign(BODY) not in answers[0].text
        (claim,) = hf.claim("orders", n=5)
        claim.ack("done")
        assert server.post("orders", BODY, **sent).json()["result"] == "done"


def test_what_was_signed_at_another_time_is_another_delivery(hf: Holdfast) -> None:
    hooks = [hook(name, queue="q", verifier=Verifier(f"{name}-Signature", [SECRET])) for name in ("Stripe", "X-Slack")]
    with running(hf, *hooks) as server:
        for moment in (MOMENT, MOMENT + 1):
            assert server.post("Stripe", BODY, stripe_signature=stripe(moment)).status_code == 202
            assert server.post("X-Slack", BODY, **slack(moment)).status_code == 202
    assert len(hf.claim("q", n=9)) == 4


def test_a_webhook_may_want_every_delivery(hf: Holdfast) -> None:
    with running(hf, hook("every", queue="q", accept_replays=True), hook("open", queue="q", verifier=None)) as server:
        for name in ("every", "open", "every", "open"):
            assert server.post(name, BODY).status_code == 202
    assert len(hf.claim("q", n=9)) == 4


@pytest.mark.parametrize("header", ["idempotency_key", "x_github_delivery"])
def test_an_unsigned_header_cannot_make_a_replay_new(hf: Holdfast, header: str) -> None:
    verifier = Verifier("X-Hub-Signature-256", [SECRET])
    signature = {"x_hub_signature_256": "sha256=" + sign(BODY)}
    with running(hf, hook(verifier=verifier)) as server:
        keys = [{}, {header: "one"}, {header: "two"}, {header: "one"}]
        answers = [server.post("orders", BODY, **signature, **key) for key in keys]
    assert [answer.status_code for answer in answers] == [202] * 4
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len(hf.claim("orders", n=5)) == 1


def test_an_expression_over_headers_cannot_make_a_replay_new(hf: Holdfast) -> None:
    with running(hf, hook(key=lambda envelope: envelope["headers"]["x-delivery"])) as server:
        answers = [server.post("orders", BODY, x_delivery=text) for text in ("one", "two")]
        assert [answer.json().get("duplicate", False) for answer in answers] == [False, True]
    assert len(hf.claim("orders", n=5)) == 1


def test_a_command_is_not_run_again_for_another_header(hf: Holdfast) -> None:
    runs = []

    @hf.command("Order.Take")
    def take(n: int) -> int:
        runs.append(n)
        return n

    def command(envelope: dict[str, Any], key: str | None) -> Any:
        return hf.commands.run("Order.Take", envelope["payload"], idempotency_key=key)

    with running(hf, hook(queue=None, command=command)) as server:
        answers = [server.post("orders", BODY, idempotency_key=text) for text in ("one", "two")]
    assert [answer.json()["result"] for answer in answers] == [1, 1]
    assert runs == [1]


def test_a_header_key_adds_to_what_is_signed(hf: Holdfast) -> None:
    """A sender who repeats a delivery signs another time. Its key says that it is the same, and both signatures are
    known from then on."""
    with running(hf, hook(verifier=Verifier("Stripe-Signature", [SECRET]))) as server:
        first, second = (
            server.post("orders", BODY, stripe_signature=stripe(MOMENT + later), idempotency_key="one")
            for later in (0, 1)
        )
        replay = server.post("orders", BODY, stripe_signature=stripe(MOMENT + 1), idempotency_key="two")
        other = server.post("orders", BODY, stripe_signature=stripe(MOMENT + 2), idempotency_key="two")
    assert first.json()["id"] == second.json()["id"] == replay.json()["id"]
    assert second.json()["duplicate"]
    assert replay.json()["duplicate"]
    assert "duplicate" not in other.json(), "a key that came with a replay is not remembered"


def test_a_command_of_the_queue_runs_once_whatever_keys_lead_to_its_message(hf: Holdfast) -> None:
    """Its receipt is found by the message's own key, not by one that was added later."""
    with running(hf, hook(verifier=Verifier("Stripe-Signature", [SECRET]))) as server:
        assert server.post("orders", BODY, stripe_signature=stripe(MOMENT), idempotency_key="one").status_code == 202
        message = hf.queues.peek("orders")[0]
        before = internals(hf).store.commands.find(CommandKey("default", "Order.Take", "", message_id=message.raw_id))
        server.post("orders", BODY, stripe_signature=stripe(MOMENT + 1), idempotency_key="one")
        assert (
            internals(hf).store.commands.find(CommandKey("default", "Order.Take", "", message_id=message.raw_id))
            == before
        )
    (claim,) = hf.claim("orders", n=5)
    claim.ack("done")
    assert claim.message.id == message.id


@pytest.mark.parametrize("is_signed", [True, False])
def test_one_key_for_two_bodies_is_a_conflict(hf: Holdfast, is_signed: bool) -> None:
    verifier = Verifier("X-Signature", [SECRET]) if is_signed else None
    hooks = [
        hook("header", queue="q", verifier=verifier),
        hook(
            "payload", queue="q", verifier=verifier, key=lambda envelope: envelope["payload"]["id"], key_is_signed=True
        ),
    ]
    with running(hf, *hooks) as server:
        for name in ("header", "payload"):
            assert server.post(name, '{"id": "a", "n": 1}', idempotency_key="a").status_code == 202
            again = server.post(name, '{"id": "a", "n": 1}', idempotency_key="a")
            assert again.json()["duplicate"]
            other = server.post(name, '{"id": "a", "n": 2}', idempotency_key="a")
            assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_conflict")
            assert "another body" in other.json()["error"]["message"]
    assert len(hf.claim("q", n=9)) == 2


def test_a_conflict_spoils_nothing_else(hf: Holdfast) -> None:
    """Deliveries that arrive together are stored together; only the one in conflict is refused."""
    with running(hf, hook(key=lambda envelope: envelope["payload"]["id"], key_is_signed=True)) as server:
        server.post("orders", '{"id": 0}')
        bodies = ['{"id": 0, "n": 1}', *(f'{{"id": {number}}}' for number in range(1, 20))]
        with ThreadPoolExecutor(len(bodies)) as threads:
            codes = list(threads.map(lambda body: server.post("orders", body).status_code, bodies))
    assert codes == [409] + [202] * 19
    assert len(hf.claim("orders", n=50)) == 20


def test_a_missing_key_is_an_error_that_names_the_path(hf: Holdfast) -> None:
    wanted = hook(key=lambda envelope: envelope["payload"].get("id"), key_text="payload.id", key_is_signed=True)
    with running(hf, wanted) as server:
        for body in ("{}", '{"id": null}'):
            answer = server.post("orders", body)
            assert answer.status_code == 400
            assert "payload.id is missing or null" in answer.json()["error"]["message"]
    assert hf.claim("orders") == []
