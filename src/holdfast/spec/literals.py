"""Values that are written out: numbers, texts, words, durations, rates, ranges, lists and maps of them."""

from __future__ import annotations

from holdfast.core.expressions.cursor import TokenCursor
from holdfast.core.expressions.source import Span
from holdfast.spec.document import Listing, Literal, MapSyntax, Setting, Value, Word

_FIXED = {"true": True, "false": False, "none": None, "null": None}
_NUMBERS = ("int", "float", "duration")


def parse_key(cursor: TokenCursor, what: str, dotted: bool = True) -> Word:
    """A name: in quotes, or words with dots in between."""
    token = cursor.peek()
    if token.kind == "string":
        return Word(str(cursor.next().value), token.span)
    first = cursor.expect_name(what)
    return _name(cursor, first.text, first.span, (".",)) if dotted else Word(first.text, first.span)


def parse_literal(cursor: TokenCursor) -> Value:
    """Any value, whatever it is for."""
    token = cursor.peek()
    if token.is_mark("["):
        return _listing(cursor)
    if token.is_mark("{"):
        return _entries(cursor)
    if token.kind == "string":
        cursor.next()
        return Literal("text", str(token.value), token.span)
    if token.kind == "name":
        return _word(cursor)
    if token.kind in _NUMBERS or token.is_mark("-"):
        return _number(cursor)
    cursor.wanted("a value")


def _word(cursor: TokenCursor) -> Literal:
    token = cursor.next()
    found = _name(cursor, token.text, token.span, (".", "/"))
    if found.text in _FIXED:
        return Literal("fixed", _FIXED[found.text], found.span)
    return Literal("word", found.text, found.span)


def _name(cursor: TokenCursor, text: str, span: Span, joints: tuple[str, ...]) -> Word:
    while cursor.peek().is_mark(*joints) and cursor.peek(1).kind == "name":
        text += cursor.next().text + cursor.next().text
    return Word(text, span.to(cursor.last))


def _number(cursor: TokenCursor) -> Literal:
    first = cursor.next()
    if first.is_mark("-"):
        number = cursor.peek()
        if number.kind == "duration":
            return Literal("duration", "-" + cursor.next().text, first.span.to(number.span))
        if number.kind not in ("int", "float"):
            cursor.wanted("a number after '-'")
        assert isinstance(number.value, int | float), "the lexer says so"
        return Literal("number", -number.value, first.span.to(cursor.next().span))
    if cursor.peek().is_mark("/") and cursor.peek(1).kind in ("name", "duration"):
        cursor.next()
        return Literal("rate", f"{first.text}/{cursor.next().text}", first.span.to(cursor.last))
    if cursor.peek().is_mark(".") and cursor.peek(1).is_mark(".") and cursor.peek(2).kind in _NUMBERS:
        cursor.next()
        cursor.next()
        return Literal("range", f"{first.text}..{cursor.next().text}", first.span.to(cursor.last))
    if first.kind == "duration":
        return Literal("duration", first.text, first.span)
    assert isinstance(first.value, int | float), "the lexer says so"
    return Literal("number", first.value, first.span)


def _listing(cursor: TokenCursor) -> Listing:
    opened = cursor.next()
    values: list[Value] = []
    with cursor.deeper():
        while not cursor.accept("]"):
            values.append(parse_literal(cursor))
            if not cursor.accept(",") and not cursor.peek().is_mark("]"):
                cursor.wanted("',' or ']'")
    return Listing(values, opened.span.to(cursor.last))


def _entries(cursor: TokenCursor) -> MapSyntax:
    opened = cursor.next()
    settings: dict[str, Setting] = {}
    with cursor.deeper():
        while not cursor.accept("}"):
            key = parse_key(cursor, "a name or '}'")
            cursor.expect(":", repr(key.text))
            if key.text in settings:
                cursor.note(f"{key.text!r} is here twice", key.span)
            settings[key.text] = Setting(key, parse_literal(cursor), key.span.to(cursor.last))
            cursor.accept(",", ";")
    return MapSyntax(list(settings.values()), opened.span, opened.span.to(cursor.last))
