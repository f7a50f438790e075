"""What a command's function wants, read from its annotations, and the input that it gets."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, get_type_hints

import msgspec

from holdfast.commands.rules import Command, CommandParameter, command_name
from holdfast.core.message import encode_json
from holdfast.errors import InvalidInput, shown

CONTEXT, CONN = "context", "conn"
"""Parameters of these names are not input."""

Function = Callable[..., Any]


class Declared:
    """A function as `@hf.command` found it."""

    def __init__(self, name: str, function: Function) -> None:
        self.name = command_name(name)
        if not callable(function):
            raise InvalidInput(f"the command {name} must be a function, not {shown(function)}")
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        wanted = _wanted(name, function)
        self.takes_context = CONTEXT in wanted
        self.takes_conn = CONN in wanted
        self._parameters = _parameters(name, function, wanted)
        fields = self._struct()
        self._decoder, schema = _reader(name, fields)
        self.description = Command(
            self.name,
            self._parameters,
            schema,
            self.takes_conn,
            inspect.getdoc(function) or "",
            get_type_hints(function, include_extras=True).get("return", Any),
        )

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments that an input stands for; refuses what does not fit, and says where."""
        if not isinstance(given, Mapping):
            raise InvalidInput(f"the input of {self.name} must be a dict of its parameters, not {shown(given)}")
        raw = encode_json(dict(given), "input")
        try:
            found = self._decoder.decode(raw)
        except msgspec.ValidationError as problem:
            raise InvalidInput(f"the input does not fit {self.name}: {problem}") from None
        return {one.name: getattr(found, one.name) for one in self._parameters}

    def fit(self, names: Collection[str]) -> None:
        """Refuses an input with these names: one that the command does not have, or lacks."""
        known = [one.name for one in self._parameters]
        for name in names:
            if name not in known:
                raise InvalidInput(f"{self.name} has no parameter {name!r}; it takes {', '.join(known) or 'nothing'}")
        lacking = [one.name for one in self._parameters if one.required and one.name not in names]
        if lacking:
            raise InvalidInput(f"{self.name} needs {', '.join(lacking)}")

    def chosen(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The parts of this data that are called as its parameters are."""
        return {one.name: data[one.name] for one in self._parameters if one.name in data}

    def call(self, arguments: dict[str, Any], context: Any, conn: Any) -> Any:
        """Calls the function, or begins it if it has to be awaited."""
        own = {CONTEXT: context} if self.takes_context else {}
        if self.takes_conn:
            own[CONN] = conn
        return self.function(**arguments, **own)

    def _struct(self) -> type[msgspec.Struct]:
        fields = [
            (one.name, one.type) if one.required else (one.name, one.type, _as_given(one.default))
            for one in self._parameters
        ]
        return msgspec.defstruct(self.name.replace(".", "_"), fields, kw_only=True, forbid_unknown_fields=True)


def _as_given(default: Any) -> Any:
    """Python's own rule: the default itself, also where that can be changed."""
    return msgspec.field(default_factory=lambda: default)


def _wanted(name: str, function: Function) -> dict[str, inspect.Parameter]:
    try:
        wanted = dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        raise InvalidInput(f"the command {name} has parameters that Python cannot tell: wrap it in a def") from None
    for one in wanted.values():
        if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise InvalidInput(f"the command {name} has the parameter {one}, and its input is given by name: name each")
    return wanted


def _parameters(name: str, function: Function, wanted: dict[str, inspect.Parameter]) -> list[CommandParameter]:
    try:
        types = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as problem:
        raise InvalidInput(f"the annotations of the command {name} cannot be read: {problem}") from None
    return [
        CommandParameter(one.name, types.get(one.name, Any), True)
        if one.default is one.empty
        else CommandParameter(one.name, types.get(one.name, Any), False, one.default)
        for one in wanted.values()
        if one.name not in (CONTEXT, CONN)
    ]


def _reader(name: str, fields: type[msgspec.Struct]) -> tuple[msgspec.json.Decoder[Any], dict[str, Any]]:
    """What reads the input, and its description. The description refuses classes that nothing can be read as."""
    try:
        return msgspec.json.Decoder(fields), msgspec.json.schema(fields)
    except (TypeError, NameError) as problem:
        words = str(problem).splitlines()[-1]
        raise InvalidInput(f"the command {name} has a type that cannot be read from JSON: {words}") from None
