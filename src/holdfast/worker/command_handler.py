"""Commands for the messages of a queue: what `map_to` of a spec declares, and what a step of a saga may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from holdfast.client import settlements as settling
from holdfast.client.client import internals
from holdfast.commands import async_run
from holdfast.commands import run as command_run
from holdfast.commands.input import Declared
from holdfast.commands.rules import COMMANDS, CommandKey, CommandReceipt, command_queue
from holdfast.core.lifecycle import LifecycleEvent
from holdfast.core.message import Message
from holdfast.core.queue import NAME_LIMIT
from holdfast.errors import InvalidInput
from holdfast.sagas.rules.step_messages import WHOLE_HEADER
from holdfast.store.api import Joined
from holdfast.topics.rules.declaration import GroupSpec
from holdfast.worker.call import before
from holdfast.worker.consumer import Consumer, ConsumerOptions, Handler
from holdfast.worker.context import Context
from holdfast.worker.outcomes import DeadLetter

if TYPE_CHECKING:
    from holdfast.client.client import Holdfast

HANDS = 4
"""Commands of steps that run at once in a process, of each kind."""

InputOf = Callable[[Message], Mapping[str, Any]]


def consume(hf: Holdfast, queue: str, command: str, input_of: InputOf, **options: Unpack[ConsumerOptions]) -> Consumer:
    """A consumer of this queue that runs a command for each message. Raises `UnknownCommand` if there is none."""
    options.setdefault("name", f"{consumer_name(queue)}:{command}")
    return hf.consumer(queue, **options)(handler_for(hf, command, input_of))


def consumer_name(queue: str) -> str:
    """A name for the consumer of a queue or group: addresses have a slash, which names may not have.

    >>> consumer_name("mails"), consumer_name("orders/email")
    ('mails', 'orders:email')
    """
    return queue.replace("/", ":")[:NAME_LIMIT]


def handler_for(hf: Holdfast, command: str, input_of: InputOf) -> CommandHandler:
    """A handler that runs a command. Raises `UnknownCommand` if there is none."""
    declared = internals(hf).commands.get(command)
    kind = AsyncCommandHandler if declared.is_async else CommandHandler
    return kind(hf, declared, input_of)


def step_consumers(hf: Holdfast) -> list[Consumer]:
    """What runs the commands of this client for steps of sagas, whoever declares them."""
    own = COMMANDS.rstrip(".")
    return [
        Consumer(
            hf,
            one.handler,
            (),
            name=f"{own}.async" if one.is_async else own,
            concurrency=HANDS,
            find_queues=one.queues,
        )
        for one in step_commands(hf)
    ]


def step_commands(hf: Holdfast) -> list[StepCommands]:
    """The commands of a client, `def` and `async def` apart; none where there is none."""
    return [one for one in (StepCommands(hf, False), StepCommands(hf, True)) if one.names]


class StepCommands:
    """Those of one kind. Each has a queue of its own, which is there from the first saga on that uses it."""

    def __init__(self, hf: Holdfast, is_async: bool) -> None:
        self._hf = hf
        self.is_async = is_async
        declared = internals(hf).commands.declared
        self.names = [name for name, one in declared.items() if one.is_async == is_async]
        handlers = {command_queue(name): handler_for(hf, name, step_input(declared[name])) for name in self.names}
        self.handler = dispatching(handlers, is_async)

    def queues(self) -> list[str]:
        """The queues that there are, but for those that have a consumer of their own."""
        taken = {queue for consumer in internals(self._hf).consumers.by_name.values() for queue in consumer.queues}
        wanted = {command_queue(name) for name in self.names} - taken
        return [queue for queue in self._hf.queues.list() if queue in wanted] if wanted else []


def step_input(command: Declared) -> InputOf:
    """What the message of a step gives to its command: its body, or of all of a saga's data what is named alike."""

    def read(message: Message) -> Mapping[str, Any]:
        body = msgspec.json.decode(message.raw_body)
        return command.chosen(body) if WHOLE_HEADER in message.headers else body

    return read


def dispatching(handlers: Mapping[str, Handler], is_async: bool) -> Handler:
    """One handler for several queues, all of one kind."""
    if is_async:

        async def run_async(message: Message, context: Context) -> Any:
            return await handlers[context.queue](message, context)

        return run_async

    def run(message: Message, context: Context) -> Any:
        return handlers[context.queue](message, context)

    return run


class CommandHandler:
    """Runs a `def` for a message. Input that does not fit can never fit: the message is dead at once."""

    def __init__(self, hf: Holdfast, command: Declared, input_of: InputOf) -> None:
        self.__doc__ = command.function.__doc__
        self._hf = hf
        self._command = command
        self._input_of = input_of

    def __call__(self, message: Message, context: Context) -> Any:
        return command_run.run(self._run(message, context))

    def _run(self, message: Message, context: Context) -> MessageRun:
        try:
            arguments = self._command.read(self._input_of(message))
        except InvalidInput as problem:
            raise DeadLetter(str(problem)) from problem
        return MessageRun(internals(self._hf), self._command, arguments, context, self._key(message, context))

    def _key(self, message: Message, context: Context) -> CommandKey:
        window = round(context.claim.channel.spec.idempotency_window * 1_000_000)
        of, step = (self._hf.settings.tenant, self._command.name), context.step_key
        if step:  # One that is sent again is another message; its key is the same.
            return CommandKey(*of, step, window)
        if isinstance(context.claim.channel.spec, GroupSpec):  # Each group gets it, so each group runs it.
            return CommandKey(*of, f"{context.queue}:{message.id}", window)
        return CommandKey(*of, message.id, window, message.raw_id)


class AsyncCommandHandler(CommandHandler):
    """The same for an `async def`."""

    async def __call__(self, message: Message, context: Context) -> Any:
        return await async_run.run(self._run(message, context))


class MessageRun(command_run.CommandRun):
    """A run for a claim, which ends in the transaction of the receipt, or takes the receipt along when it ends."""

    context: Context

    def settle(self, joined: Joined, raw: bytes) -> None:
        """The ack happens with what the command wrote, unless something has to be checked first."""
        if self._has_promises():
            super().settle(joined, raw)
            return
        settlements = settling.acked([self.context.claim])
        settlements[0].result = None if raw == b"null" else raw
        settlements[0].followed_by = self.context.following
        if not joined.settle(settlements)[0]:
            settling.refuse([self.context.claim])

    def settled(self) -> None:
        """The ack that follows finds that it was done; if it is a real one, that there is a receipt."""
        self.context.following = ()
        if self._has_promises():
            self.context.repeated = True  # Another try may have acked on this receipt: there is one effect, not two.
        else:
            self.context.claim.ended = LifecycleEvent.ACKED

    def keep(self, raw: bytes) -> None:
        """With the ack, and with what follows."""
        assert self.of is not None, "a message is always known by its id"
        self.context.receipt = CommandReceipt(self.of, raw)

    def _known(self, of: CommandKey, key: str, raw: bytes | None) -> bytes | None:
        self.context.repeated = raw is not None
        return super()._known(of, key, raw)

    def _has_promises(self) -> bool:
        return bool(before(self.context.consumer, self.context))
