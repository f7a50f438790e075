"""Commands: named functions with typed input, and the receipts that say that one has been run."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from holdfast.core.message import MessageId
from holdfast.core.queue import NAME_LIMIT
from holdfast.errors import InvalidInput, shown

WINDOW = 86_400_000_000
"""Microseconds for which a receipt is kept where no queue says otherwise: a day, as idempotency keys are."""

COMMANDS = "holdfast.commands."
"""What the names of queues begin with whose messages run a command: its name follows."""

_STEP = re.compile(r"[A-Z][A-Za-z0-9_]*\.[A-Z][A-Za-z0-9_]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_]*")


class CommandParameter(msgspec.Struct, frozen=True):
    """One input of a command: its `name`, the `type` that it was annotated with, and whether it has to be given."""

    name: str
    type: Any
    required: bool
    default: Any = None


class Command(msgspec.Struct, frozen=True):
    """A declared command, as `hf.commands.list()` describes it. `schema` is the JSON Schema of its input.

    `transactional` says that it takes the connection of its receipt: what it writes there happens once. `returns` is
    what it was annotated to give back.
    """

    name: str
    parameters: Sequence[CommandParameter]
    schema: dict[str, Any]
    transactional: bool = False
    doc: str = ""
    returns: Any = Any


class CommandKey(msgspec.Struct, frozen=True):
    """Under what a run's receipt is kept, and for how many microseconds.

    For a message, `key` is its id; if it was enqueued with an idempotency key, that is taken instead.
    """

    tenant: str
    command: str
    key: str
    window: int = WINDOW
    message_id: MessageId | None = None


class CommandReceipt(msgspec.Struct, frozen=True):
    """What a run gave back, as JSON, under the key that it is known by."""

    of: CommandKey
    result: bytes


def command_name(name: str) -> str:
    """Checks the name of a command: an entity and what is done to it."""
    if not isinstance(name, str) or len(name) > NAME_LIMIT or not _NAME.fullmatch(name):
        raise InvalidInput(
            f"a command's name must be an entity and a verb with a dot between, such as 'Incident.Create', in letters, "
            f"digits and underscores, not {shown(name)}"
        )
    return name


def command_queue(name: str) -> str:
    """The queue of which each message is a run of this command."""
    return COMMANDS + command_name(name)


def command_of(queue: str) -> str | None:
    """The command that the messages of a queue run; None if it is not a command's own."""
    name = queue.removeprefix(COMMANDS)
    return name if name != queue and _NAME.fullmatch(name) else None


def names_command(target: object) -> bool:
    """Whether what a step is sent to is written as commands are: an entity and a verb, each with a capital letter."""
    return isinstance(target, str) and _STEP.fullmatch(target) is not None


def unknown(name: str, known: Iterable[str]) -> str:
    """What to say of a name that no command has."""
    by_lower = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    if close:
        hint = f"did you mean {by_lower[close[0]]!r}?"
    elif by_lower:
        hint = f"declared are {', '.join(sorted(by_lower.values()))}"
    else:
        hint = "none is declared"
    return f"there is no command {shown(name)}: {hint}"
