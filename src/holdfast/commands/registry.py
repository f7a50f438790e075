"""The commands that a client can run, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.commands.input import Declared
from holdfast.commands.rules import CommandKey, command_name, unknown
from holdfast.core.message import plain_text
from holdfast.errors import InvalidInput, UnknownCommand


class CommandRegistry:
    """Declared with `hf.command`."""

    def __init__(self) -> None:
        self.declared: dict[str, Declared] = {}

    def declare(self, name: str, function: Callable[..., Any]) -> None:
        """Makes a function the command of this name."""
        declared = Declared(name, function)
        if name in self.declared:
            raise InvalidInput(f"there is a command {name!r} already: give this one another name")
        self.declared[name] = declared

    def get(self, name: str) -> Declared:
        """Return the command of this name; raises `UnknownCommand` if there is none."""
        if command_name(name) not in self.declared:
            raise UnknownCommand(unknown(name, self.declared))
        return self.declared[name]

    def request(
        self, tenant: str, name: str, given: Mapping[str, Any], idempotency_key: str | None
    ) -> tuple[Declared, dict[str, Any], CommandKey | None]:
        """Everything about a run that can be refused."""
        declared = self.get(name)
        key = plain_text(idempotency_key, "idempotency_key")
        of = None if key is None else CommandKey(tenant, declared.name, key)
        return declared, declared.read(given), of
