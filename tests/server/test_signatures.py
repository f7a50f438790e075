"""Signatures: the vectors that senders publish, and everything that must not pass."""

import base64
import hashlib
import hmac

import pytest

from holdfast.errors import InvalidInput
from holdfast.server.webhooks.headers import Fields
from holdfast.server.webhooks.signatures import MOST_SIGNATURES, Verifier, secrets_of

pytestmark = pytest.mark.above_the_stores

# RFC 4231, test case 2: what HMAC-SHA256 is, in the forms of all who sign the body alone.
KEY = "Jefe"
BODY = b"what do ya want for nothing?"
DIGEST = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
BASE64 = base64.b64encode(bytes.fromhex(DIGEST)).decode()
OTHER = "0" * 64

# docs.github.com: "Testing the webhook payload validation".
GITHUB = (
    "It's a Secret to Everybody",
    b"Hello, World!",
    "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
)

# api.slack.com: "Verifying requests from Slack".
SLACK_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
SLACK_TIME = 1531420618
SLACK_BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
SLACK_SIGNATURE = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"

# The specification of Standard Webhooks.
STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
STANDARD_ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
STANDARD_TIME = 1614265330
STANDARD_BODY = b'{"test": 2432232314}'
STANDARD_SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

# Stripe publishes no vector; this is `openssl dgst -sha256 -hmac whsec_test_secret` of "1492774577.{}".
STRIPE_SECRET = "whsec_test_secret"
STRIPE_TIME = 1492774577
STRIPE_BODY = b"{}"
STRIPE_DIGEST = "53140ab8fa70c511cc40d5c9198af7dde7bbaee877038c056d8250c3bd3b2e11"


def passes(verifier: Verifier, body: bytes = BODY, now: float = 0, **headers: str | list[str]) -> bool:
    fields = [
        (name.replace("_", "-").encode(), one.encode("latin-1"))
        for name, text in headers.items()
        for one in ([text] if isinstance(text, str) else text)
    ]
    return verifier.verify(Fields(fields), body, now)


def plain(scheme: str | None = None, *secrets: str) -> Verifier:
    return Verifier("X-Sig", secrets or (KEY,), scheme=scheme)


@pytest.mark.parametrize(
    ("scheme", "value"),
    [("hex", DIGEST), ("github", f"sha256={DIGEST}"), ("pagerduty", f"v1={DIGEST}"), ("shopify", BASE64)],
)
def test_the_vector_of_rfc_4231_passes_in_every_form(scheme: str, value: str) -> None:
    assert passes(plain(scheme), x_sig=value)
    assert passes(plain(), x_sig=value), "the form of the header says which scheme it is"
    assert not passes(plain(scheme), BODY + b" ", x_sig=value), "whitespace is a part of the body"
    for other in {"hex", "github", "pagerduty", "shopify", "stripe", "slack", "standard"} - {scheme, "standard"}:
        assert not passes(plain(other), x_sig=value), f"{other} was asked for"


def test_githubs_vector() -> None:
    secret, body, digest = GITHUB
    verifier = Verifier("X-Hub-Signature-256", [secret])
    assert passes(verifier, body, x_hub_signature_256=f"sha256={digest}")
    sha1 = hmac.new(secret.encode(), body, hashlib.sha1).hexdigest()
    assert not passes(verifier, body, x_hub_signature_256=f"sha1={sha1}", x_hub_signature=f"sha1={sha1}")


def test_slacks_vector() -> None:
    verifier = Verifier("X-Slack-Signature", [SLACK_SECRET])
    sent = {"x_slack_signature": SLACK_SIGNATURE, "x_slack_request_timestamp": str(SLACK_TIME)}
    assert passes(verifier, SLACK_BODY, SLACK_TIME, **sent)
    assert not passes(verifier, SLACK_BODY, SLACK_TIME, **sent | {"x_slack_request_timestamp": str(SLACK_TIME + 1)})
    assert not passes(verifier, SLACK_BODY, SLACK_TIME, x_slack_signature=SLACK_SIGNATURE)


