"""Signatures of webhooks: HMAC-SHA256 over the bytes that came, in the forms that senders use. Pure.

Whatever is wrong with a signature (missing, malformed, of another version, too old, made with another secret), the
answer is the same `False`: a stranger learns nothing from it. Nothing here parses the body.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from holdfast.errors import InvalidInput, shown
from holdfast.server.webhooks.headers import Fields

WINDOW = 300
"""Seconds by which a signed time may differ from ours, either way."""

MOST_SIGNATURES = 16
"""Signatures that are looked at in one header; a sender who rotates secrets sends two or three."""

LONGEST_HEADER = 4_096

Check = Callable[["Signed"], bool]

_HEX = re.compile(rb"[0-9a-fA-F]{64}")
_BASE64 = re.compile(rb"[0-9A-Za-z+/]{43}=")
_TIME = re.compile(rb"[0-9]{1,12}")
_STANDARD_ID = re.compile(rb"[!-~]{1,256}")


class Signed(msgspec.Struct, gc=False):
    """A request as its signature sees it."""

    keys: Sequence[bytes]
    fields: Fields
    header: bytes
    body: bytes
    now: float
    window: float

    def value(self, name: bytes | None = None) -> bytes:
        """The one value of a header; empty if it is missing, there twice, or too long to be a signature."""
        value = self.fields.single(name or self.header)
        return value if value is not None and len(value) <= LONGEST_HEADER else b""

    def fresh(self, moment: bytes) -> bool:
        """Whether a time in seconds since 1970 is about now."""
        return bool(_TIME.fullmatch(moment)) and abs(self.now - int(moment)) <= self.window

    def matches(self, claimed: Iterable[bytes], *prefix: bytes) -> bool:
        """Whether one of these digests is that of prefix and body, under one of the keys. All pairs are compared."""
        found = False
        known = list(claimed)
        text = b"".join([*prefix, self.body]) if prefix else self.body
        for key in self.keys:
            ours = hmac.digest(key, text, "sha256")
            for one in known:
                found |= hmac.compare_digest(ours, one)
        return found


def plain_hex(signed: Signed) -> bool:
    """`<hex>`"""
    return signed.matches(_hex([signed.value()]))


def github(signed: Signed) -> bool:
    """`sha256=<hex>`"""
    return signed.matches(_hex(_after(b"sha256=", [signed.value()])))


def versions(signed: Signed) -> bool:
    """`v1=<hex>,v1=<hex>`, PagerDuty's; other versions are passed over."""
    return signed.matches(_hex(_after(b"v1=", _parts(signed.value(), b","))))


def stripe(signed: Signed) -> bool:
    """`t=<seconds>,v1=<hex>,v1=<hex>` over `<seconds>.<body>`"""
    parts = _parts(signed.value(), b",")
    moments = _after(b"t=", parts)
    if len(moments) != 1 or not signed.fresh(moments[0]):
        return False
    return signed.matches(_hex(_after(b"v1=", parts)), moments[0], b".")


def slack(signed: Signed) -> bool:
    """`v0=<hex>` over `v0:<seconds>:<body>`, the seconds in X-Slack-Request-Timestamp"""
    moment = signed.value(b"x-slack-request-timestamp")
    if not signed.fresh(moment):
        return False
    return signed.matches(_hex(_after(b"v0=", [signed.value()])), b"v0:", moment, b":")


def standard(signed: Signed) -> bool:
    """Standard Webhooks: `v1,<base64> v1,<base64>` over `<id>.<seconds>.<body>`, those two in headers of their own"""
    family = _family(signed.header)
    sent_id, moment = signed.value(family + b"-id"), signed.value(family + b"-timestamp")
    # A dot in the id would let the border to the time be moved.
    if not _STANDARD_ID.fullmatch(sent_id) or b"." in sent_id or not signed.fresh(moment):
        return False
    return signed.matches(_base64(_after(b"v1,", _parts(signed.value(), b" "))), sent_id, b".", moment, b".")


def shopify(signed: Signed) -> bool:
    """`<base64>`"""
    return signed.matches(_base64([signed.value()]))


SCHEMES: dict[str, Check] = {
    "hex": plain_hex,
    "github": github,
    "pagerduty": versions,
    "stripe": stripe,
    "slack": slack,
    "standard": standard,
    "shopify": shopify,
}

_STAMPS: dict[str, Callable[[Signed], Iterable[bytes]]] = {
    "stripe": lambda signed: _after(b"t=", _parts(signed.value(), b",")),
    "slack": lambda signed: [signed.value(b"x-slack-request-timestamp")],
    "standard": lambda signed: [signed.value(_family(signed.header) + b"-id")],
}
"""What is signed with the body: a time, or the id of Standard Webhooks, which stays the same when a delivery is
repeated at another time."""

