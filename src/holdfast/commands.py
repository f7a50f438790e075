"""Commands for users: named functions with typed input, run for a message or at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast import executing
from holdfast.command_input import Declared
from holdfast.core.command import Command, CommandKey, command_name, unknown
from holdfast.core.message import plain_text
from holdfast.errors import InvalidInput, UnknownCommand

if TYPE_CHECKING:
    from holdfast.client import Holdfast

Function = TypeVar("Function", bound=Callable[..., Any])


class Commanding:
    """The part of a client that knows commands."""

    def __init__(self) -> None:
        self._declared: dict[str, Declared] = {}

    def command(self, name: str) -> Callable[[Function], Function]:
        """Makes a function, `def` or `async def`, the command of this name: an entity and a verb.

        Its annotations say what its input has to be. A parameter called `context` gets what handlers get; one called
        `conn` gets a connection of the driver to this database, inside of the transaction of the receipt: what is
        written there happens once for each idempotency key, whatever crashes.

        >>> @hf.command("Incident.Create")
        ... def create_incident(title: str, severity: str = "high"):
        ...     return {"title": title, "severity": severity}
        >>> hf.run_command("Incident.Create", {"title": "disk full"})
        {'title': 'disk full', 'severity': 'high'}
        """

        def decorate(function: Function) -> Function:
            declared = Declared(name, function)
            if name in self._declared:
                raise InvalidInput(f"there is a command {name!r} already: give this one another name")
            self._declared[name] = declared
            return function

        return decorate

    def commands(self) -> list[Command]:
        """What this client can run, by name: each command with its parameters, their types, and which are required."""
        return [self._declared[name].description for name in sorted(self._declared)]

    def run_command(self, name: str, input: Mapping[str, Any], *, idempotency_key: str | None = None) -> Any:
        """Runs a command now; what it gave back, as JSON. Input that does not fit is refused before it begins.

        With an `idempotency_key` that this command was run under before, within a day, it is not run again, and what
        it gave back then is returned.
        """
        client = self._commander()
        declared, arguments, of = self._request(name, input, idempotency_key)
        if not declared.is_async:
            context = executing.DirectContext(client, idempotency_key)
            return executing.run(executing.Run(client, declared, arguments, context, of))
        import asyncio

        from holdfast import awaiting_runs

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            awaited = awaiting_runs.AsyncDirectContext(client, idempotency_key)
            return asyncio.run(awaiting_runs.run(executing.Run(client, declared, arguments, awaited, of)))
        raise InvalidInput(f"{name} is an async def, and this thread runs an event loop: use AsyncHoldfast there")

    def _request(
        self, name: str, given: Mapping[str, Any], idempotency_key: str | None
    ) -> tuple[Declared, dict[str, Any], CommandKey | None]:
        """Everything about a run that can be refused."""
        declared = self._command(name)
        key = plain_text(idempotency_key, "idempotency_key")
        of = None if key is None else CommandKey(self._commander().settings.tenant, declared.name, key)
        return declared, declared.read(given), of

    def _command(self, name: str) -> Declared:
        if command_name(name) not in self._declared:
            raise UnknownCommand(unknown(name, self._declared))
        return self._declared[name]

    def _commander(self) -> Holdfast:
        return self  # type: ignore[return-value]
