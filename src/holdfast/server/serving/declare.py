"""The consumers and pools of a spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.client.client import Holdfast, internals
from holdfast.commands.rules import command_of
from holdfast.core.message import Message
from holdfast.errors import ExpressionTooCostly, InvalidInput
from holdfast.server.serving.loading import function_at
from holdfast.spec import declarations
from holdfast.spec.model import CommandCall, ConsumerDeclaration, ForwardCall, Spec
from holdfast.spec.running import message_inputs, published_inputs
from holdfast.worker.command_handler import (
    AsyncCommandHandler,
    InputOf,
    consumer_name,
    dispatching,
    handler_for,
    step_commands,
    step_input,
)
from holdfast.worker.consumer import Handler
from holdfast.worker.context import Context
from holdfast.worker.outcomes import DeadLetter
from holdfast.worker.programs.exec_handler import exec_handler

Commanded = tuple[CommandCall | ForwardCall, InputOf]
"""A command or the next queue, and what computes its input from a message."""


def has_staff(hf: Holdfast, spec: Spec) -> bool:
    """Whether there is anything to run beside the server: also for sagas that this spec does not have any more."""
    commanded = any(saga.calls for saga in spec.sagas.values()) or _commanded(spec)
    return bool(
        internals(hf).consumers.by_name or spec.consumers or commanded or any(one.queues() for one in step_commands(hf))
    )


def declare_staff(hf: Holdfast, spec: Spec) -> None:
    """Declares what the spec says on top of what the module has declared: a queue or group with a command that no
    consumer of the spec mentions gets one of its own, named after it."""
    commanded = _commanded(spec)
    for name, consumer in spec.consumers.items():
        handler = _handler(hf, name, consumer, commanded)
        hf.consumer(*consumer.queues, **declarations.consumer_options(name, consumer))(handler)
    mentioned = {queue for consumer in spec.consumers.values() for queue in consumer.queues}
    for queue in commanded:
        if queue not in mentioned:
            hf.consumer(queue, name=consumer_name(queue))(_command(hf, queue, commanded))
    for name, pool in spec.pools.items():
        hf.pool(pool.consumer or name, **declarations.pool_options(name, pool))


def _commanded(spec: Spec) -> dict[str, Commanded]:
    """What `map_to` of queues, and of groups by their addresses, does with a message."""
    queues = {name: queue.map_to or queue.map_to_queue for name, queue in spec.queues.items()}
    groups: dict[str, CommandCall | ForwardCall] = {**spec.group_calls, **spec.group_onwards}
    return {name: (aim, input_of(message_inputs(aim))) for name, aim in queues.items() if aim is not None} | {
        address: (aim, input_of(published_inputs(aim))) for address, aim in groups.items()
    }


def sending_on(queue: str, inputs: InputOf) -> Handler:
    """A handler that makes a message of this queue of each message, in the transaction of its ack. What does not fit
    the queue never will: the message is dead at once."""

    def send_on(message: Message, context: Context) -> None:
        try:
            context.enqueue(
                queue,
                inputs(message),
                priority=message.priority,
                key=message.key,
                correlation_id=message.correlation_id,
            )
        except InvalidInput as problem:
            raise DeadLetter(str(problem)) from problem

    return send_on


def input_of(inputs: InputOf) -> InputOf:
    """What computes the input of a command from a message. What is too costly once always is."""

    def read(message: Message) -> Mapping[str, Any]:
        try:
            return inputs(message)
        except ExpressionTooCostly as problem:
            raise InvalidInput(str(problem)) from problem

    return read


def _handler(
    hf: Holdfast, name: str, consumer: ConsumerDeclaration, commanded: Mapping[str, Commanded]
) -> Callable[..., Any]:
    if consumer.exec is not None:
        return exec_handler(consumer.exec, preflight=consumer.preflight)
    if consumer.handler is not None:
        return function_at(consumer.handler)
    handlers = {queue: _command(hf, queue, commanded) for queue in consumer.queues}
    kinds = {isinstance(handler, AsyncCommandHandler) for handler in handlers.values()}
    if len(kinds) > 1:
        raise InvalidInput(f"the consumer {name!r} has commands that are `def` and some that are `async def`: take two")
    if len(handlers) == 1:
        return next(iter(handlers.values()))
    return dispatching(handlers, kinds == {True})


def _command(hf: Holdfast, queue: str, commanded: Mapping[str, Commanded]) -> Handler:
    """What runs for the messages of a queue: what the spec says, or the command whose own it is."""
    own = command_of(queue)
    if own is not None and queue not in commanded:
        return handler_for(hf, own, step_input(internals(hf).commands.get(own)))
    aim, inputs = commanded[queue]
    return sending_on(aim.queue, inputs) if isinstance(aim, ForwardCall) else handler_for(hf, aim.name, inputs)
