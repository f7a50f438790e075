"""The webhooks of a spec, ready to receive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.client.client import Holdfast, internals
from holdfast.server.webhooks.hook import MAX_SIZE, Envelope, Expression, Hook, networks
from holdfast.server.webhooks.signatures import Verifier, secrets_of
from holdfast.spec.message_type import message_form
from holdfast.spec.model import CommandCall, Spec, VerifyHmac, WebhookDeclaration
from holdfast.spec.running import enveloped, function_of, inputs_of, reads_only


def hooks_of(hf: Holdfast, spec: Spec, environ: Mapping[str, str]) -> list[Hook]:
    """All webhooks of a spec. Secrets that are not there are refused."""
    return [_hook(hf, spec, name, webhook, environ) for name, webhook in spec.webhooks.items()]


def expect_message_types(hf: Holdfast, spec: Spec) -> None:
    """From now on this client refuses bodies that do not fit what the spec says of queues that others declare. The type
    of its own queues is stored with them."""
    for name, queue in spec.queues.items():
        internals(hf).types.expect(name, message_form(queue.message_type) if queue.external else None)


def _hook(hf: Holdfast, spec: Spec, name: str, webhook: WebhookDeclaration, environ: Mapping[str, str]) -> Hook:
    return Hook(
        name=name,
        queue=webhook.queue,
        topic=webhook.topic,
        command=None if webhook.command is None else _command(hf, webhook.command),
        verifier=None if webhook.verify_hmac is None else _verifier(webhook.verify_hmac, environ),
        key=None if webhook.idempotency_key == "null" else _optional(webhook.idempotency_key),
        key_text=webhook.idempotency_key or "",
        key_is_signed=webhook.idempotency_key is not None and reads_only("payload", webhook.idempotency_key),
        accept_replays=webhook.idempotency_key == "null",
        order_key=_optional(webhook.key),
        priority=_optional(webhook.priority),
        wanted=_optional(webhook.filter),
        routing=_optional(webhook.routing),
        queues=_routes(spec, webhook),
        networks=networks(webhook.allow_ips),
        shapes={queue: enveloped(found) for queue, found in spec.queues.items() if found.message_type},
        max_size=webhook.max_size or MAX_SIZE,
        forms=webhook.forms,
        headers=frozenset(name.lower() for name in webhook.headers) or None,
    )


def _routes(spec: Spec, webhook: WebhookDeclaration) -> frozenset[str]:
    """The queues that a routing may choose; beside a topic it chooses none."""
    if webhook.routing is None or webhook.topic is not None:
        return frozenset()
    return frozenset(spec.queues.keys() - spec.dead_letter_queues)


def _verifier(wanted: VerifyHmac, environ: Mapping[str, str]) -> Verifier:
    secrets = secrets_of(wanted.variables, environ)
    return Verifier(wanted.header, secrets, scheme=wanted.scheme, window=wanted.tolerance)


def _optional(text: str | None) -> Expression | None:
    return None if text is None else function_of(text)


def _command(hf: Holdfast, call: CommandCall) -> Callable[[Envelope, str | None], Any]:
    inputs = inputs_of(call)
    return lambda envelope, key: hf.commands.run(call.name, inputs(envelope), idempotency_key=key)
