"""An older form of a webhook in JSON, which names its command beside its queue:

    {"on_type": "Incident", "command": "CreateIncident", "queue": "alerts", "verify": {…}}

`on_type` is the entity of the command. With a queue, the command is the one that the queue runs for each message
(`map_to`), so it is written there; without one, the webhook runs it at once. `verify` is `verify_hmac`. Where nothing
says what the command is given, it is the payload of the request.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

_INPUTS = {"payload": "payload"}


class Remark(NamedTuple):
    """What is to be said about a webhook in the older form."""

    path: tuple[str, ...]
    message: str
    hint: str | None
    severity: Literal["error", "warning"]


def rewrite(plain: Any) -> tuple[Any, list[Remark]]:
    """The JSON of a spec with all webhooks in today's form, and what was read into those that were not.

    >>> rewrite({"app": "A", "webhooks": {"W": {"on_type": "Mail", "command": "Send"}}})[0]["webhooks"]["W"]
    {'command': {'entity_type': 'Mail', 'command': 'Send', 'input_map': {'payload': 'payload'}}}
    """
    webhooks = plain.get("webhooks") if isinstance(plain, dict) else None
    if not isinstance(webhooks, dict) or not any(_is_older(one) for one in webhooks.values()):
        return plain, []
    queues = plain.get("queues")
    spec = {**plain, "webhooks": dict(webhooks), "queues": dict(queues) if isinstance(queues, dict) else queues}
    if queues is None:
        del spec["queues"]
    remarks = [_rewrite_one(spec, name) for name, one in webhooks.items() if _is_older(one)]
    return spec, remarks


def _is_older(webhook: Any) -> bool:
    """Whether it has both names, as texts; anything else is for the usual checks to refuse."""
    return isinstance(webhook, dict) and all(isinstance(webhook.get(one), str) for one in ("on_type", "command"))


def _rewrite_one(spec: dict[str, Any], name: str) -> Remark:
    webhook = dict(spec["webhooks"][name])
    entity, command = webhook.pop("on_type"), webhook.pop("command")
    if "verify" in webhook and "verify_hmac" not in webhook:
        webhook["verify_hmac"] = webhook.pop("verify")
    spec["webhooks"][name] = webhook
    call = {"entity_type": entity, "command": command, "input_map": _INPUTS}
    target = webhook.get("queue")
    if target is None:
        webhook["command"] = call
        return _told(name, entity, command, "it is run at once and gets the payload")
    queue = (spec.get("queues") or {}).get(target) if isinstance(target, str) else None
    if not isinstance(queue, dict):  # The usual checks say so.
        return _told(name, entity, command, f"the queue {target!r} should run it")
    there = queue.get("map_to")
    if there is None:
        spec["queues"][target] = {**queue, "map_to": call}
        return _told(name, entity, command, f"the queue {target!r} runs it for each message, with the payload")
    if isinstance(there, dict) and (there.get("entity_type"), there.get("command")) == (entity, command):
        return _told(name, entity, command, f"the queue {target!r} runs it, with what its map_to says")
    return Remark(
        ("webhooks", name, "command"),
        f"the webhook names the command {entity}.{command}, but its queue {target!r} runs another one",
        "leave out on_type and command here: a queue runs what its map_to says",
        "error",
    )


def _told(name: str, entity: str, command: str, what: str) -> Remark:
    message = f"on_type and command are an older form of the command {entity}.{command}: {what}"
    hint = "holdfast check --json prints today's form"
    return Remark(("webhooks", name), message, hint, "warning")
