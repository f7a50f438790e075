"""A spec as it is written: blocks, settings and values, each knowing its place. Comments are beside it, by place."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.core.expressions.source import Span
from holdfast.core.expressions.tree import Node
from holdfast.spec.grammar import GrammarWord
from holdfast.spec.shapes import Shape


@dataclass(frozen=True, slots=True)
class Word:
    """The name of a setting, or of what is declared."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a text, a word, a duration, a rate (`5/m`) or a range (`1s..60s`); the last four as written."""

    form: str
    value: str | int | float | bool | None
    span: Span


@dataclass(frozen=True, slots=True)
class Listing:
    """`[a, b]`."""

    values: list[Value]
    span: Span


@dataclass(frozen=True, slots=True)
class MapSyntax:
    """`{ a: 1, b: 2 }`."""

    settings: list[Setting]
    opened: Span
    span: Span


@dataclass(frozen=True, slots=True)
class Formula:
    """An expression."""

    node: Node
    span: Span


@dataclass(frozen=True, slots=True)
class Typed:
    """The type of a field."""

    shape: Shape
    span: Span


@dataclass(frozen=True, slots=True)
class CommandSyntax:
    """`command Entity.Command { input: expression }`."""

    entity: Word
    command: Word
    inputs: MapSyntax | None
    span: Span


@dataclass(frozen=True, slots=True)
class ForwardSyntax:
    """`queue name { field: expression }`."""

    queue: Literal
    inputs: MapSyntax | None
    span: Span


Value = Literal | Listing | MapSyntax | Formula | Typed | CommandSyntax | ForwardSyntax


@dataclass(frozen=True, slots=True)
class Setting:
    """`key: value`."""

    key: Word
    value: Value
    span: Span
    entry: GrammarWord | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """`keyword name { … }`."""

    keyword: Word
    name: Word | None
    entry: GrammarWord
    items: list[Item]
    opened: Span
    span: Span


Item = Setting | Block


@dataclass(frozen=True, slots=True)
class Document:
    """A file: one app, if it is as it should be."""

    apps: list[Block] = field(default_factory=list)
