"""A client's settings, checked once and passed on; nothing is read from the environment behind a user's back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.core.duration import seconds
from holdfast.core.message import plain_text
from holdfast.core.queue import DELIVERIES, channel_name, one_of
from holdfast.core.redaction import without_password
from holdfast.errors import InvalidInput, shown
from holdfast.sqs.rules.names import PREFIX, sqs_prefix


class Settings(msgspec.Struct, frozen=True):
    """What `Holdfast(url, …)` was told.

    `patience` is how many seconds a call waits for a database that is locked, away or silent before it raises
    `Unavailable`.
    `sweep_every` is how often, in seconds, a client that claims looks for leases that ended in silence.
    `clock` replaces the database's clock in tests: a function that returns microseconds since 1970.
    `delivery` is how queues are delivered that say nothing of it: by the "database", or through "sqs". Then the SQS
    queue of each is called `sqs_prefix` and its own name; `sqs_create` creates those that are missing.
    `actor` is who stands in the audit when dead letters are replayed or deleted.
    """

    url: str
    tenant: str = "default"
    strict: bool = False
    worker: str | None = None
    migrate: bool = True
    patience: float = 60.0
    sweep_every: float = 1.0
    clock: Callable[[], int] | None = None
    actor: str | None = None
    delivery: str = "database"
    sqs_prefix: str = PREFIX
    sqs_create: bool = False

    def __post_init__(self) -> None:
        channel_name(self.tenant, "tenant")
        _named(self.worker, "worker")
        _named(self.actor, "actor")
        if _number(self.patience, "patience") == 0:
            raise InvalidInput("patience must be longer than 0 seconds")
        _number(self.sweep_every, "sweep_every")
        one_of(DELIVERIES)("delivery", self.delivery)
        sqs_prefix(self.sqs_prefix)
        if self.clock is not None and not callable(self.clock):
            raise InvalidInput("clock must be a function that returns microseconds since 1970")

    def __repr__(self) -> str:
        """Without a password: settings end up in logs."""
        return f"Settings(url={without_password(self.url)!r}, tenant={self.tenant!r}, worker={self.worker!r})"


def adjusted(settings: Settings) -> Settings:
    """Return the settings that a new client uses. Not public: Holdfast's own tests replace this function to run
    everything through SQS, with programs that know nothing of it."""
    return settings


def _named(value: str | None, what: str) -> None:
    if plain_text(value, what) == "":
        raise InvalidInput(f"{what} must not be empty; leave it out, and a name is made")


def _number(value: Any, what: str) -> float:
    """These are seconds only: they are compared with the computer's own clock as they are."""
    if isinstance(value, str):
        raise InvalidInput(f"{what} must be a number of seconds, not {shown(value)}")
    return seconds(value, what)
