"""From a tree to its canonical text, with no more brackets than are needed."""

from __future__ import annotations

from holdfast.core.expressions.parser import (
    CHOICE,
    OR,
    POSTFIX,
    STRENGTH,
    UNARY,
)
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
    Text,
    Unary,
)

_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", '"': '\\"'}


def to_text(node: Node) -> str:
    """The expression as it would be written; reading it gives the same tree."""
    return _written(node, CHOICE)


def quoted(text: str) -> str:
    """A text in quotes, with everything that cannot be seen written out."""
    return f'"{"".join(map(_letter, text))}"'


def _letter(letter: str) -> str:
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    if letter.isprintable():
        return letter
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"


def _written(node: Node, weakest: int) -> str:
    strength = _strength(node)
    text = _bare(node)
    return text if strength >= weakest else f"({text})"


def _strength(node: Node) -> int:
    match node:
        case Choice():
            return CHOICE
        case Binary(sign):
            return STRENGTH[sign]
        case Unary():
            return UNARY
        case _:
            return POSTFIX


def _bare(node: Node) -> str:
    match node:
        case Bool(value):
            return "true" if value else "false"
        case Int(value) | Double(value):
            return repr(value)
        case Text(value):
            return quoted(value)
        case Items(items):
            return f"[{_list(items)}]"
        case MapExpression(entries):
            return "{" + ", ".join(f"{quoted(entry.key)}: {to_text(entry.value)}" for entry in entries) + "}"
        case Name(name):
            return name
        case Field(of, name):
            return f"{_written(of, POSTFIX)}.{name}"
        case Index(of, at):
            return f"{_written(of, POSTFIX)}[{to_text(at)}]"
        case Unary():
            return _unary(node)
        case Binary(sign, left, right):
            strength = STRENGTH[sign]
            return f"{_written(left, strength)} {sign} {_written(right, strength + 1)}"
        case Choice(condition, then, otherwise):
            return f"{_written(condition, OR)} ? {_written(then, OR)} : {to_text(otherwise)}"
        case FunctionCall(function, arguments):
            return f"{function}({_list(arguments)})"
        case Method(of, method, arguments):
            return f"{_written(of, POSTFIX)}.{method}({_list(arguments)})"
        case _:
            return "null"


def _list(nodes: tuple[Node, ...]) -> str:
    return ", ".join(map(to_text, nodes))


def _unary(node: Unary) -> str:
    operand = _written(node.of, UNARY)
    # A sign before digits belongs to the number, and CEL does not know two different signs in a row.
    if (node.sign == "-" and operand[0].isdigit()) or (operand[0] in "!-" and operand[0] != node.sign):
        operand = f"({operand})"
    return node.sign + operand
