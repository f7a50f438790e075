"""The rules of a webhook delivery, in their order.

Both ways in apply these and have none of their own: `ingress` with awaits, `fast_path` without.
Checks that need no body come first, nothing is parsed before its sender is known, and unauthenticated senders get no
detail.

1. an unknown name: 404. A sender whose address is not on the list: 403.
2. a body above the limit: 413, before it is read.
3. the signature over the bytes as they came: 401.
4. the type: 415. JSON: 400.
5. the filter: 200, and nothing is stored.
6. the idempotency key: 200 with the result, or 202 with the same id as long as there is none; 409 if it was used for
   another body.
7. the message type: 400 with the path.
8. a full queue or topic, a topic that refuses what nobody subscribes to, or a database that is away: 503, with the time
   after which to try again.
9. 202, after the commit.

`check_sender` is the address of 1, `bodies.check_size` is 2, `examine` is 3 to 7 as far as no database is needed for
them. The rest is what the database says: `refusal_for` and `accepted` make answers of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
from starlette.responses import Response

from holdfast.core.message import MessageId, id_text
from holdfast.errors import HoldfastError, InvalidBody, InvalidInput, NoSubscribers, TooLarge
from holdfast.server.error_responses import JsonAnswer, Refusal, for_now, refusal_of
from holdfast.server.webhooks.bodies import read_payload
from holdfast.server.webhooks.headers import Fields, stored_headers
from holdfast.server.webhooks.hook import Envelope, Hook, TypeFault
from holdfast.server.webhooks.replay_protection import DeliveryIdentity, identify


class CheckedDelivery(msgspec.Struct, frozen=True, gc=False):
    """A delivery that has passed every check that needs no database.

    `target` is the queue, or the name to publish under, and None for a command. `content` is what is stored. With a
    `fault` it does not fit its message type: only a delivery that was accepted before is answered, as a duplicate.
    """

    hook: Hook
    identity: DeliveryIdentity
    target: str | None
    content: Any
    options: Mapping[str, Any] = {}
    fault: TypeFault | None = None


def check_sender(hook: Hook, address: str) -> None:
    """403 for an address that is not on the webhook's list."""
    if not hook.admits(address):
        raise Refusal(403, "this webhook takes nothing from your address")


def examine(hook: Hook, address: str, fields: Fields, body: bytes, now: float) -> CheckedDelivery | None:
    """Return what a delivery says, once its signature is right; None if the webhook's filter drops it."""
    if hook.verifier is not None and not hook.verifier.verify(fields, body, now):
        raise Refusal(401, "the signature is missing or not right", headers={"WWW-Authenticate": "Signature"})
    envelope = _envelope(hook, address, fields, body, now)
    if hook.wanted is not None and not hook.wanted(envelope):
        return None
    identity = identify(hook, envelope, fields, body)
    target = _target(hook, envelope)
    fault = hook.check(envelope) if hook.check is not None else None
    if fault is not None:
        if target is None or identity.stored is None:
            raise misfit(fault)
        return CheckedDelivery(hook, identity, target, envelope, fault=fault)
    if target is None:
        return CheckedDelivery(hook, identity, None, envelope)
    shape = hook.shapes.get(target) if hook.topic is None else None
    content = envelope if shape is None else shape(envelope)
    return CheckedDelivery(hook, identity, target, content, hook.options_of(envelope))


def _target(hook: Hook, envelope: Envelope) -> str | None:
    if hook.command is not None:
        return None
    if hook.topic is not None:
        return hook.subject_of(envelope)
    queue = hook.queue_of(envelope)
    if queue is None:
        raise Refusal(400, "the routing of this webhook knows no queue for this", code="no_route")
    return queue


def _envelope(hook: Hook, address: str, fields: Fields, body: bytes, now: float) -> Envelope:
    if b"content-encoding" in fields:
        raise Refusal(415, "send the body as it is, without Content-Encoding")
    payload = read_payload(fields.get(b"content-type", b"").decode("latin-1"), body, hook.forms)
    signature = hook.verifier.header if hook.verifier is not None else None
    return {
        "payload": payload,
        "headers": stored_headers(fields, hook.headers, signature),
        "source_ip": address,
        "received_at": _moment(now),
    }


def refusal_for(problem: HoldfastError) -> Refusal:
    """What an error of the client or the database means to the sender of a delivery.

    Senders repeat 503 and nothing else. A topic without subscribers is one: a group may come back.
    """
    if isinstance(problem, TooLarge):
        return Refusal(413, str(problem))
    if isinstance(problem, InvalidInput | InvalidBody):
        return Refusal(400, str(problem), code="invalid")
    if isinstance(problem, NoSubscribers):
        return for_now(str(problem), "no_subscribers")
    return refusal_of(problem)


def accepted(raw_id: MessageId, key: str | None) -> Response:
    """202: the message is committed."""
    return JsonAnswer({"queued": True, "id": id_text(raw_id), "idempotency_key": key}, 202)


def filtered() -> Response:
    """200: the webhook's filter has dropped the delivery."""
    return JsonAnswer({"queued": False, "filtered": True})


def misfit(fault: TypeFault) -> Refusal:
    """400: the body does not fit the message type."""
    return Refusal(400, f"{fault.path}: {fault.message}", code="schema", path=fault.path)


def no_answer() -> Refusal:
    """503: the database did not answer within the patience of the webhooks."""
    return for_now("the database does not answer; it may have been stored or not", "store_unavailable")


def _moment(now: float) -> str:
    """A time as RFC 3339 has it, in UTC."""
    micros = round(now * 1_000_000)
    return f"{_second(micros // 1_000_000)}.{micros % 1_000_000:06}Z"


@lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
