"""What an expression's type is, and which mistakes can be seen in it before any data is.

A value of the type `json` may be anything, so nothing is said against it. Everything else is taken by its word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.core.expressions import types as t
from holdfast.core.expressions.functions import FUNCTIONS, METHODS, Function
from holdfast.core.expressions.soundness import verify
from holdfast.core.expressions.source import SourceProblem, did_you_mean
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
)
from holdfast.core.expressions.types import EnumOf, ListOf, MapOf, ObjectOf, OptionalOf, Type, show
from holdfast.errors import InvalidInput

_WANTED: dict[type, Type] = {str: t.STRING, int: t.INT, list: ListOf(t.STRING)}
"""The types of the arguments of methods; the only one that takes a list is `join`."""


def check(node: Node, scope: Mapping[str, Type]) -> tuple[Type, list[SourceProblem]]:
    """The type of an expression where these names are known, and what is wrong with it."""
    try:
        verify(node)
    except InvalidInput as fault:
        return t.JSON, [SourceProblem(str(fault), node.span)]
    checker = _Checker(scope)
    return checker.type_of(node), checker.problems


class _Checker:
    """The search for mistakes in one expression. What is wrong has the type `json`, so that it is said once."""

    def __init__(self, scope: Mapping[str, Type]) -> None:
        self._scope = scope
        self.problems: list[SourceProblem] = []

    def _wrong(self, node: Node, message: str, hint: str | None = None) -> Type:
        self.problems.append(SourceProblem(message, node.span, hint))
        return t.JSON

    def type_of(self, node: Node) -> Type:
        match node:
            case Null():
                return t.NULL
            case Bool():
                return t.BOOL
            case Int():
                return t.INT
            case Double():
                return t.DOUBLE
            case Text(value):
                return EnumOf((value,))
            case Items(items):
                return ListOf(_common(self._types(items)) if items else t.JSON)
            case MapExpression(entries):
                return ObjectOf({entry.key: self.type_of(entry.value) for entry in entries})
            case Name(name):
                return self._named(node, name)
            case Field(of, name):
                return self._field(node, self.type_of(of), name)
            case Index(of, at):
                return self._index(node, self.type_of(of), at)
            case Unary():
                return self._unary(node)
            case Binary():
                return self._binary(node)
            case Choice(condition, then, otherwise):
                self.type_of(condition)
                return t.common(self.type_of(then), self.type_of(otherwise))
            case FunctionCall(name, arguments):
                return self._call(node, name, arguments)
            case Method(of, name, arguments):
                return self._method(METHODS[name], name, (of, *arguments))

    def _types(self, nodes: Iterable[Node]) -> list[Type]:
        return [self.type_of(node) for node in nodes]

    def _named(self, node: Name, name: str) -> Type:
        if name in self._scope:
            return self._scope[name]
        known = f"here are {', '.join(sorted(self._scope)[:12])}" if self._scope else None
        return self._wrong(node, f"nothing is called {name!r} here", did_you_mean(name, self._scope) or known)

    def _field(self, node: Node, of: Type, name: str) -> Type:
        match of:
            case OptionalOf(some):
                return t.optional(self._field(node, some, name))
            case ObjectOf(fields) if name in fields:
                return fields[name]
            case ObjectOf(fields):
                return self._wrong(node, f"there is no field {name!r}", did_you_mean(name, fields) or _list(fields))
            case MapOf(value):
                return t.optional(value)
            case t.JSON | t.NULL:
                return t.JSON
            case _:
                return self._wrong(node, f"{show(of)} has no fields, so there is no {name!r}")

    def _index(self, node: Node, of: Type, at: Node) -> Type:
        index = self.type_of(at)
        match t.required(of):
            case ListOf(item):
                self._want(at, index, t.INT, "the index of a list")
                return t.optional(item)
            case MapOf(value):
                self._want(at, index, t.STRING, "the key of a map")
                return t.optional(value)
            case ObjectOf() as known:
                if isinstance(at, Text):
                    return self._field(node, of, at.value)
                self._want(at, index, t.STRING, "the name of a field")
                return t.optional(_common([t.NULL, *known.fields.values()]))
            case t.JSON | t.NULL:
                return t.JSON
            case other:
                hint = "for a letter of a text write text.charAt(index)" if t.is_text(other) else None
                return self._wrong(node, f"{show(of)} has no items", hint)

    def _want(self, node: Node, given: Type, wanted: Type, what: str) -> None:
        if not t.assignable(t.required(given), wanted) and given != t.NULL:
            self._wrong(node, f"{what} is {show(wanted)}, not {show(given)}", _conversion(given, wanted))

    def _unary(self, node: Unary) -> Type:
        of = self.type_of(node.of)
        if node.sign == "!":
            return t.BOOL
        if t.required(of) == t.JSON or t.is_number(t.required(of)):
            return of
        return self._wrong(node, f"only numbers have a sign, not {show(of)}")

    def _binary(self, node: Binary) -> Type:
        left, right = self.type_of(node.left), self.type_of(node.right)
        match node.sign:
            case "&&" | "||":
                return t.BOOL
            case "==" | "!=":
                return self._equality(node, left, right)
            case "in":
                return self._membership(node, left, right)
            case "<" | "<=" | ">" | ">=":
                return self._order(node, left, right)
            case _:
                return self._arithmetic(node, left, right)

    def _equality(self, node: Binary, left: Type, right: Type) -> Type:
        if t.NULL in (left, right) and not t.comparable(left, right):
            self.problems.append(SourceProblem("this is never null", node.span, severity="warning"))
        elif not t.comparable(left, right):
            self._never(node, left, right)
        return t.BOOL

    def _never(self, node: Node, left: Type, right: Type) -> None:
        one, other = t.required(left), t.required(right)
        hint = _conversion(left, right) or _conversion(right, left)
        if isinstance(one, EnumOf) and isinstance(other, EnumOf):
            said, allowed = (one, other) if len(one.values) == 1 else (other, one)
            hint = did_you_mean(said.values[0], allowed.values)
        self._wrong(node, f"{show(left)} and {show(right)} are never equal", hint)

    def _membership(self, node: Binary, left: Type, right: Type) -> Type:
        result = t.optional(t.BOOL) if t.may_be_null(right) else t.BOOL
        match t.required(right):
            case ListOf():
                if isinstance(node.right, Items):
                    for item in node.right.items:
                        self._possible(item, left, _Checker(self._scope).type_of(item))
                elif isinstance(right, ListOf):
                    self._possible(node, left, right.of)
            case MapOf() | ObjectOf():
                self._want(node.left, left, t.STRING, "the key of a map")
            case t.JSON | t.NULL:
                pass
            case other:
                hint = "write text.contains(part)" if t.is_text(other) else None
                return self._wrong(node, f"'in' looks into lists and maps, not into {show(right)}", hint)
        return result

    def _possible(self, node: Node, left: Type, item: Type) -> None:
        if t.NULL not in (left, item) and not t.comparable(left, item):
            self._never(node, left, item)

    def _order(self, node: Binary, left: Type, right: Type) -> Type:
        one, other = t.required(left), t.required(right)
        nullable = t.may_be_null(left) or t.may_be_null(right)
        known = not any(side in (t.JSON, t.NULL) for side in (one, other))
        alike = (t.is_number(one) and t.is_number(other)) or (t.is_text(one) and t.is_text(other))
        if (known and not alike) or any(not _has_order(side) for side in (one, other)):
            hint = _conversion(left, right) or _conversion(right, left)
            return self._wrong(node, f"{show(left)} and {show(right)} have no order", hint)
        if t.TIME in (one, other) and not all(map(_is_timestamp, (node.left, node.right))):
            return self._wrong(
                node, "times can be written in many ways", "write timestamp(…) around both, then compare"
            )
        return t.optional(t.BOOL) if nullable else t.BOOL

    def _arithmetic(self, node: Binary, left: Type, right: Type) -> Type:
        one, other = t.required(left), t.required(right)
        if t.JSON in (one, other) or t.NULL in (one, other):
            return t.JSON
        result = _sum(one, other) if node.sign == "+" else None
        if t.is_number(one) and t.is_number(other) and (node.sign != "%" or one == other == t.INT):
            result = t.INT if one == other == t.INT else t.DOUBLE
        if result is None:
            return self._wrong(
                node, f"there is no {show(left)} {node.sign} {show(right)}", _mending(node.sign, one, other)
            )
        risky = node.sign in ("/", "%") and not _is_divisor(node.right)
        return t.optional(result) if risky or OptionalOf in (type(left), type(right)) else result

    def _call(self, node: FunctionCall, name: str, arguments: tuple[Node, ...]) -> Type:
        given = self._types(arguments)
        if name == "coalesce":
            found = _common([t.required(each) for each in given if each != t.NULL] or [t.NULL])
            return t.optional(found) if all(map(t.may_be_null, given)) else found
        if name in ("has", "bool"):
            return t.optional(t.BOOL) if name == "bool" and t.is_text(t.required(given[0])) else t.BOOL
        return self._conversion(node, name, given[0])

    def _conversion(self, node: Node, name: str, given: Type) -> Type:
        of, result = t.required(given), FUNCTIONS[name].gives
        known = of not in (t.JSON, t.NULL)
        whole = isinstance(of, ListOf | MapOf | ObjectOf)
        match name:
            case "size":
                allowed = t.is_text(of) or whole
            case "timestamp":
                allowed = t.is_text(of) or of == t.INT
            case _:
                allowed = not whole and (of != t.BOOL or name == "string")
        if known and not allowed:
            return self._wrong(node, f"there is no {name}() of {show(given)}")
        sure = not t.may_be_null(given) and (name in ("size", "string") or t.is_number(of) or of == result)
        return result if sure else t.optional(result)

    def _method(self, function: Function, name: str, arguments: tuple[Node, ...]) -> Type:
        given = self._types(arguments)
        for place, (node, of) in enumerate(zip(arguments, given, strict=True)):
            if function.takes[place] is object:
                return self._conversion(node, name, of)
            what = f"argument {place} of {name}" if place else f"what {name} is for"
            self._want(node, of, _WANTED[function.takes[place]], what)
        nullable = function.may_fail or any(map(t.may_be_null, given))
        return t.optional(function.gives) if nullable else function.gives


def _list(names: Iterable[str]) -> str:
    return f"there are {', '.join([*names][:12])}"


def _common(found: list[Type]) -> Type:
    result = found[0]
    for other in found[1:]:
        result = t.common(result, other)
    return result


def _is_timestamp(node: Node) -> bool:
    return isinstance(node, FunctionCall) and node.function == "timestamp"


def _has_order(of: Type) -> bool:
    return of in (t.JSON, t.NULL) or t.is_number(of) or t.is_text(of)


def _sum(one: Type, other: Type) -> Type | None:
    if t.is_text(one) and t.is_text(other):
        return t.STRING
    if isinstance(one, ListOf) and isinstance(other, ListOf):
        return ListOf(t.common(one.of, other.of))
    return None


def _is_divisor(node: Node) -> bool:
    return isinstance(node, Int | Double) and node.value != 0


def _mending(sign: str, one: Type, other: Type) -> str | None:
    if sign == "%" and t.is_number(one) and t.is_number(other):
        return "both must be whole numbers: int(…)"
    if sign == "+" and (t.is_text(one) or t.is_text(other)):
        return "make it text with string(…)"
    return "make it a number with int(…) or double(…)" if t.is_text(one) or t.is_text(other) else None


def _conversion(given: Type, wanted: Type) -> str | None:
    """How one could be made the other."""
    one, other = t.required(given), t.required(wanted)
    if t.is_text(other) and (t.is_number(one) or one == t.BOOL):
        return "make it text with string(…)"
    return f"make it a number with {show(other)}(…)" if t.is_number(other) and t.is_text(one) else None
