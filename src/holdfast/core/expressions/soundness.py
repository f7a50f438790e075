"""A tree that did not come from the parser (from JSON, or made in Python) must say only what a text could say."""

from __future__ import annotations

import math
import re

from holdfast.core.expressions.cursor import DEEPEST
from holdfast.core.expressions.functions import misuse
from holdfast.core.expressions.parser import MOST_NODES, RESERVED
from holdfast.core.expressions.tree import (
    LARGEST_INT,
    Double,
    Field,
    FunctionCall,
    Int,
    MapExpression,
    Method,
    Name,
    Node,
    Text,
    walk,
)
from holdfast.errors import InvalidInput, shown

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def verify(node: Node) -> None:
    """InvalidInput if the tree is too large, or has a name, number, text or call that cannot be written."""
    for count, (found, depth) in enumerate(walk(node), 1):
        if count > MOST_NODES or depth > DEEPEST:
            raise InvalidInput(f"an expression has at most {MOST_NODES:,} parts and {DEEPEST} levels")
        if fault := _fault(found):
            raise InvalidInput(f"this is no expression: {fault}")


def _fault(node: Node) -> str | None:
    match node:
        case Int(value) if abs(value) > LARGEST_INT:
            return f"{shown(value)} is too large"
        case Double(value) if not math.isfinite(value):
            return f"{value} is no number"
        case Text(value) if not _is_writable(value):
            return f"{shown(value)} has letters that are none"
        case Name(name) if not _NAME.fullmatch(name) or name in RESERVED:
            return f"{shown(name)} is no name"
        case Field(_, name) if not _NAME.fullmatch(name):
            return f"{shown(name)} is no name of a field"
        case MapExpression(entries):
            keys = [entry.key for entry in entries]
            if len(set(keys)) < len(keys) or not all(map(_is_writable, keys)):
                return "a map has a key twice, or one with letters that are none"
        case FunctionCall() | Method():
            if wrong := misuse(node):
                return wrong[0]
    return None


def _is_writable(text: str) -> bool:
    return not any(0xD800 <= ord(letter) <= 0xDFFF for letter in text)
