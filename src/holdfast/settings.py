"""A client's settings, checked once and passed on; nothing is read from the environment behind a user's back."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holdfast.core.message import plain_text
from holdfast.core.queue import channel_name
from holdfast.errors import InvalidInput


class Settings(msgspec.Struct, frozen=True):
    """What `Holdfast(url, …)` was told.

    `patience` is how many seconds a call waits for a database that is locked or away before it raises `Unavailable`.
    `sweep_every` is how often, in seconds, a client that claims looks for leases that ended in silence.
    `clock` replaces the database's clock in tests: a function that returns microseconds since 1970.
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

    def __post_init__(self) -> None:
        channel_name(self.tenant)
        plain_text(self.worker, "worker")
        plain_text(self.actor, "actor")
        if not self.patience > 0:
            raise InvalidInput("patience must be longer than 0 seconds")
