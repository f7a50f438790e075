"""Replay protection: what makes a delivery of a webhook the same as an earlier one.

Anyone who has seen a signed delivery can send it again, but cannot sign another one. So what is signed decides, and a
key that is not signed can make a delivery a duplicate, but never a new one. (How old a signed time may be is part of
the signature's scheme: see `signatures`.)
"""

from __future__ import annotations

import hashlib

import msgspec

from holdfast.core.message import TEXT_LIMIT, DeliveryKey, plain_text
from holdfast.core.queue import NAME_LIMIT
from holdfast.errors import InvalidInput
from holdfast.server.webhooks.headers import Fields
from holdfast.server.webhooks.hook import Envelope, Hook, key_of
from holdfast.server.webhooks.signatures import DELIVERY_IDS

LONGEST_KEY = TEXT_LIMIT - NAME_LIMIT - 1
"""Keys are stored behind the webhook's name; a key that is too long for that is stored as a hash."""

ALIAS = "key:"
"""Prefix of a key that only adds to a digest, so that no sender can choose a key that looks like a digest."""


class DeliveryIdentity(msgspec.Struct, frozen=True):
    """The idempotency key of a delivery: as its sender is told, and as it is stored."""

    key: str | None
    stored: DeliveryKey | None


UNIDENTIFIED = DeliveryIdentity(None, None)


def identify(hook: Hook, envelope: Envelope, fields: Fields, body: bytes) -> DeliveryIdentity:
    """Return what makes this delivery the same as another one."""
    if hook.accept_replays:
        return UNIDENTIFIED
    key, is_signed = _key(hook, envelope, fields)
    if hook.verifier is None or (is_signed and key is not None):
        return UNIDENTIFIED if key is None else DeliveryIdentity(key, DeliveryKey(_stored(hook, key), _digest(body)))
    signed = hook.verifier.fingerprint(fields, body)
    alias = None if key is None else _stored(hook, ALIAS + key)
    return DeliveryIdentity(key or signed, DeliveryKey(_stored(hook, signed), _digest(body), alias))


def _key(hook: Hook, envelope: Envelope, fields: Fields) -> tuple[str | None, bool]:
    """The key that the spec or the sender gives, and whether it was signed."""
    if hook.key is not None:
        key = key_of(hook.key(envelope))
        if key is None:
            raise InvalidInput(f"the idempotency key {hook.key_text} is missing or null in this delivery")
        return key, hook.key_is_signed
    verifier = hook.verifier
    if verifier is not None and verifier.signed_id is not None:
        return (fields.single(verifier.signed_id) or b"").decode("latin-1"), True
    sender = DELIVERY_IDS.get(verifier.header) if verifier is not None else None
    for name in (sender, b"idempotency-key"):
        if name is not None and (value := fields.single(name)):
            return value.decode("latin-1"), False
    return None, False


def _stored(hook: Hook, key: str) -> str:
    """The key as the queue remembers it: two webhooks of one queue cannot take each other's."""
    short = key if len(key) <= LONGEST_KEY else "sha256:" + hashlib.sha256(key.encode()).hexdigest()
    plain_text(short, "idempotency_key")
    return f"{hook.name}:{short}"


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).digest()
