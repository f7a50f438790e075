"""The type of a queue's messages in a form that is stored with the queue: JSON that any client can check bodies by.

A Python type stays with the program that declares it. `form_of` writes down what it says about JSON, kind by kind, and
`decoder_of` makes a type of that again, which msgspec checks in C. Both kinds of checks use the same words and paths.
Validators in Python code are not part of the form: they run only where the Python type is declared.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, ForwardRef, Literal, Union
from uuid import UUID

import msgspec

from holdfast.errors import InvalidInput, shown

Json = dict[str, Any]

_KINDS: dict[str, str] = {
    "NoneType": "null",
    "BoolType": "bool",
    "IntType": "int",
    "FloatType": "float",
    "StrType": "string",
    "BytesType": "bytes",
    "ByteArrayType": "bytes",
    "MemoryViewType": "bytes",
    "DateTimeType": "datetime",
    "DateType": "date",
    "TimeType": "time",
    "TimeDeltaType": "timedelta",
    "UUIDType": "uuid",
    "DecimalType": "decimal",
    "ListType": "list",
    "SetType": "list",
    "FrozenSetType": "list",
    "VarTupleType": "list",
    "CollectionType": "list",
    "TupleType": "tuple",
    "DictType": "map",
    "FrozenDictType": "map",
    "LiteralType": "enum",
    "EnumType": "enum",
    "UnionType": "union",
    "StructType": "object",
    "DataclassType": "object",
    "TypedDictType": "object",
    "NamedTupleType": "object",
}
"""By the name of a type in `msgspec.inspect`, which is loaded when a type is declared. What is not here, such as a
class of the user's that only a hook could read, is any JSON."""

_BOUNDS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "tz")

_LEAVES: dict[str, Any] = {
    "null": None,
    "bool": bool,
    "int": int,
    "float": float,
    "string": str,
    "bytes": bytes,
    "datetime": datetime,
    "date": date,
    "time": time,
    "timedelta": timedelta,
    "uuid": UUID,
    "decimal": Decimal,
}


class MessageForm(msgspec.Struct, frozen=True):
    """A message type as it is stored. Objects stand apart, so that they may hold each other: `root` refers to them."""

    root: Json
    objects: list[Json] = []


def form_of(message_type: Any, name: str = "message_type") -> MessageForm | None:
    """What a Python type says about JSON; None for no type.

    >>> form_of(list[int]).root
    {'kind': 'list', 'of': {'kind': 'int'}}
    """
    if message_type is None or isinstance(message_type, MessageForm):
        return message_type
    from msgspec import inspect

    try:
        msgspec.json.Decoder(message_type)
        writer = _Writer()
        root = writer.write(inspect.type_info(message_type))
        form = MessageForm(root, writer.objects)
        decoder_of(form)
    except (TypeError, NameError, RecursionError) as problem:
        raise InvalidInput(f"{name} {shown(message_type)} cannot be read from JSON: {problem}") from None
    return form


def decoder_of(form: MessageForm) -> msgspec.json.Decoder[Any]:
    """Checks bodies against a form. One is compiled once."""
    return _compiled(msgspec.json.encode(form))


def misfit(form: MessageForm, body: bytes) -> str | None:
    """Why a body does not fit, with the path; None if it does.

    >>> misfit(form_of(list[int]), b'[1, "two"]')
    'Expected `int`, got `str` - at `$[1]`'
    """
    try:
        decoder_of(form).decode(body)
    except msgspec.ValidationError as problem:
        return str(problem)
    return None


class _Writer:
    """From a type, as msgspec sees it, to a form."""

    def __init__(self) -> None:
        self.objects: list[Json] = []
        self._places: dict[int, int] = {}

    def write(self, info: Any) -> Json:
        kind = _KINDS.get(type(info).__name__, "json")
        if kind == "object":
            return {"kind": kind, "at": self._object(info)}
        if kind == "enum":
            return _enum(info)
        found: Json = {"kind": kind}
        if kind == "list":
            found["of"] = self.write(info.item_type)
        elif kind == "map":
            found |= {"key": self.write(info.key_type), "of": self.write(info.value_type)}
        elif kind in ("tuple", "union"):
            found["of"] = [self.write(one) for one in (info.item_types if kind == "tuple" else info.types)]
        return found | {bound: value for bound in _BOUNDS if (value := getattr(info, bound, None)) is not None}

    def _object(self, info: Any) -> int:
        """Where it stands. One that holds itself finds its place taken already."""
        if id(info) not in self._places:
            place = self._places[id(info)] = len(self.objects)
            self.objects.append({})
            fields = [
                {"name": field.encode_name, "of": self.write(field.type), "required": field.required}
                for field in info.fields
            ]
            is_tuple = type(info).__name__ == "NamedTupleType"
            self.objects[place] = {
                "fields": fields,
                "array": is_tuple or getattr(info, "array_like", False),
                "closed": is_tuple or getattr(info, "forbid_unknown_fields", False),
                "tag_field": getattr(info, "tag_field", None),
                "tag": getattr(info, "tag", None),
            }
        return self._places[id(info)]


def _enum(info: Any) -> Json:
    if type(info).__name__ == "LiteralType":
        return {"kind": "enum", "values": list(info.values)}
    has_code = any("_missing_" in vars(base) for base in info.cls.__mro__ if base.__module__ != enum.__name__)
    if has_code:  # It decides what else it accepts.
        return {"kind": "json"}
    return {"kind": "enum", "values": [member.value for member in info.cls]}


@lru_cache(maxsize=1_000)
def _compiled(raw: bytes) -> msgspec.json.Decoder[Any]:
    form = msgspec.json.decode(raw, type=MessageForm)
    structs = [_struct(place, one) for place, one in enumerate(form.objects)]
    for struct in structs:  # Where msgspec looks for the names of the others.
        for place, other in enumerate(structs):
            setattr(struct, f"_{place}", other)
    return msgspec.json.Decoder(_python(form.root, structs.__getitem__))


def _struct(place: int, one: Mapping[str, Any]) -> Any:
    fields: list[Any] = []
    for number, field in enumerate(one["fields"]):
        of = _python(field["of"], lambda at: ForwardRef(f"_{at}"))
        fields.append((f"f{number}", of) if field["required"] else (f"f{number}", of, None))
    return msgspec.defstruct(
        f"Object{place}",
        fields,
        rename={f"f{number}": field["name"] for number, field in enumerate(one["fields"])},
        forbid_unknown_fields=one["closed"],
        array_like=one["array"],
        tag_field=one["tag_field"],
        tag=one["tag"],
        kw_only=True,
    )


def _python(form: Mapping[str, Any], object_at: Callable[[int], Any]) -> Any:
    """A kind that only a newer Holdfast knows is any JSON, as what has no kind."""
    kind = form["kind"]
    found: Any = _LEAVES.get(kind, Any)
    if kind == "object":
        return object_at(form["at"])
    if kind == "enum":
        return Literal[tuple(form["values"])]
    if kind == "union":
        return Union[tuple(_python(one, object_at) for one in form["of"])]  # noqa: UP007 - only known at run time
    if kind == "list":
        found = list[_python(form["of"], object_at)]  # type: ignore[misc]
    elif kind == "tuple":
        found = tuple[tuple(_python(one, object_at) for one in form["of"])]  # type: ignore[misc]
    elif kind == "map":
        found = dict[_python(form["key"], object_at), _python(form["of"], object_at)]  # type: ignore[misc]
    bounds = {bound: form[bound] for bound in _BOUNDS if bound in form}
    return Annotated[found, msgspec.Meta(**bounds)] if bounds else found
