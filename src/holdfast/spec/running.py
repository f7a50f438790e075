"""What a spec's expressions become when it runs: functions over the body of a message, or over a webhook's envelope."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.core import expressions
from holdfast.core.expressions import tree
from holdfast.core.message import Message
from holdfast.errors import InvalidInput, shown
from holdfast.spec.model import CommandCall, ForwardCall, QueueDeclaration

Function = Callable[[Mapping[str, Any]], Any]


def function_of(text: str) -> Function:
    """An expression of the model as a function; `InvalidInput` for what is none, which `check` would have said."""
    node, problems = expressions.parse_text(text)
    if node is None or problems:
        raise InvalidInput(f"{shown(text)} is no expression: {problems[0].message}")
    return expressions.compile(node)


def reads_only(name: str, text: str) -> bool:
    """Whether an expression of the model depends on nothing but this name."""
    node, _ = expressions.parse_text(text)
    if node is None:
        return False
    return all(found.name == name for found, _ in tree.walk(node) if isinstance(found, tree.Name))


def inputs_of(call: CommandCall | ForwardCall) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """What a command or the next queue is given, computed from a body or an envelope."""
    functions = {name: function_of(text) for name, text in call.input_map.items()}
    return lambda seen: {name: function(seen) for name, function in functions.items()}


def message_inputs(call: CommandCall | ForwardCall) -> Callable[[Message], dict[str, Any]]:
    """What `map_to` gives to its command for a message: computed from its JSON, whatever Python makes of it."""
    inputs = inputs_of(call)

    def compute(message: Message) -> dict[str, Any]:
        body = msgspec.json.decode(message.raw_body)
        return inputs(body if isinstance(body, dict) else {})

    return compute


def published_inputs(call: CommandCall | ForwardCall) -> Callable[[Message], dict[str, Any]]:
    """The same for a message of a group, whose body may be anything."""
    inputs = inputs_of(call)

    def compute(message: Message) -> dict[str, Any]:
        body = msgspec.json.decode(message.raw_body)
        return inputs({"body": body, "topic": message.topic, "key": message.key, "headers": message.headers})

    return compute


def enveloped(queue: QueueDeclaration) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """What a webhook puts into this queue: the fields of the envelope that its message type has, or all."""
    if not queue.message_type:
        return dict
    return lambda envelope: {name: value for name, value in envelope.items() if name in queue.message_type}
