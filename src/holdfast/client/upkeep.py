"""What has to be done now and then, by whichever client is there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holdfast.client.validate import SWEEP_LIMIT
from holdfast.notices.client import Notices
from holdfast.sagas.client import Sagas
from holdfast.schedules.client import Schedules

if TYPE_CHECKING:
    from holdfast.client.parts import ClientParts

LOOK_EVERY = 5
"""A client that claims looks after notices and sagas once in so many sweeps."""


class Upkeep:
    """The work that time brings: all of it on request, and some of it beside claims."""

    def __init__(self, parts: ClientParts) -> None:
        self._parts = parts
        self._notices, self._sagas, self._schedules = Notices(parts), Sagas(parts), Schedules(parts)
        self._looks_at = 0.0

    def maintain(self) -> int:
        """One bounded turn of everything; how much it found to do."""
        parts = self._parts
        store, tenant = parts.store, parts.settings.tenant
        parts.catalog.open()
        due = store.upkeep.due(parts.catalog.readers())
        swept = sum(store.messages.sweep(channel, SWEEP_LIMIT) for channel in due)
        forgotten = store.crew.forget(tenant, SWEEP_LIMIT)
        forgotten += store.replies.forget(tenant, SWEEP_LIMIT)
        forgotten += store.commands.forget(tenant, SWEEP_LIMIT)
        topics = parts.groups.watch() + parts.groups.retain() + parts.transport.reconcile(parts.catalog.readers())
        return swept + topics + self._notices.escalate() + self._schedules.fire() + self._sagas.advance() + forgotten

    def look_after_others(self) -> None:
        """Now and then: notices that nobody answers, timeouts and waits of sagas. There may be nobody else."""
        if self._is_time_to_look():
            self._notices.escalate()
            if self._parts.store.sagas.is_due(self._parts.settings.tenant):
                self._sagas.advance()

    def _is_time_to_look(self) -> bool:
        moment = time.monotonic()
        if moment < self._looks_at:
            return False
        self._looks_at = moment + LOOK_EVERY * self._parts.settings.sweep_every
        return True