def test_the_vector_of_standard_webhooks() -> None:
    sent = {"webhook_id": STANDARD_ID, "webhook_timestamp": str(STANDARD_TIME), "webhook_signature": STANDARD_SIGNATURE}
    verifier = Verifier("webhook-signature", [STANDARD_SECRET])
    assert passes(verifier, STANDARD_BODY, STANDARD_TIME, **sent)
    svix = {name.replace("webhook", "svix"): text for name, text in sent.items()}
    assert passes(Verifier("svix-signature", [STANDARD_SECRET]), STANDARD_BODY, STANDARD_TIME, **svix)
    assert passes(
        verifier, STANDARD_BODY, STANDARD_TIME, **sent | {"webhook_signature": f"v1,AAAA v1a,x {STANDARD_SIGNATURE}"}
    )
    assert not passes(verifier, STANDARD_BODY, STANDARD_TIME, **sent | {"webhook_id": "msg_other"})
    assert not passes(verifier, STANDARD_BODY, STANDARD_TIME, **svix), "only the headers that it was told"


def test_an_id_with_a_dot_cannot_move_the_border_to_the_time() -> None:
    key = base64.b64decode(STANDARD_SECRET.removeprefix("whsec_"))
    now = STANDARD_TIME
    mac = hmac.digest(key, f"a.b.{now}.".encode() + BODY, "sha256")
    sent = {"webhook_signature": f"v1,{base64.b64encode(mac).decode()}", "webhook_timestamp": str(now)}
    assert not passes(Verifier("webhook-signature", [STANDARD_SECRET]), BODY, now, webhook_id="a.b", **sent)


def test_stripes_form() -> None:
    verifier = Verifier("Stripe-Signature", [STRIPE_SECRET])
    value = f"t={STRIPE_TIME},v1={OTHER},v1={STRIPE_DIGEST},v0=6ffbb59b"
    assert passes(verifier, STRIPE_BODY, STRIPE_TIME, stripe_signature=value)
    assert not passes(
        verifier, STRIPE_BODY, STRIPE_TIME, stripe_signature=value.replace(str(STRIPE_TIME), "1492774578")
    )
    assert not passes(verifier, STRIPE_BODY, STRIPE_TIME, stripe_signature=f"t={STRIPE_TIME},{value}")
    assert not passes(verifier, STRIPE_BODY, STRIPE_TIME, stripe_signature=f"v1={STRIPE_DIGEST}")


@pytest.mark.parametrize(("skew", "good"), [(-301, False), (-300, True), (0, True), (300, True), (301, False)])
def test_the_signed_time_may_differ_by_five_minutes(skew: int, good: bool) -> None:
    value = f"t={STRIPE_TIME},v1={STRIPE_DIGEST}"
    assert (
        passes(Verifier("Stripe-Signature", [STRIPE_SECRET]), STRIPE_BODY, STRIPE_TIME + skew, stripe_signature=value)
        is good
    )


