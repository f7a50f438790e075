"""Types of fields as a spec writes them: `string`, `int?`, `list<json>`, `enum(low, high)`, `{ title: string }`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NoReturn

import msgspec

from holdfast.core.expressions.cursor import Lost, TokenCursor
from holdfast.core.expressions.lexer import LexerToken
from holdfast.core.expressions.source import Source, SourceProblem, did_you_mean
from holdfast.errors import InvalidInput, shown

Kind = Literal["json", "string", "int", "float", "bool", "time", "map", "list", "enum", "object"]

PLAIN: tuple[Kind, ...] = ("json", "string", "int", "float", "bool", "time")
NAMES = (*PLAIN, "map", "list", "enum", "optional")
KEYS = ("string", "int", "enum")

MOST_WORDS = 1_000
MOST_FIELDS = 500

_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """A type: what of, for lists and maps (`of`, `key`); which `fields`, for objects; which `words`, for enums."""

    kind: Kind
    of: Shape | None = None
    key: Shape | None = None
    fields: dict[str, Shape] = {}
    words: tuple[str, ...] = ()
    optional: bool = False

    def __str__(self) -> str:
        return self._base() + ("?" if self.optional else "")

    def _base(self) -> str:
        if self.kind == "map":
            return f"map<{self.key}, {self.of}>"
        if self.kind == "list":
            return f"list<{self.of}>"
        if self.kind == "enum":
            return f"enum({', '.join(word_text(word) for word in self.words)})"
        if self.kind == "object":
            inner = ", ".join(f"{word_text(name)}: {shape}" for name, shape in self.fields.items())
            return f"{{ {inner} }}" if inner else "{}"
        return self.kind


def word_text(word: str) -> str:
    """A name as a spec writes it: in quotes if it is not a plain word."""
    return word if _SIMPLE.fullmatch(word) else quoted(word)


def quoted(text: str) -> str:
    """A text as a spec writes it."""
    return msgspec.json.encode(text).decode()


def parse_shape(cursor: TokenCursor) -> Shape:
    """Reads a type; notes what is wrong and gets lost otherwise."""
    with cursor.deeper():
        shape = _base(cursor)
    while cursor.accept("?"):
        shape = msgspec.structs.replace(shape, optional=True)
    return shape


def read_shape(text: str) -> Shape:
    """The type that a text says; `InvalidInput` if it says none."""
    cursor = TokenCursor(Source(text))
    try:
        shape = parse_shape(cursor)
        if cursor.peek().kind != "end":
            cursor.wanted("the end of the type")
    except Lost:
        shape = Shape(kind="json")
    if cursor.problems:
        raise InvalidInput(f"{shown(text)} is no type: {cursor.problems[0].message}")
    return shape


def read_shapes(fields: Mapping[str, str]) -> dict[str, Shape]:
    """The types of fields."""
    return {name: read_shape(text) for name, text in fields.items()}


def _base(cursor: TokenCursor) -> Shape:
    if cursor.peek().is_mark("{"):
        return _object(cursor)
    word = cursor.expect_name("a type", f"types are {', '.join(NAMES)}, and {{ name: type }}")
    if word.text == "map":
        cursor.expect("<", "map", "write it like map<string, json>")
        key = _key(cursor)
        cursor.expect(",", "the type of a map's keys", "write it like map<string, json>")
        of = parse_shape(cursor)
        cursor.expect(">")
        return Shape(kind="map", key=key, of=of)
    if word.text in ("list", "optional"):
        cursor.expect("<", word.text, f"write it like {word.text}<string>")
        of = parse_shape(cursor)
        cursor.expect(">")
        return Shape(kind="list", of=of) if word.text == "list" else msgspec.structs.replace(of, optional=True)
    if word.text == "enum":
        return _enum(cursor, word)
    return Shape(kind=_plain(cursor, word))


def _plain(cursor: TokenCursor, word: LexerToken) -> Kind:
    for kind in PLAIN:
        if kind == word.text:
            return kind
    _unknown(cursor, word)


def _unknown(cursor: TokenCursor, word: LexerToken) -> NoReturn:
    alike = {"text": "string", "str": "string", "number": "float", "double": "float", "object": "json", "any": "json"}
    known = alike.get(word.text)
    hint = f"did you mean {known!r}?" if known else did_you_mean(word.text, NAMES)
    cursor.fail(f"there is no type {word.text!r}", word.span, hint or f"types are {', '.join(NAMES)}")


def _key(cursor: TokenCursor) -> Shape:
    start = cursor.peek().span
    key = parse_shape(cursor)
    if key.kind not in KEYS or key.optional:
        cursor.note("keys of a map are string, int or enum(…)", start.to(cursor.last))
        return Shape(kind="string")
    return key


def _enum(cursor: TokenCursor, word: LexerToken) -> Shape:
    cursor.expect("(", "enum", "write it like enum(low, high)")
    words: list[str] = []
    while not cursor.accept(")"):
        token = cursor.peek()
        if token.kind not in ("name", "string"):
            cursor.wanted("a word of the enum")
        text = str(cursor.next().value) if token.kind == "string" else cursor.next().text
        if text in words:
            cursor.note(f"{text!r} is in this enum twice", token.span)
        else:
            words.append(text)
        if not cursor.accept(",") and not cursor.peek().is_mark(")"):
            cursor.wanted("',' or ')'")
    if not 0 < len(words) <= MOST_WORDS:
        cursor.note(f"an enum has 1 to {MOST_WORDS:,} words, not {len(words):,}", word.span.to(cursor.last))
    return Shape(kind="enum", words=tuple(words))


def _object(cursor: TokenCursor) -> Shape:
    opened = cursor.expect("{")
    fields: dict[str, Shape] = {}
    while not cursor.accept("}"):
        token = cursor.peek()
        if token.kind not in ("name", "string"):
            cursor.wanted("a field or '}'")
        cursor.next()
        name = str(token.value) if token.kind == "string" else token.text
        if name in fields:
            cursor.note(f"the field {name!r} is here twice", token.span)
        cursor.expect(":", f"the field {name!r}")
        fields[name] = parse_shape(cursor)
        cursor.accept(",", ";")
    if len(fields) > MOST_FIELDS:
        cursor.problems.append(
            SourceProblem(f"an object has at most {MOST_FIELDS} fields", opened.span.to(cursor.last))
        )
    return Shape(kind="object", fields=fields)
