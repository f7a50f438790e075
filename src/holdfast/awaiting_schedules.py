"""Messages that are sent by the clock, for asyncio."""

from __future__ import annotations

from typing import Unpack

from holdfast.awaiting import Awaiting
from holdfast.core.schedule import Schedule, ScheduleSettings
from holdfast.receipts import Receipt
from holdfast.schedules import Scheduling


class AsyncScheduling(Awaiting):
    """The same as `Scheduling`, awaited."""

    _hf: Scheduling

    async def schedule(
        self,
        name: str,
        **settings: Unpack[ScheduleSettings],
    ) -> None:
        """Declares a schedule, or changes one. See `Holdfast.schedule`."""
        await self._run(self._hf.schedule, name, **settings)

    async def unschedule(self, name: str) -> bool:
        """Ends a schedule; False if there was none."""
        return await self._run(self._hf.unschedule, name)

    async def schedules(self) -> list[Schedule]:
        """All schedules of this tenant, by name."""
        return await self._run(self._hf.schedules)

    async def pause_schedule(self, name: str) -> None:
        """Stops a schedule until `resume_schedule`."""
        await self._run(self._hf.pause_schedule, name)

    async def resume_schedule(self, name: str) -> None:
        """Lets a paused schedule go on with its first slot from now."""
        await self._run(self._hf.resume_schedule, name)

    async def run_schedule(self, name: str) -> Receipt:
        """Sends a schedule's message now, beside the plan."""
        return await self._run(self._hf.run_schedule, name)

    async def fire_schedules(self) -> int:
        """Sends what is due; how many messages. See `Holdfast.fire_schedules`."""
        return await self._run(self._hf.fire_schedules)
