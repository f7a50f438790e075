"""Several steps that all happen, or are undone, for asyncio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from holdfast.awaiting import Awaiting
from holdfast.core.duration import Duration
from holdfast.core.saga import KEEP, SagaStatus, Step, Wait
from holdfast.sagas import Orchestrating


class AsyncOrchestrating(Awaiting):
    """The same as `Orchestrating`, awaited."""

    _hf: Orchestrating
    _within: Callable[[Any, Callable[..., Any]], Awaitable[Any]]

    async def saga(
        self,
        name: str,
        *,
        steps: Sequence[Step | Wait | Sequence[Step | Wait]],
        on_failure: str = "compensate",
        owner: str | None = None,
        keep: Duration | None = KEEP,
    ) -> int:
        """Declares a saga; its version. See `Holdfast.saga`."""
        return await self._run(self._hf.saga, name, steps=steps, on_failure=on_failure, owner=owner, keep=keep)

    async def start_saga(
        self,
        name: str,
        data: dict[str, Any] | None = None,
        *,
        id: str | None = None,
        delay: Duration = 0,
        conn: Any = None,
    ) -> str:
        """Starts a saga; its id. See `Holdfast.start_saga`."""
        call = partial(self._hf.start_saga, name, data, id=id, delay=delay)
        if conn is not None:
            return await self._within(conn, call)  # type: ignore[no-any-return]
        return await self._run(call)

    async def signal(self, saga_id: str, name: str, data: Any = None) -> bool:
        """Tells a saga that something happened. See `Holdfast.signal`."""
        return await self._run(self._hf.signal, saga_id, name, data)

    async def cancel_saga(self, saga_id: str, reason: str | None = None) -> bool:
        """Turns a saga round: what was completed is undone."""
        return await self._run(self._hf.cancel_saga, saga_id, reason)

    async def retry_saga(self, saga_id: str, step: str) -> bool:
        """Sends a failed step, or a failed undo, once more."""
        return await self._run(self._hf.retry_saga, saga_id, step)

    async def skip_saga_step(self, saga_id: str, step: str, reason: str) -> bool:
        """Goes on without a step, or without its undo. See `Holdfast.skip_saga_step`."""
        return await self._run(self._hf.skip_saga_step, saga_id, step, reason)

    async def mark_saga_step_done(self, saga_id: str, step: str, output: Any = None) -> bool:
        """Says that a step, or its undo, was done by hand."""
        return await self._run(self._hf.mark_saga_step_done, saga_id, step, output)

    async def sagas(
        self, status: str | None = None, *, name: str | None = None, n: int = 100, after: str | None = None
    ) -> list[SagaStatus]:
        """Sagas in the order they were started. See `Holdfast.sagas`."""
        return await self._run(self._hf.sagas, status, name=name, n=n, after=after)

    async def saga_status(self, saga_id: str) -> SagaStatus | None:
        """Where a saga is, step by step, and all that happened to it."""
        return await self._run(self._hf.saga_status, saga_id)

    async def advance_sagas(self) -> int:
        """Does what time has to do with sagas. See `Holdfast.advance_sagas`."""
        return await self._run(self._hf.advance_sagas)
