"""What kind of value an expression has: enough to find mistakes before the first message comes.

`json` is anything, and fits everywhere: what it really is turns out when a message comes.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec


class PlainType(msgspec.Struct, frozen=True, tag_field="kind", tag="plain"):
    """A type that has no parts."""

    name: Literal["null", "bool", "int", "double", "string", "time", "json"]


class ListOf(msgspec.Struct, frozen=True, tag_field="kind", tag="list"):
    """`list<of>`."""

    of: Type


class MapOf(msgspec.Struct, frozen=True, tag_field="kind", tag="map"):
    """`map<string, of>`; a key may be missing."""

    of: Type


class OptionalOf(msgspec.Struct, frozen=True, tag_field="kind", tag="optional"):
    """What it is of, or null."""

    of: Type


class EnumOf(msgspec.Struct, frozen=True, tag_field="kind", tag="enum"):
    """One of these texts. A text that is written out is an enum of itself."""

    values: tuple[str, ...]


class ObjectOf(msgspec.Struct, frozen=True, tag_field="kind", tag="object"):
    """Known fields, each with its type."""

    fields: dict[str, Type]


Type = PlainType | ListOf | MapOf | OptionalOf | EnumOf | ObjectOf

NULL = PlainType("null")
BOOL = PlainType("bool")
INT = PlainType("int")
DOUBLE = PlainType("double")
STRING = PlainType("string")
TIME = PlainType("time")
"""A time as text, as it is in JSON: RFC 3339. To be ordered it wants `timestamp()` around it."""
JSON = PlainType("json")


def optional(of: Type) -> Type:
    """The type, or null."""
    return of if of in (NULL, JSON) or isinstance(of, OptionalOf) else OptionalOf(of)


def required(of: Type) -> Type:
    """The type when it is not null."""
    return of.of if isinstance(of, OptionalOf) else of


def may_be_null(of: Type) -> bool:
    """Whether null is one of its values."""
    return of in (NULL, JSON) or isinstance(of, OptionalOf)


def is_number(of: Type) -> bool:
    """Whether one can count with it."""
    return of in (INT, DOUBLE)


def is_text(of: Type) -> bool:
    """Whether it is text in JSON."""
    return of in (STRING, TIME) or isinstance(of, EnumOf)


def show(of: Type) -> str:
    """A type as an error speaks of it."""
    match of:
        case PlainType(name):
            return name
        case ListOf(item):
            return f"list<{show(item)}>"
        case MapOf(value):
            return f"map<string, {show(value)}>"
        case OptionalOf(some):
            return f"optional {show(some)}"
        case EnumOf((value,)):
            return f'"{value[:40]}"'
        case EnumOf(values):
            return f"enum({', '.join(values[:6])}{', …' if len(values) > 6 else ''})"
        case ObjectOf(fields):
            return f"object with {', '.join([*fields][:6])}{', …' if len(fields) > 6 else ''}"


def assignable(source: Type, target: Type) -> bool:
    """Whether what has the one type can be given to what wants the other."""
    if JSON in (source, target) or source == target:
        return True
    match source, target:
        case (PlainType("null"), OptionalOf()):
            return True
        case (_, OptionalOf(wanted)):
            return assignable(required(source), wanted)
        case (PlainType("int"), PlainType("double")) | (EnumOf() | PlainType("time"), PlainType("string")):
            return True
        case (EnumOf(values), PlainType("time")):
            return all(map(_is_time, values))
        case (EnumOf(values), EnumOf(allowed)):
            return set(values) <= set(allowed)
        case (ListOf(item), ListOf(wanted)) | (MapOf(item), MapOf(wanted)):
            return assignable(item, wanted)
        case (ObjectOf(fields), MapOf(wanted)):
            return all(assignable(field, wanted) for field in fields.values())
        case (ObjectOf(fields), ObjectOf(asked)):
            return all(
                assignable(fields[name], wanted) if name in fields else may_be_null(wanted)
                for name, wanted in asked.items()
            )
        case _:
            return False


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def common(first: Type, second: Type) -> Type:
    """The narrowest type that has the values of both."""
    if first == second:
        return first
    if JSON in (first, second):
        return JSON
    if NULL in (first, second) or OptionalOf in (type(first), type(second)):
        one, other = required(first), required(second)
        return optional(other if one == NULL else one if other == NULL else common(one, other))
    match first, second:
        case (EnumOf(some), EnumOf(more)):
            return EnumOf((*some, *(value for value in more if value not in some)))
        case (ListOf(some), ListOf(more)):
            return ListOf(common(some, more))
        case (MapOf(some), MapOf(more)):
            return MapOf(common(some, more))
        case _ if assignable(first, second):
            return second
        case _ if assignable(second, first):
            return first
        case _ if is_text(first) and is_text(second):
            return STRING
        case _:
            return JSON


def comparable(first: Type, second: Type) -> bool:
    """Whether two values of these types can ever be equal."""
    one, other = required(first), required(second)
    if JSON in (one, other) or (is_number(one) and is_number(other)):
        return True
    if NULL in (one, other):
        return may_be_null(first) and may_be_null(second)
    match one, other:
        case (EnumOf(some), EnumOf(more)):
            return not set(some).isdisjoint(more)
        case (ListOf(), ListOf()) | (MapOf() | ObjectOf(), MapOf() | ObjectOf()):
            return True
        case _:
            return one == other or (is_text(one) and is_text(other))
