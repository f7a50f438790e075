"""Python's types as expressions have them: what a command wants, for those who check what it is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec
from msgspec import inspect

from holdfast.core.expressions import types
from holdfast.core.expressions.types import EnumOf, ListOf, MapOf, ObjectOf, Type


class Parameter(Protocol):
    """One input of a command."""

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> Any: ...

    @property
    def required(self) -> bool: ...


class CommandLike(Protocol):
    """A declared command, as `hf.commands.list()` has it."""

    @property
    def name(self) -> str: ...

    @property
    def parameters(self) -> Iterable[Parameter]: ...

    @property
    def returns(self) -> Any: ...


class CommandSignature(msgspec.Struct, frozen=True):
    """What a command takes: the type of each input, and which of them it cannot do without; and what it gives back."""

    inputs: dict[str, Type]
    required: frozenset[str]
    returns: Type = types.JSON


def wanted_by(commands: Iterable[CommandLike]) -> Mapping[str, CommandSignature]:
    """What commands take, by name."""
    return {
        command.name: CommandSignature(
            {parameter.name: type_of(parameter.type) for parameter in command.parameters},
            frozenset(parameter.name for parameter in command.parameters if parameter.required),
            type_of(command.returns),
        )
        for command in commands
    }


def type_of(annotation: Any) -> Type:
    """The type that fits an annotation; what expressions cannot know is `json`, which fits everything."""
    try:
        return _type(inspect.type_info(annotation), 0)
    except (TypeError, NameError):
        return types.JSON


def _type(info: inspect.Type, depth: int) -> Type:
    if depth > 20:
        return types.JSON
    if isinstance(info, inspect.Metadata):
        return _type(info.type, depth)
    if isinstance(info, inspect.UnionType):
        kinds = [one for one in info.types if not isinstance(one, inspect.NoneType)]
        found = _type(kinds[0], depth) if len(kinds) == 1 else types.JSON
        return types.optional(found) if info.includes_none else found
    if isinstance(info, inspect.LiteralType) and all(isinstance(value, str) for value in info.values):
        return EnumOf(tuple(str(value) for value in info.values))
    if isinstance(info, inspect.EnumType) and all(isinstance(one.value, str) for one in info.cls):
        return EnumOf(tuple(str(one.value) for one in info.cls))
    if isinstance(info, inspect.CollectionType):
        return ListOf(_type(info.item_type, depth + 1))
    if isinstance(info, inspect.DictType):
        return MapOf(_type(info.value_type, depth + 1))
    if isinstance(info, inspect.StructType | inspect.DataclassType | inspect.TypedDictType):
        return ObjectOf({field.encode_name: _field(field, depth) for field in info.fields})
    return _PLAIN.get(type(info), types.JSON)


def _field(field: inspect.Field, depth: int) -> Type:
    found = _type(field.type, depth + 1)
    return found if field.required else types.optional(found)


_PLAIN: dict[type[inspect.Type], Type] = {
    inspect.StrType: types.STRING,
    inspect.IntType: types.INT,
    inspect.FloatType: types.DOUBLE,
    inspect.BoolType: types.BOOL,
    inspect.NoneType: types.NULL,
    inspect.DateTimeType: types.TIME,
}
