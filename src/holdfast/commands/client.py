"""Commands for users: named functions with typed input, run for a message or at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.client.namespace import Namespace
from holdfast.commands import run as command_run
from holdfast.commands.rules import Command
from holdfast.errors import InvalidInput


class Commands(Namespace):
    """`hf.commands`: lists and runs the commands of this client."""

    def list(self) -> list[Command]:
        """What this client can run, by name: each command with its parameters, their types, and which are required."""
        declared = self._parts.commands.declared
        return [declared[name].description for name in sorted(declared)]

    def run(self, name: str, input: Mapping[str, Any], *, idempotency_key: str | None = None) -> Any:
        """Runs a command now; what it gave back, as JSON. Input that does not fit is refused before it begins.

        With an `idempotency_key` that this command was run under before, within a day, it is not run again, and what
        it gave back then is returned.

        >>> @hf.command("Disk.Check")
        ... def check_disk(path: str):
        ...     return {"path": path, "full": False}
        >>> hf.commands.run("Disk.Check", {"path": "/"})
        {'path': '/', 'full': False}
        """
        parts = self._parts
        declared, arguments, of = parts.commands.request(self._tenant, name, input, idempotency_key)
        if not declared.is_async:
            context = command_run.DirectContext(parts, idempotency_key)
            return command_run.run(command_run.CommandRun(parts, declared, arguments, context, of))
        import asyncio

        from holdfast.commands import async_run

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            awaited = async_run.AsyncDirectContext(parts, idempotency_key)
            return asyncio.run(async_run.run(command_run.CommandRun(parts, declared, arguments, awaited, of)))
        raise InvalidInput(f"{name} is an async def, and this thread runs an event loop: use AsyncHoldfast there")
