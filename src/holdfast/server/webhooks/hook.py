"""What a webhook is at run time: where deliveries go, and the functions that decide about each."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec

from holdfast.core.queue import channel_name
from holdfast.errors import InvalidInput, shown
from holdfast.server.webhooks.signatures import Verifier
from holdfast.topics.rules.routing import belongs

Envelope = dict[str, Any]
"""`payload`, `headers`, `source_ip` and `received_at`: what is enqueued, and what expressions see."""

Expression = Callable[[Mapping[str, Any]], Any]
"""Computes something from an envelope. It is total: what it cannot compute is null."""

HOOK_FOLDER = "/hook/"
HOOK_PATH = HOOK_FOLDER + "{name}"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_SIZE = 1_048_576
"""Bytes of a body, unless a hook says otherwise."""


class TypeFault(msgspec.Struct, frozen=True):
    """What does not fit the message type: where, and why."""

    path: str
    message: str


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook. It has a `queue`, to which deliveries go, a `topic`, all of whose groups get them, or a `command` that
    is run at once.

    - `verifier` checks signatures; without one everybody may deliver.
    - `key` computes the idempotency key; a delivery for which it is null is rejected, naming `key_text`. Without `key`,
      the sender's delivery id or the header `Idempotency-Key` is used, if there is one. `key_is_signed` says that
      `key` reads nothing but the payload. An unsigned key only adds to the digest of the signed content: changing a
      header cannot turn a replay into a new delivery.
    - `accept_replays` turns all that off: each delivery is a new message.
    - `order_key` and `priority` compute the key and the priority of the message; null is none, and normal.
    - `wanted` says whether a delivery is of interest; what is not is accepted and forgotten.
    - `routing` chooses one of `queues`; if it names none of them, `queue` is taken. With a `topic` it chooses the name
      to publish under, below the topic; if it gives none, that is the topic itself.
    - `networks` may deliver, if there are any.
    - `check` finds what does not fit the message type. `shapes` say, by queue, what of the envelope is stored.
    - `max_size` is how many bytes a body may have. With `forms`, an HTML form is accepted besides JSON.
    - `headers` are the names of those that are stored; None: all but secrets.
    """

    name: str
    queue: str | None = None
    topic: str | None = None
    command: Callable[[Envelope, str | None], Any | Awaitable[Any]] | None = None
    verifier: Verifier | None = None
    key: Expression | None = None
    key_text: str = "the key of this webhook"
    key_is_signed: bool = False
    accept_replays: bool = False
    order_key: Expression | None = None
    priority: Expression | None = None
    wanted: Expression | None = None
    routing: Expression | None = None
    queues: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()
    check: Callable[[Envelope], TypeFault | None] | None = None
    shapes: Mapping[str, Callable[[Envelope], Envelope]] = {}
    max_size: int = MAX_SIZE
    forms: bool = False
    headers: frozenset[str] | None = None

    def __post_init__(self) -> None:
        channel_name(self.name, "the name of a webhook")
        queued = self.queue is not None or bool(self.queues)
        aims = {"a queue": queued, "a topic": self.topic is not None, "a command": self.command is not None}
        has = [aim for aim, given in aims.items() if given]
        if not has:
            raise InvalidInput(f"the webhook {self.name!r} leads nowhere: give it a queue, a topic or a command")
        if len(has) > 1:
            raise InvalidInput(f"the webhook {self.name!r} has {' and '.join(has)}: it can have one of them")
        if self.max_size < 1:
            raise InvalidInput(f"max_size of the webhook {self.name!r} must be at least 1 byte")

    def admits(self, address: str) -> bool:
        """Whether a sender with this address may deliver."""
        if not self.networks:
            return True
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        return any(found in network for network in self.networks)

    def options_of(self, envelope: Envelope) -> dict[str, Any]:
        """Key and priority of the message."""
        options: dict[str, Any] = {}
        if self.order_key is not None:
            options["key"] = key_of(self.order_key(envelope))
        if self.priority is not None and (found := self.priority(envelope)) is not None:
            options["priority"] = found
        return options

    def queue_of(self, envelope: Envelope) -> str | None:
        """Where a delivery goes: to one of `queues` if the routing names it, and otherwise to `queue`."""
        chosen = self.routing(envelope) if self.routing is not None else None
        return chosen if isinstance(chosen, str) and chosen in self.queues else self.queue

    def subject_of(self, envelope: Envelope) -> str:
        """The name to publish under: what the routing gives, if that belongs to the topic, and otherwise the topic."""
        assert self.topic is not None, "asked of webhooks with a topic"
        chosen = self.routing(envelope) if self.routing is not None else None
        return chosen if isinstance(chosen, str) and belongs(chosen, self.topic) else self.topic


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Networks as they are written: "10.0.0.0/8", "2001:db8::/32", or a single address."""
    found = []
    for text in texts:
        try:
            found.append(ipaddress.ip_network(text))
        except ValueError as problem:
            raise InvalidInput(f"{shown(text)} is not a network ({problem}); write one such as 10.0.0.0/8") from None
    return tuple(found)


def type_check(message_type: Any) -> Callable[[Envelope], TypeFault | None]:
    """A check against a type that msgspec knows."""

    def check(envelope: Envelope) -> TypeFault | None:
        try:
            msgspec.convert(envelope, message_type)
        except msgspec.ValidationError as problem:
            return fault_of(str(problem))
        return None

    return check


def fault_of(text: str) -> TypeFault:
    """Apart again: "Expected `int`, got `str` - at `$.payload.n`"."""
    message, _, path = text.partition(" - at `")
    return TypeFault(path.rstrip("`") or "$", message)


def key_of(value: Any) -> str | None:
    """Text for whatever an expression gives; null is no key."""
    if value is None:
        return None
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if not text:
        raise InvalidInput("the key is empty: all deliveries without one would count as the same")
    return text
