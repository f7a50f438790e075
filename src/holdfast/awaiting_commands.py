"""Commands for asyncio: an `async def` runs on the loop that awaits it, a `def` in a thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast import awaiting_runs, executing
from holdfast.core.command import Command
from holdfast.threads import SLEEPERS, Threads

if TYPE_CHECKING:
    from holdfast.client import Holdfast

Function = TypeVar("Function", bound=Callable[..., Any])


class AsyncCommanding:
    """The part of a client that knows commands. See `Commanding`."""

    _hf: Holdfast
    _threads: Threads

    def command(self, name: str) -> Callable[[Function], Function]:
        """Makes a function the command of this name. See `Holdfast.command`."""
        return self._hf.command(name)

    def commands(self) -> list[Command]:
        """What this client can run, by name."""
        return self._hf.commands()

    async def run_command(self, name: str, input: Mapping[str, Any], *, idempotency_key: str | None = None) -> Any:
        """Runs a command now; what it gave back, as JSON. See `Holdfast.run_command`."""
        declared, arguments, of = self._hf._request(name, input, idempotency_key)
        if declared.is_async:
            context = awaiting_runs.AsyncDirectContext(self._hf, idempotency_key)
            return await awaiting_runs.run(executing.Run(self._hf, declared, arguments, context, of))
        call = partial(self._hf.run_command, name, input, idempotency_key=idempotency_key)
        return await self._threads.finish(call, lambda: None, SLEEPERS)
