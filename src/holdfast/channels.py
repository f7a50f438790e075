"""The client's book of queues: found once, remembered for a second, declared on first use unless strict."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from holdfast.core.queue import QueueSpec, channel_name
from holdfast.errors import InvalidInput, SchemaTooNew, StoreError, UnknownQueue
from holdfast.settings import Settings
from holdfast.store import forks
from holdfast.store.api import Channel, Joined, Store

Trial = Callable[[Channel], object]

FRESH = 1.0
"""Seconds for which a queue's settings are trusted; a change elsewhere is seen after that."""


class ChannelBook(forks.Guarded):
    """Channels by name. Opens (and migrates) the database on first use."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._known: dict[str, tuple[float, Channel]] = {}
        self._opened = False
        self._opening = threading.Lock()
        forks.guard(self)

    def after_fork_in_child(self) -> None:
        """Whoever was opening the database is doing it in the parent."""
        self._opening = threading.Lock()

    def open(self) -> None:
        """Makes sure that the database has the structure this code expects."""
        if self._opened:
            return
        with self._opening:
            if not self._opened:
                self._prepare()
                self._opened = True

    def knows(self, name: str) -> bool:
        """Whether `channel(name)` would answer without asking the database."""
        found = self._known.get(name) if isinstance(name, str) else None
        return found is not None and time.monotonic() < found[0]

    def declare(self, name: str, spec: QueueSpec) -> Channel:
        """Creates or changes a queue."""
        if spec.dead_letter == channel_name(name):
            raise InvalidInput(f"the queue {name!r} cannot be its own dead_letter queue: a death would never end")
        self.open()
        return self._remember(self._store.channels.declare(self._settings.tenant, name, spec))

    def channel(self, name: str, trial: Trial | None = None) -> Channel:
        """The queue of this name; one that was never declared comes to life with the defaults, unless strict.

        Before it does, what it is wanted for has its `trial`: what is refused leaves no queue behind.
        """
        found = self._known.get(name) if isinstance(name, str) else None
        if found is not None and time.monotonic() < found[0]:
            return found[1]
        channel_name(name)
        self.open()
        channel = self._store.channels.find(self._settings.tenant, name)
        if channel is not None:
            return self._remember(channel)
        self._try_out(name, trial)
        return self.declare(name, QueueSpec())

    def channels(self, names: Sequence[str]) -> list[Channel]:
        """The queues of these names; if one cannot be a name, none comes to life."""
        for name in names:
            if not self.knows(name):
                channel_name(name)
        return [self.channel(name) for name in names]

    def channel_within(self, joined: Joined, name: str, trial: Trial | None = None) -> Channel:
        """The same, seen from a caller's transaction: one that it brings to life is gone if it is rolled back."""
        if self.knows(channel_name(name)):
            return self._known[name][1]
        found = joined.find(self._settings.tenant, name)
        if found is None:
            self._try_out(name, trial)
        return found or joined.declare(self._settings.tenant, name, QueueSpec())

    def _try_out(self, name: str, trial: Trial | None) -> None:
        if self._settings.strict:
            raise _undeclared(name)
        if trial is not None:
            trial(Channel(0, 0, self._settings.tenant, name, QueueSpec()))

    def _remember(self, channel: Channel) -> Channel:
        self._known[channel.name] = (time.monotonic() + FRESH, channel)
        return channel

    def _prepare(self) -> None:
        schema = self._store.schema
        if self._settings.migrate:
            schema.migrate()
        elif schema.version() < schema.newest:
            raise StoreError(
                f"the database is at schema {schema.version()}, this Holdfast needs {schema.newest}: "
                "run `holdfast migrate`, or allow it with Holdfast(url, migrate=True)"
            )
        elif schema.version() > schema.newest:
            raise SchemaTooNew
        if schema.is_ahead():
            raise StoreError(
                "this database was restored from a dump of another server, and its messages carry transaction numbers "
                "that this server has not reached: stop everything that uses it and run `holdfast rebase --db URL` once"
            )


def _undeclared(name: str) -> UnknownQueue:
    return UnknownQueue(f"the queue {name!r} was never declared, and this client is strict: hf.queue({name!r})")
