"""Schedules for users: messages that are sent by the clock."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from holdfast.client.compose import EnqueueOptions
from holdfast.client.namespace import Namespace
from holdfast.client.receipts import Receipt
from holdfast.core.queue import channel_name
from holdfast.schedules.rules import Schedule, ScheduleSettings, schedule_change
from holdfast.store.ids import new_id

if TYPE_CHECKING:
    from holdfast.client.parts import ClientParts

FIRE_LIMIT = 100
"""How many schedules one call fires."""


def declare_schedule(parts: ClientParts, name: str, settings: ScheduleSettings) -> None:
    """See `Holdfast.schedule`."""
    channel_name(name)
    change = schedule_change(settings)
    parts.catalog.open()
    before = parts.store.schedules.find(parts.settings.tenant, name)
    spec = change(before)
    options = EnqueueOptions(priority=spec.priority, key=spec.key, headers=spec.headers)
    trial = partial(parts.producer.draft, bodies=[msgspec.json.decode(spec.body)], options=options)
    trial(parts.catalog.channel(spec.queue, trial))
    if before is None or msgspec.json.encode(before) != msgspec.json.encode(spec):
        parts.store.schedules.declare(parts.settings.tenant, name, change)


class Schedules(Namespace):
    """`hf.schedules`: operates schedules."""

    def list(self) -> list[Schedule]:
        """All schedules of this tenant, by name: when each fires next and did last, and what keeps it from firing."""
        self._catalog.open()
        return self._store.schedules.all(self._tenant)

    def get(self, name: str) -> Schedule | None:
        """The schedule of this name, as `list` has it; None if there is none."""
        channel_name(name)
        return next((one for one in self.list() if one.name == name), None)

    def pause(self, name: str) -> None:
        """Stops a schedule until `resume`. Slots in between are not missed, they do not happen."""
        self._pause(name, True)

    def resume(self, name: str) -> None:
        """Lets a paused schedule go on with its first slot from now."""
        self._pause(name, False)

    def run(self, name: str) -> Receipt:
        """Sends a schedule's message now, beside the plan, paused or not."""
        channel_name(name)
        self._catalog.open()
        fresh = new_id()
        self._store.schedules.run(self._tenant, name, fresh)
        return Receipt(fresh)

    def remove(self, name: str) -> bool:
        """Ends a schedule; False if there was none. Messages that it has sent stay."""
        channel_name(name)
        self._catalog.open()
        return self._store.schedules.remove(self._tenant, name)

    def fire(self) -> int:
        """Sends what is due, of a hundred schedules at most; how many messages. Safe from any number of processes."""
        self._catalog.open()
        return self._store.schedules.fire(self._tenant, FIRE_LIMIT)

    def _pause(self, name: str, paused: bool) -> None:
        channel_name(name)
        self._catalog.open()
        self._store.schedules.pause(self._tenant, name, paused)
