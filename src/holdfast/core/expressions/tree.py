"""What an expression consists of: a closed set of nodes, none of which can reach into Python.

Nodes are compared and written as JSON by what they say; where they were written (`span`) is no part of either.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeVar

import msgspec

from holdfast.core.expressions.source import Span

Sign = Literal["||", "&&", "==", "!=", "<", "<=", ">", ">=", "in", "+", "-", "*", "/", "%"]

LARGEST_INT = 2**63 - 1
NOWHERE = Span(0, 0)


class _Node(msgspec.Struct, frozen=True, dict=True, tag_field="kind", forbid_unknown_fields=True):
    @property
    def span(self) -> Span:
        """Where it was written, if it was read from a text."""
        span: Span = self.__dict__.get("span", NOWHERE)
        return span


class Null(_Node, frozen=True, dict=True, tag="null"):
    """Nothing: `null`."""


class Bool(_Node, frozen=True, dict=True, tag="bool"):
    """`true` or `false`."""

    value: bool


class Int(_Node, frozen=True, dict=True, tag="int"):
    """A whole number: `7`, `-7`."""

    value: int


class Double(_Node, frozen=True, dict=True, tag="double"):
    """A number with a point: `1.5`."""

    value: float


class Text(_Node, frozen=True, dict=True, tag="string"):
    """`"text"`."""

    value: str


class Items(_Node, frozen=True, dict=True, tag="list"):
    """`[a, b]`."""

    items: tuple[Node, ...]


class MapEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key of a map and what it has there."""

    key: str
    value: Node


class MapExpression(_Node, frozen=True, dict=True, tag="map"):
    """`{"a": b}`; keys are written out, as in JSON."""

    entries: tuple[MapEntry, ...]


class Name(_Node, frozen=True, dict=True, tag="name"):
    """What the scope has under this name: `payload`."""

    name: str


class Field(_Node, frozen=True, dict=True, tag="field"):
    """`of.name`."""

    of: Node
    name: str


class Index(_Node, frozen=True, dict=True, tag="index"):
    """`of[at]`."""

    of: Node
    at: Node


class Unary(_Node, frozen=True, dict=True, tag="unary"):
    """`!of` or `-of`."""

    sign: Literal["!", "-"]
    of: Node


class Binary(_Node, frozen=True, dict=True, tag="binary"):
    """`left sign right`."""

    sign: Sign
    left: Node
    right: Node


class Choice(_Node, frozen=True, dict=True, tag="choice"):
    """`condition ? then : otherwise`."""

    condition: Node
    then: Node
    otherwise: Node


class FunctionCall(_Node, frozen=True, dict=True, tag="call"):
    """`function(arguments)`."""

    function: str
    arguments: tuple[Node, ...]


class Method(_Node, frozen=True, dict=True, tag="method"):
    """`of.method(arguments)`."""

    of: Node
    method: str
    arguments: tuple[Node, ...] = ()


Node = (
    Null
    | Bool
    | Int
    | Double
    | Text
    | Items
    | MapExpression
    | Name
    | Field
    | Index
    | Unary
    | Binary
    | Choice
    | FunctionCall
    | Method
)
"""An expression."""

N = TypeVar("N", bound=_Node)


def placed(node: N, span: Span) -> N:
    """The node, knowing where it was written."""
    node.__dict__["span"] = span
    return node


def children(node: Node) -> tuple[Node, ...]:
    """The expressions that a node is made of, in the order they are written."""
    match node:
        case Items(items):
            return items
        case MapExpression(entries):
            return tuple(entry.value for entry in entries)
        case Field(of) | Unary(_, of):
            return (of,)
        case Index(of, at):
            return (of, at)
        case Binary(_, left, right):
            return (left, right)
        case Choice(condition, then, otherwise):
            return (condition, then, otherwise)
        case FunctionCall(_, arguments):
            return arguments
        case Method(of, _, arguments):
            return (of, *arguments)
        case _:
            return ()


def walk(node: Node) -> Iterator[tuple[Node, int]]:
    """Every node of a tree with its depth; without recursion, for it is what looks for trees that are too deep."""
    waiting = [(node, 1)]
    while waiting:
        found, depth = waiting.pop()
        yield found, depth
        waiting.extend((child, depth + 1) for child in children(found))
