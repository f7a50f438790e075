"""From what a user hands over to messages that a store can take; everything wrong with them is said here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import repeat
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.budgets.rules import BUDGET_HEADER
from holdfast.commitments.rules import HEADER as COMMITMENTS_HEADER
from holdfast.commitments.rules import read_commitments
from holdfast.core import priority as priorities
from holdfast.core.duration import Duration, micros
from holdfast.core.lifecycle import must_be_alone
from holdfast.core.message import DeliveryKey, NewMessage, Once, encode_json, plain_text
from holdfast.core.queue import amount, order_key
from holdfast.errors import InvalidInput, TooLarge, shown
from holdfast.store.api import Channel
from holdfast.store.ids import new_id

Key = str | Callable[[Any], str | None] | None
"""A text for all messages of a call, or a function that gives each body its own."""


class EnqueueOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What an enqueue or a publish was asked for besides the bodies, as the user gave it.

    `key` and `idempotency_key` may differ from message to message; the rest is the same for all of a call.
    """

    priority: int | str = priorities.NORMAL
    key: Key = None
    delay: Duration = 0
    headers: dict[str, Any] | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    ttl: Duration | None = None
    idempotency_key: Key = None
    budget: float | None = None
    commitments: Sequence[Any] | None = None

    @property
    def are_default(self) -> bool:
        """Whether messages have the form that they have by default; keys make no difference.

        A priority or delay of another type that only equals the default still has to be checked.
        """
        shared = self
        if self.key is not None or self.idempotency_key is not None:
            shared = replace(self, key=None, idempotency_key=None)
        return shared == DEFAULTS and type(self.priority) is int and type(self.delay) is int


DEFAULTS = EnqueueOptions()


class Form(msgspec.Struct, gc=False):
    """What the messages of a call have in common. A plain one goes to a lane: due at once, and no order or limit of its
    key to keep."""

    channel: Channel
    lane: int
    headers: bytes | None
    correlation_id: str | None
    reply_to: str | None
    topic: str | None
    ttl: int | None
    delay: int
    plain: bool
    alone: bool
    limited: bool
    by_key: bool
    ordering: str
    window: int

    def fill(self, bodies: Iterable[Any], key: Key, idempotency_key: Key) -> list[NewMessage]:
        """Messages with these bodies."""
        bodies = listed(bodies)
        raw = [encode_json(body) for body in bodies]
        room = self.channel.spec.max_size - (0 if self.headers is None else len(self.headers))
        for body in raw:
            if len(body) > room:
                raise _too_large(self.channel, max(map(len, raw)) + len(self.headers or b""))
        keys = repeat(None) if key is None else _keys(key, bodies)
        new = [
            NewMessage(
                new_id(),
                self.channel.group,
                self.lane,
                body,
                self.headers,
                own,
                self.correlation_id,
                self.reply_to,
                self.topic,
                self.ttl,
                self.plain and (own is None or not self.by_key),
                "" if self.ordering == "unordered" else order_key(self.ordering, own),
                self.delay,
                self.alone,
                None,
                self.limited,
            )
            for body, own in zip(raw, keys, strict=False)
        ]
        if idempotency_key is not None:
            _make_unique(self.window, new, bodies, idempotency_key)
        return new


def form(
    channel: Channel, options: EnqueueOptions = DEFAULTS, *, topic: str | None = None, for_groups: bool = False
) -> Form:
    """The form for messages of a channel with these options.

    What is published `for_groups` is plain, whatever they make of it. `topic` is the name that it is published under.
    """
    spec = channel.spec
    wait = micros(options.delay, "delay")
    life = None if options.ttl is None else _life(micros(options.ttl, "ttl"), wait)
    return Form(
        channel,
        priorities.lane(channel.id, priorities.priority(options.priority)),
        _complete(options),
        plain_text(options.correlation_id, "correlation_id"),
        plain_text(options.reply_to, "reply_to"),
        topic,
        life,
        wait,
        for_groups or (wait == 0 and life is None and spec.has_lanes and not spec.ordered),
        must_be_alone(spec, 0),
        spec.max_depth is not None,
        spec.limited_by_key,
        spec.ordering,
        micros(spec.idempotency_window),
    )


def draft(
    channel: Channel, bodies: Iterable[Any], options: EnqueueOptions, topic: str | None = None, for_groups: bool = False
) -> list[NewMessage]:
    """New messages for a channel. See `form`."""
    common = form(channel, options, topic=topic, for_groups=for_groups)
    return common.fill(bodies, options.key, options.idempotency_key)


def _keys(key: Key, bodies: Iterable[Any]) -> Iterable[str | None]:
    """One for each body, or the same for all."""
    if callable(key):
        return [plain_text(key(body), "key") for body in bodies]
    return repeat(plain_text(key, "key"))


def _too_large(channel: Channel, size: int) -> TooLarge:
    return TooLarge(
        f"a message of {size} bytes (body and headers as JSON) is more than the {channel.spec.max_size} that "
        f"{channel.name!r} allows: keep large things elsewhere and send where they are, or allow more with "
        f"hf.queue({channel.name!r}, max_size=…)"
    )


def listed(bodies: Iterable[Any]) -> list[Any]:
    """Bodies that can be gone through more than once."""
    if isinstance(bodies, list):
        return bodies
    if not isinstance(bodies, Iterable):
        raise InvalidInput(f"bodies must be a list, or something else to go through, not {shown(bodies)}")
    return list(bodies)


def _make_unique(window: int, new: list[NewMessage], bodies: Iterable[Any], key: Key) -> None:
    """Gives each message its idempotency key."""
    if isinstance(key, DeliveryKey):  # It was looked at before.
        new[0].once = Once(str.__str__(key), key.digest, window, key.alias)
        return
    for message, body in zip(new, bodies, strict=True):
        own = plain_text(key(body) if callable(key) else key, "idempotency_key")
        if own is not None:
            message.once = Once(str.__str__(own), blake2b(message.body, digest_size=16).digest(), window)


def _life(life: int, wait: int) -> int:
    if life <= wait:
        raise InvalidInput("ttl must be longer than the delay, or nobody could ever claim the message")
    return life


def _complete(options: EnqueueOptions) -> bytes | None:
    """The headers, with the budget and the commitments, which are stored among them."""
    if options.headers is None and options.budget is None and options.commitments is None:
        return None
    complete = dict(checked_headers({} if options.headers is None else options.headers))
    if options.budget is not None:
        complete[BUDGET_HEADER] = amount("budget", options.budget)
    if options.commitments is not None:
        complete[COMMITMENTS_HEADER] = list(read_commitments(options.commitments))
    return encode_json(complete, "headers")


def checked_headers(headers: dict[str, Any]) -> dict[str, Any]:
    """Headers that have the form of headers; what they hold is seen when they are encoded."""
    if not isinstance(headers, dict) or not all(isinstance(name, str) for name in headers):
        raise InvalidInput(f"headers must be a dict with text as keys, not {shown(headers)}")
    if BUDGET_HEADER in headers:
        amount(BUDGET_HEADER, headers[BUDGET_HEADER])
    return headers