KNOWN_HEADERS = {
    b"x-hub-signature-256": "github",
    b"x-pagerduty-signature": "pagerduty",
    b"stripe-signature": "stripe",
    b"x-slack-signature": "slack",
    b"webhook-signature": "standard",
    b"svix-signature": "standard",
    b"x-shopify-hmac-sha256": "shopify",
}
"""The header's name says which scheme it is, so nobody has to."""

DELIVERY_IDS = {
    b"x-hub-signature-256": b"x-github-delivery",
    b"x-shopify-hmac-sha256": b"x-shopify-webhook-id",
}
"""By signature header: where its sender puts an unsigned id that stays the same when a delivery is repeated."""


class Verifier:
    """Checks the signature header of one webhook against its secrets, of which any may have been used."""

    def __init__(
        self, header: str, secrets: Sequence[str | bytes], *, scheme: str | None = None, window: float = WINDOW
    ) -> None:
        self.header = _field_name(header)
        self.scheme = scheme or KNOWN_HEADERS.get(self.header)
        if self.scheme is not None and self.scheme not in SCHEMES:
            raise InvalidInput(f"there is no signature scheme {shown(scheme)}; there are {', '.join(SCHEMES)}")
        if not secrets or any(not secret for secret in secrets):
            raise InvalidInput(f"the secret for {header} is empty: anybody could sign with that")
        self._keys = [_key(secret, self.scheme) for secret in secrets]
        self._window = window
        self.signed_id = _family(self.header) + b"-id" if self.scheme == "standard" else None
        """The header with a delivery id that is part of what is signed, if there is one."""

    def verify(self, fields: Fields, body: bytes, now: float) -> bool:
        """Whether whoever sent this body knows a secret, and sent it about now if the scheme signs the time."""
        signed = Signed(self._keys, fields, self.header, body, now, self._window)
        scheme = self.scheme or _form_of(signed.value())
        return scheme is not None and SCHEMES[scheme](signed)

    def fingerprint(self, fields: Fields, body: bytes) -> str:
        """The same for whatever says the same under a right signature: of what was signed, not of the header, in which
        one who repeats it could write something else besides."""
        signed = Signed((), fields, self.header, body, 0, 0)
        stamp = b"".join(_STAMPS[self.scheme](signed)) if self.scheme in _STAMPS else b""
        return "sha256:" + hashlib.sha256(stamp + b"." + body).hexdigest()

    def __repr__(self) -> str:
        return f"Verifier({self.header.decode()!r}, {len(self._keys)} secrets, scheme={self.scheme!r})"


def secrets_of(names: Iterable[str], environ: Mapping[str, str]) -> list[str]:
    """The secrets in these environment variables. One that is missing or empty is refused, and none is ever quoted."""
    chosen = list(names)
    if not chosen:
        raise InvalidInput("a signature needs the name of an environment variable with the secret")
    for name in chosen:
        if not environ.get(name, "").strip():
            raise InvalidInput(f"the environment variable {name} is not set, or empty; it has to hold the secret")
    return [environ[name].strip() for name in chosen]


def _family(header: bytes) -> bytes:
    """What the headers of Standard Webhooks begin with."""
    return b"svix" if header.startswith(b"svix-") else b"webhook"


def _form_of(value: bytes) -> str | None:
    """What the header's own form says.

    Only forms that sign the body alone are told apart like this, so that it makes no difference which one a sender
    chooses; those that sign a time as well have to be named, or he could leave it out.
    """
    if _HEX.fullmatch(value):
        return "hex"
    if value.startswith(b"sha256="):
        return "github"
    if value.startswith(b"v1="):
        return "pagerduty"
    return "shopify" if _BASE64.fullmatch(value) else None


def _field_name(header: str) -> bytes:
    if not isinstance(header, str) or not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", header):
        raise InvalidInput(f"{shown(header)} is not the name of a header")
    return header.lower().encode("ascii")


def _key(secret: str | bytes, scheme: str | None) -> bytes:
    raw = secret.encode() if isinstance(secret, str) else secret
    if scheme != "standard":
        return raw
    found = _base64([raw.removeprefix(b"whsec_")], lengths=range(24, 65))
    if not found:
        raise InvalidInput("a secret of Standard Webhooks is whsec_ and the base64 of 24 to 64 bytes; this one is not")
    return found[0]


def _parts(value: bytes, separator: bytes) -> list[bytes]:
    """Too many are none at all: no honest sender has so many secrets."""
    parts = value.split(separator, MOST_SIGNATURES)
    return [] if len(parts) > MOST_SIGNATURES else [part.strip() for part in parts]


def _after(prefix: bytes, parts: Iterable[bytes]) -> list[bytes]:
    return [part[len(prefix) :] for part in parts if part.startswith(prefix)]


def _hex(texts: Iterable[bytes]) -> list[bytes]:
    return [bytes.fromhex(text.decode("ascii")) for text in texts if _HEX.fullmatch(text)]


def _base64(texts: Iterable[bytes], lengths: Iterable[int] = (32,)) -> list[bytes]:
    found = []
    for text in texts:
        try:
            raw = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            continue
        if len(raw) in lengths:
            found.append(raw)
    return found
