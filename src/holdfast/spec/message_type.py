"""The `message_type` of a queue at work: bodies are checked against it, strictly, and expressions are typed by it.

Strictly: no text that looks like a number is one, and a field that nobody declared is refused. A `time` is RFC 3339
text with an offset, or whole microseconds since 1970. An optional field may be missing.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Optional

import msgspec

from holdfast.core.expressions import types
from holdfast.core.expressions.types import EnumOf, ListOf, MapOf, ObjectOf, Type
from holdfast.core.message_type import MessageForm, form_of
from holdfast.errors import InvalidInput
from holdfast.spec.shapes import Shape, read_shapes

ENVELOPE = {"payload": "json", "headers": "map<string, string>", "source_ip": "string", "received_at": "time"}
"""What a webhook puts into its queue."""

DEAD_LETTER = {"original_message": "json", "failed_at": "time", "error": "string", "attempts": "int"}
"""What a death puts into the queue that is told of it."""

PUBLISHED = {"body": "json", "topic": "string", "key": "string?", "headers": "json"}
"""What the expressions of a group see: what is published to a topic has no type, so its fields are behind `body`."""

_Time = int | Annotated[datetime, msgspec.Meta(tz=True)]
_PYTHON: dict[str, Any] = {"json": Any, "string": str, "int": int, "float": float, "bool": bool, "time": _Time}
_EXPRESSION = {
    "json": types.JSON,
    "string": types.STRING,
    "int": types.INT,
    "float": types.DOUBLE,
    "bool": types.BOOL,
    "time": types.TIME,
}
_WHERE = re.compile(r"^(?P<what>.*?)(?: - at `\$?\.?(?P<path>.*)`)?$", re.DOTALL)


class MessageType:
    """What bodies of a queue look like. `python` is for `hf.queue(message_type=…)`."""

    def __init__(self, fields: Mapping[str, str], name: str = "Message") -> None:
        self.python = python_type(Shape(kind="object", fields=read_shapes(fields)), name)
        self._decoder = msgspec.json.Decoder(self.python)

    def check(self, body: bytes) -> None:
        """Refuses a body that does not fit (`InvalidInput`), and says at which path."""
        try:
            self._decoder.decode(body)
        except msgspec.ValidationError as problem:
            raise InvalidInput(misfit(problem)) from None
        except msgspec.DecodeError as problem:
            raise InvalidInput(f"this is no JSON: {problem}") from None


def message_form(fields: Mapping[str, str]) -> MessageForm | None:
    """The type of messages with these fields, as it is stored with their queue; None if there are none."""
    return form_of(MessageType(fields).python) if fields else None


def misfit(problem: msgspec.ValidationError) -> str:
    """What msgspec says of a body, with the path in front: "payload.title: expected `str`, got `int`"."""
    found = _WHERE.match(str(problem))
    assert found is not None, "everything fits"
    what, path = found["what"], found["path"]
    what = what[:1].lower() + what[1:]
    return f"{path}: {what}" if path else what


def python_type(shape: Shape, name: str = "Message") -> Any:
    """The type as Python and msgspec have it."""
    found = _python(shape, name)
    return Optional[found] if shape.optional else found  # noqa: UP045 - of what is only known at run time


def _python(shape: Shape, name: str) -> Any:
    if shape.kind == "object":
        return msgspec.defstruct(
            name,
            [_field(field, inner, f"{name}_{number}") for number, (field, inner) in enumerate(shape.fields.items())],
            rename={_attribute(field): field for field in shape.fields},
            forbid_unknown_fields=True,
            kw_only=True,
        )
    if shape.kind == "enum":
        return Literal[shape.words]
    if shape.of is not None:
        of = python_type(shape.of, name)
        return list[of] if shape.key is None else dict[python_type(shape.key), of]  # type: ignore[valid-type, misc]
    return _PYTHON[shape.kind]


def _field(field: str, shape: Shape, name: str) -> Any:
    of = python_type(shape, name)
    return (_attribute(field), of, None) if shape.optional else (_attribute(field), of)


def _attribute(field: str) -> str:
    """The field's own name, if that is a name in Python."""
    plain = field.isidentifier() and field.isascii() and not keyword.iskeyword(field) and not field.startswith("_")
    return field if plain else f"_{field.encode().hex()}"


def expression_type(shape: Shape) -> Type:
    """The type as expressions have it."""
    found = _expression(shape)
    return types.optional(found) if shape.optional else found


def _expression(shape: Shape) -> Type:
    if shape.kind == "object":
        return ObjectOf(scope(shape.fields))
    if shape.kind == "enum":
        return EnumOf(shape.words)
    if shape.of is not None:
        return ListOf(expression_type(shape.of)) if shape.key is None else MapOf(expression_type(shape.of))
    return _EXPRESSION[shape.kind]


def scope(fields: Mapping[str, Shape]) -> dict[str, Type]:
    """What expressions over a message with these fields can name."""
    return {name: expression_type(shape) for name, shape in fields.items()}