@pytest.mark.parametrize("moment", ["", "-1", "1e9", "+1", " 1", "0x1", "9" * 13, "9" * 4000, "1492774577.0", "²", "١"])
def test_a_time_that_is_none_is_refused(moment: str) -> None:
    try:
        raw = moment.encode("latin-1")
    except UnicodeEncodeError:
        raw = moment.encode()
    mac = hmac.digest(STRIPE_SECRET.encode(), raw + b"." + STRIPE_BODY, "sha256").hex()
    fields = Fields([(b"stripe-signature", b"t=" + raw + b",v1=" + mac.encode())])
    verifier = Verifier("Stripe-Signature", [STRIPE_SECRET])
    assert not verifier.verify(fields, STRIPE_BODY, STRIPE_TIME)
    assert not verifier.verify(fields, STRIPE_BODY, 1.0)


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            " ",
            "=",
            ",",
            "v1",
            "v1=",
            "v2=" + DIGEST,
            "sha1=" + DIGEST,
            "sha256=",
            "sha256=zz",
            DIGEST[:-1],
            DIGEST + "0",
        ),
        *(
            "v1=" + DIGEST[:-1] + "é",
            "é" * 32,
            "\xff\xfe",
            BASE64[:-1],
            BASE64 + "=",
            f"sha256={DIGEST},sha256={DIGEST}",
        ),
        *(f" {DIGEST}", "v0=" + DIGEST, "v1," + BASE64, "none", "0x" + DIGEST[2:], OTHER),
    ],
)
def test_what_is_malformed_is_refused_like_what_is_wrong(value: str) -> None:
    for scheme in (None, "hex", "github", "pagerduty", "shopify", "stripe", "slack"):
        assert not passes(plain(scheme), x_sig=value, x_slack_request_timestamp="0")


def test_a_missing_or_double_header_is_refused() -> None:
    assert not passes(plain())
    assert not passes(plain(), x_sig=[])
    assert not passes(plain(), x_sig=[DIGEST, DIGEST])
    assert not passes(plain(), x_sig="v1=" + DIGEST + " " * 5000)


def test_any_current_secret_passes_and_a_retired_one_does_not() -> None:
    value = f"v1={DIGEST}"
    assert passes(plain(None, "new", KEY), x_sig=value)
    assert passes(plain(None, KEY, "new"), x_sig=value)
    assert not passes(plain(None, "new", "newer"), x_sig=value)


def test_the_number_of_signatures_is_bounded() -> None:
    others = [f"v1={OTHER}"] * (MOST_SIGNATURES - 1)
    assert passes(plain("pagerduty"), x_sig=",".join([*others, f"v1={DIGEST}"]))
    assert not passes(plain("pagerduty"), x_sig=",".join([f"v1={DIGEST}", *others, f"v1={OTHER}"]))


def test_an_unnamed_scheme_never_falls_back_to_one_that_needs_a_time() -> None:
    value = f"t={STRIPE_TIME},v1={STRIPE_DIGEST}"
    assert not passes(Verifier("X-Sig", [STRIPE_SECRET]), STRIPE_BODY, STRIPE_TIME, x_sig=value)


@pytest.mark.parametrize("secrets", [[], [""], ["good", ""], [b""]])
def test_an_empty_secret_is_refused_at_the_start(secrets: list[str]) -> None:
    with pytest.raises(InvalidInput):
        Verifier("X-Sig", secrets)


@pytest.mark.parametrize("secret", ["whsec_", "whsec_!!", "whsec_AAAA", "short"])
def test_a_bad_secret_of_standard_webhooks_is_refused_and_not_quoted(secret: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Verifier("webhook-signature", [secret])
    assert secret not in str(refusal.value).replace("whsec_ and", "")


def test_secrets_come_from_the_environment_by_name() -> None:
    assert secrets_of(["A", "B"], {"A": "one\n", "B": "two"}) == ["one", "two"]
    for environ in ({}, {"A": "one"}, {"A": "one", "B": ""}, {"A": "one", "B": " \n"}):
        with pytest.raises(InvalidInput, match="environment variable") as refusal:
            secrets_of(["A", "B"], environ)
        assert "one" not in str(refusal.value)
    with pytest.raises(InvalidInput):
        secrets_of([], {})


def test_no_secret_is_in_a_repr() -> None:
    verifier = Verifier("X-Sig", ["s3cret"])
    assert "s3cret" not in repr(verifier)


@pytest.mark.parametrize("header", ["", "a b", "a:b", "é", "x" * 101, "a\n"])
def test_a_header_without_a_proper_name_is_refused(header: str) -> None:
    with pytest.raises(InvalidInput):
        Verifier(header, [KEY])


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no signature scheme"):
        plain("md5")
