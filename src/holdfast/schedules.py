"""Messages that are sent by the clock, for users. (`awaiting_schedules` has it for asyncio.)"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Unpack

import msgspec

from holdfast.channels import ChannelBook
from holdfast.core.message import NewMessage
from holdfast.core.queue import channel_name
from holdfast.core.schedule import Schedule, ScheduleSettings, schedule_change
from holdfast.drafting import EnqueueOptions
from holdfast.receipts import Receipt
from holdfast.settings import Settings
from holdfast.store.api import Store
from holdfast.store.ids import new_id

FIRE_LIMIT = 100
"""How many schedules one call fires."""


class Scheduling:
    """The part of a client that sends messages by the clock."""

    settings: Settings
    store: Store
    _book: ChannelBook
    _draft: Callable[..., list[NewMessage]]

    def schedule(
        self,
        name: str,
        **settings: Unpack[ScheduleSettings],
    ) -> None:
        """Declares a schedule, or changes one: `body` goes to `queue` whenever `cron` says so, or once per `every`.

        A new one needs `queue`, and `cron` or `every`. Of one that is there, settings that are not given are kept, and
        `DEFAULT` resets one; `cron` replaces `every`, and `every` replaces `cron`.

        `cron` has five fields, six with seconds in front, or is "@daily" and the like; it is read in the time zone
        `tz`. `every` is counted from the first declaration. However many processes declare and fire it, each slot is
        sent once. Declaring it again as it was changes nothing, so every start of a program may do it.
        `missed` is what happens to slots that nobody could fire in time: "once" sends one message for all of them,
        "all" sends each, "skip" none that is older than a minute.
        """
        channel_name(name)
        change = schedule_change(settings)
        self._book.open()
        before = self.store.schedules.find(self.settings.tenant, name)
        spec = change(before)
        options = EnqueueOptions(priority=spec.priority, key=spec.key, headers=spec.headers)
        trial = partial(self._draft, bodies=[msgspec.json.decode(spec.body)], options=options)
        trial(self._book.channel(spec.queue, trial))
        if before is None or msgspec.json.encode(before) != msgspec.json.encode(spec):
            self.store.schedules.declare(self.settings.tenant, name, change)

    def unschedule(self, name: str) -> bool:
        """Ends a schedule; False if there was none. Messages that it has sent stay."""
        channel_name(name)
        self._book.open()
        return self.store.schedules.remove(self.settings.tenant, name)

    def schedules(self) -> list[Schedule]:
        """All schedules of this tenant, by name: when each fires next and did last, and what keeps it from firing."""
        self._book.open()
        return self.store.schedules.all(self.settings.tenant)

    def pause_schedule(self, name: str) -> None:
        """Stops a schedule until `resume_schedule`. Slots in between are not missed, they do not happen."""
        channel_name(name)
        self._book.open()
        self.store.schedules.pause(self.settings.tenant, name, True)

    def resume_schedule(self, name: str) -> None:
        """Lets a paused schedule go on with its first slot from now."""
        channel_name(name)
        self._book.open()
        self.store.schedules.pause(self.settings.tenant, name, False)

    def run_schedule(self, name: str) -> Receipt:
        """Sends a schedule's message now, beside the plan, paused or not."""
        channel_name(name)
        self._book.open()
        fresh = new_id()
        self.store.schedules.run(self.settings.tenant, name, fresh)
        return Receipt(fresh)

    def fire_schedules(self) -> int:
        """Sends what is due, of a hundred schedules at most; how many messages. Safe from any number of processes."""
        self._book.open()
        return self.store.schedules.fire(self.settings.tenant, FIRE_LIMIT)
