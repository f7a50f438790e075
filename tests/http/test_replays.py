"""A signed delivery that somebody has seen and sends again is no second message, whoever signed it."""

from __future__ import annotations

import base64
import hmac

import pytest

from holdfast import Holdfast
from holdfast.http.signatures import Verifier
from tests.http.servers import NOW, SECRET, hook, running, sign, sign_base64

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
    with running(hf, hook("every", queue="q", key=lambda _: None), hook("open", queue="q", verifier=None)) as server:
        for name in ("every", "open", "every", "open"):
            assert server.post(name, BODY).status_code == 202
    assert len(hf.claim("q", n=9)) == 4
