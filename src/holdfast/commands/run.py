"""One run of a command: its receipt, its transaction if it takes one, and what it wanted to follow.

A command that takes the connection writes in the transaction of its receipt: both are there, or none. Any other one has
its receipt written when it has returned; if it is killed before, it may be run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from holdfast.client.compose import EnqueueOptions
from holdfast.client.middleware import Outgoing, put_through
from holdfast.client.receipts import Receipt
from holdfast.commands.input import Declared
from holdfast.commands.rules import CommandKey, CommandReceipt
from holdfast.core.message import NewMessage, encode_json
from holdfast.errors import InvalidInput
from holdfast.store.api import Joined

if TYPE_CHECKING:
    from holdfast.client.parts import ClientParts


class Surroundings(Protocol):
    """What a context has for a run, be it of a message or of `hf.commands.run`."""

    idempotency_key: str | None
    joined: Joined | None
    following: Sequence[NewMessage]


class CommandRun:
    """The steps of a run that nothing was claimed for. `of` is None if nobody asked for a receipt."""

    def __init__(
        self,
        parts: ClientParts,
        command: Declared,
        arguments: dict[str, Any],
        context: Surroundings,
        of: CommandKey | None,
    ) -> None:
        self.parts = parts
        self.command = command
        self.context = context
        self.of = of
        self._arguments = arguments

    def call(self, conn: Any = None) -> Any:
        """Calls the function, or begins it if it has to be awaited."""
        return self.command.call(self._arguments, self.context, conn)

    def look(self) -> bytes | None:
        """What an earlier run gave back."""
        self.parts.catalog.open()
        return None if self.of is None else self._known(self.of, *self.parts.store.commands.find(self.of))

    def begin(self, joined: Joined) -> bytes | None:
        """The same from inside of the run's transaction; if there was none, there can be no other until that ends."""
        self.context.joined = joined
        return None if self.of is None else self._known(self.of, *joined.begin_command(self.of))

    def end(self, joined: Joined, raw: bytes) -> None:
        """All that has to happen together with what the function wrote."""
        if self.of is not None:
            joined.end_command(CommandReceipt(self.of, raw))
        self.settle(joined, raw)

    def keep(self, raw: bytes) -> None:
        """The function had no transaction and has returned."""
        if self.of is not None:
            self.parts.store.commands.keep(CommandReceipt(self.of, raw), self.context.following)
        elif self.context.following:
            self.parts.inserts.call(self.context.following)

    def settle(self, joined: Joined, raw: bytes) -> None:
        """What follows is stored."""
        if self.context.following:
            joined.insert(self.context.following)

    def settled(self) -> None:
        """The transaction is committed."""

    def _known(self, of: CommandKey, key: str, raw: bytes | None) -> bytes | None:
        self.of = CommandKey(of.tenant, of.command, key, of.window)
        self.context.idempotency_key = key
        return raw


def run(one: CommandRun) -> Any:
    """Runs a `def`, unless it was run before; what it gave back, as JSON."""
    return msgspec.json.decode(_in_transaction(one) if one.command.takes_conn else _alone(one))


def _alone(one: CommandRun) -> bytes:
    raw = one.look()
    if raw is None:
        raw = as_json(one, one.call())
        one.keep(raw)
    return raw


def _in_transaction(one: CommandRun) -> bytes:
    one.parts.catalog.open()
    with one.parts.store.lend() as conn:
        joined = one.parts.store.join(conn)
        known = one.begin(joined)
        if known is not None:
            return known
        raw = as_json(one, one.call(conn))
        one.end(joined, raw)
    one.settled()
    return raw


def as_json(one: CommandRun, result: Any) -> bytes:
    """A result in the form in which it is kept. One that has none is a mistake of the command's, not of its caller."""
    try:
        return encode_json(result, "result")
    except InvalidInput as problem:
        raise TypeError(f"what the command {one.command.name} returned is of no use: {problem}") from None


class DirectContext:
    """The context of a command that `hf.commands.run` runs: there is no message, and one attempt."""

    message = None
    queue = None
    attempt = 1
    max_attempts = 1
    cancelled = False

    def __init__(self, parts: ClientParts, idempotency_key: str | None) -> None:
        self.idempotency_key = idempotency_key
        self.joined: Joined | None = None
        self.following: Sequence[NewMessage] = ()
        self._parts = parts

    def enqueue(self, queue: str, body: Any, **options: Any) -> Receipt:
        """A message that arrives when the command has returned; if it raises, it never was."""
        new: list[NewMessage] = []
        around = self._parts.around_enqueue.plain
        [receipt] = put_through(around, partial(self._draft, new), Outgoing(queue, [body], **options))
        self.following = [*self.following, *new]
        return receipt

    def _draft(self, new: list[NewMessage], queue: str, bodies: list[Any], options: EnqueueOptions) -> list[Receipt]:
        drafted = self._parts.producer.drafted(queue, bodies, options, self.joined)
        new += drafted
        return [Receipt(message.id) for message in drafted]
