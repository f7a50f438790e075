"""From a tree to a closure: looked at once, then called for every message.

Each part becomes a function of the data and of what the evaluation may still do. A part always gives a value that
expressions know (see values.py), so Python's own truth of it is the language's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from holdfast.core.expressions import values
from holdfast.core.expressions.functions import FUNCTIONS, METHODS, Function
from holdfast.core.expressions.soundness import verify
from holdfast.core.expressions.tree import (
    Binary,
    Bool,
    Choice,
    Double,
    Field,
    FunctionCall,
    Index,
    Int,
    Items,
    MapExpression,
    Method,
    Name,
    Node,
    Null,
    Text,
    Unary,
    walk,
)
from holdfast.core.expressions.values import KNOWN, Allowance

Data = Mapping[str, Any]
Part = Callable[[Data, Allowance], Any]

_OPERATIONS: dict[str, Callable[[Any, Any, Allowance], Any]] = {
    "==": values.same,
    "!=": lambda one, other, left: not values.same(one, other, left),
    "<": values.less,
    "<=": values.at_most,
    ">": values.more,
    ">=": values.at_least,
    "in": values.contained,
    "+": values.add,
    "-": values.subtract,
    "*": values.multiply,
    "/": values.divide,
    "%": values.remainder,
}


def compile(node: Node) -> Callable[[Data], Any]:
    """The expression as a function of the data. It never fails but with ExpressionTooCostly.

    InvalidInput if the tree was not made by the parser and says what no text could say.
    """
    verify(node)
    part = _part(node)
    if any(_makes_more(found) for found, _ in walk(node)):
        return lambda data: values.measured(part(data, Allowance()))
    return lambda data: part(data, Allowance())


def _makes_more(node: Node) -> bool:
    """Whether it puts parts of a message together, so that the result can be larger than the message."""
    return isinstance(node, Items | MapExpression) or (isinstance(node, Binary) and node.sign == "+")


def _part(node: Node) -> Part:
    match node:
        case Null():
            return lambda data, left: None
        case Bool(value) | Int(value) | Double(value) | Text(value):
            return lambda data, left: value
        case Items(items):
            parts = [_part(item) for item in items]
            return lambda data, left: [part(data, left) for part in parts]
        case MapExpression(entries):
            named = [(entry.key, _part(entry.value)) for entry in entries]
            return lambda data, left: {key: part(data, left) for key, part in named}
        case Name() | Field():
            return _path(node)
        case Index(of, index):
            return _index(_part(of), _part(index))
        case Unary(sign, of):
            return _unary(sign, _part(of))
        case Binary():
            return _binary(node)
        case Choice(condition, then, otherwise):
            return _choice(_part(condition), _part(then), _part(otherwise))
        case FunctionCall("has", (of,)):
            return _has(of)
        case FunctionCall("coalesce", arguments):
            return _coalesce([_part(argument) for argument in arguments])
        case FunctionCall(name, arguments):
            return _call(FUNCTIONS[name], [_part(argument) for argument in arguments])
        case Method(of, name, arguments):
            return _call(METHODS[name], [_part(of), *(_part(argument) for argument in arguments)])


def _path(node: Name | Field) -> Part:
    """`a.b.c` in one go. Only a map has fields; where there is none, the rest of the path is null."""
    names: list[str] = []
    of: Node = node
    while isinstance(of, Field):
        names.insert(0, of.name)
        of = of.of
    if isinstance(of, Name):
        first = of.name
        return _named(first, names) if names else lambda data, left: values.known(data.get(first))
    return _fields(_part(of), names)


def _named(first: str, names: list[str]) -> Part:
    def read(data: Data, left: Allowance) -> Any:
        value = data.get(first)
        for name in names:
            if type(value) is not dict:
                return None
            value = value.get(name)
        return value if type(value) in KNOWN else None

    return read


def _fields(of: Part, names: list[str]) -> Part:
    def read(data: Data, left: Allowance) -> Any:
        value = of(data, left)
        for name in names:
            value = values.at(value, name)
        return value

    return read


def _index(of: Part, index: Part) -> Part:
    return lambda data, left: values.at(of(data, left), index(data, left))


def _unary(sign: str, of: Part) -> Part:
    if sign == "!":
        return lambda data, left: not of(data, left)
    return lambda data, left: values.negate(of(data, left))


def _choice(condition: Part, then: Part, otherwise: Part) -> Part:
    return lambda data, left: then(data, left) if condition(data, left) else otherwise(data, left)


def _binary(node: Binary) -> Part:
    one, other = _part(node.left), _part(node.right)
    if node.sign == "&&":
        return lambda data, left: bool(one(data, left) and other(data, left))
    if node.sign == "||":
        return lambda data, left: bool(one(data, left) or other(data, left))
    if node.sign in ("==", "!="):
        for part, fixed in ((one, node.right), (other, node.left)):
            if isinstance(fixed, Text | Null):
                return _equality(part, fixed.value if isinstance(fixed, Text) else None, node.sign == "==")
    if node.sign == "in" and _is_words(node.right):
        words = frozenset(item.value for item in node.right.items if isinstance(item, Text))
        return lambda data, left: type(word := one(data, left)) is str and word in words
    operation = _OPERATIONS[node.sign]
    return lambda data, left: operation(one(data, left), other(data, left), left)


def _is_words(node: Node) -> TypeGuard[Items]:
    """Whether it is a list of texts that are all written out, which is what most lists behind `in` are."""
    return isinstance(node, Items) and all(isinstance(item, Text) for item in node.items)


def _equality(of: Part, fixed: str | None, wanted: bool) -> Part:
    """With a text or null, which nothing of another kind can be equal to in Python either."""
    if wanted:
        return lambda data, left: of(data, left) == fixed
    return lambda data, left: of(data, left) != fixed


def _has(of: Node) -> Part:
    if isinstance(of, Field):
        owner, name = _part(of.of), of.name
        return lambda data, left: type(map_ := owner(data, left)) is dict and name in map_
    assert isinstance(of, Index)
    owner, index = _part(of.of), _part(of.at)
    return lambda data, left: values.has_at(owner(data, left), index(data, left))


def _coalesce(parts: list[Part]) -> Part:
    def first(data: Data, left: Allowance) -> Any:
        for part in parts:
            if (value := part(data, left)) is not None:
                return value
        return None

    return first


def _call(function: Function, parts: list[Part]) -> Part:
    run, wanted = function.run, [*zip(parts, function.takes, strict=False)]

    def call(data: Data, left: Allowance) -> Any:
        given = []
        for part, kind in wanted:
            value = part(data, left)
            if kind is not object and type(value) is not kind:
                return None
            given.append(value)
        return run(left, *given)

    return call
