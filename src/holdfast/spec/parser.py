"""From tokens to a document. It finds a new beginning after every mistake, so that one run shows all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from holdfast.core import expressions
from holdfast.core.expressions.cursor import Lost, TokenCursor
from holdfast.core.expressions.lexer import LexerToken
from holdfast.core.expressions.source import Span, did_you_mean
from holdfast.spec.document import (
    Block,
    CommandSyntax,
    Document,
    Formula,
    ForwardSyntax,
    Item,
    Literal,
    MapSyntax,
    Setting,
    Typed,
    Value,
    Word,
)
from holdfast.spec.grammar import Grammar, GrammarWord, hint_for
from holdfast.spec.literals import parse_key, parse_literal
from holdfast.spec.model import Spec
from holdfast.spec.shapes import parse_shape

MOST_PROBLEMS = 100
"""After so many the rest of a file is not looked at: it is another language."""

_APP = GrammarWord("app", "named", Spec)

T = TypeVar("T")


class Parser:
    """Reads one file."""

    def __init__(self, cursor: TokenCursor) -> None:
        self._cursor = cursor
        self._grammars: list[Grammar] = []
        self.skipped: list[tuple[int, list[LexerToken]]] = []
        """What was left out to find a new beginning, and where in the text that was."""

    def document(self) -> Document:
        """All apps of a file; there should be one. What stands outside is taken to belong to it, but noted."""
        document, outside = Document(), list[Item]()
        while self._cursor.peek().kind != "end":
            start = self._cursor.place
            try:
                self._top(document, outside)
            except Lost:
                self._recover(start)
            self._give_up_on_too_many()
        if outside and not document.apps:
            name, whole = Word("app", Span(0, 1)), Span(0, self._cursor.last.end)
            document.apps.append(Block(name, name, _APP, [], Span(0, 1), whole))
        if outside:
            document.apps[0].items.extend(outside)
        return document

    def _top(self, document: Document, outside: list[Item]) -> None:
        cursor, token = self._cursor, self._cursor.peek()
        if cursor.at_word("app"):
            document.apps.append(self._app(cursor.next()))
            return
        if cursor.accept("}"):
            cursor.note("this '}' closes nothing", token.span)
        elif cursor.accept(",", ";"):
            pass
        elif token.kind == "name" and token.text in _APP.inside:
            cursor.note(f"{token.text!r} stands outside of the app", token.span, "put it into: app Name { … }")
            self._grammars = []
            outside.append(self._item(_APP.inside))
        else:
            cursor.wanted("app Name { … }", did_you_mean(token.text, ["app", *_APP.inside]))

    def _app(self, word: LexerToken) -> Block:
        self._grammars = []
        return self._block(Word(word.text, word.span), _APP)

    # --- blocks -------------------------------------------------------------------------------------------------------

    def _item(self, grammar: Grammar) -> Item:
        key = parse_key(self._cursor, "a setting or a block", dotted=False)
        entry = grammar.get(key.text)
        if entry is None:
            self._cursor.fail(f"{key.text!r} has no meaning here", key.span, self._hint(key.text, grammar))
        return self._block(key, entry) if entry.is_block else self._setting(key, entry)

    def _hint(self, word: str, grammar: Grammar) -> str:
        if (known := hint_for(word, grammar)) is not None:
            return known
        for name, entry in grammar.items():
            if entry.kind == "block" and word in entry.inside:
                return f"it belongs into {name} {{ … }}"
        for outer in self._grammars:
            if word in outer and outer is not grammar:
                return "it belongs further out: is a '}' missing above?"
        return did_you_mean(word, grammar) or f"here may stand: {', '.join(grammar)}"

    def _block(self, keyword: Word, entry: GrammarWord) -> Block:
        cursor, name = self._cursor, None
        if entry.kind != "block":
            name = self._name(keyword)
        else:
            cursor.accept(":")
        opened = cursor.expect("{", f"{keyword.text} {name.text}" if name else keyword.text)
        grammar = entry.inside
        self._grammars.append(grammar)
        try:
            items = self._until_closed(opened, lambda: self._item(grammar))
        finally:
            self._grammars.pop()
        return Block(keyword, name, entry, items, opened.span, keyword.span.to(cursor.last))

    def _name(self, keyword: Word) -> Word:
        """The name of a block. Without one its inside can be read all the same."""
        cursor, token = self._cursor, self._cursor.peek()
        what = f"the name of the {keyword.text}"
        if not token.is_mark("{"):
            return parse_key(cursor, what)
        cursor.note(f"expected {what}, found {token}", token.span)
        line, column = cursor.source.place(token.span.start)
        return Word(f"{_UNNAMED}{line}:{column}", token.span)

    def _until_closed(self, opened: LexerToken, item: Callable[[], T]) -> list[T]:
        """What stands between braces, the first of which was taken. After a mistake it goes on with what comes next."""
        cursor, found = self._cursor, list[T]()
        with cursor.deeper():
            while not cursor.accept("}"):
                if cursor.accept(",", ";"):
                    continue
                token = cursor.peek()
                if token.kind == "end" or self._belongs_outside(token):
                    self._note_unclosed(opened, token)
                    break
                start = cursor.place
                try:
                    found.append(item())
                except Lost:
                    self._recover(start)
                self._give_up_on_too_many()
        return found

    def _belongs_outside(self, token: LexerToken) -> bool:
        """Whether this begins a block that only an outer block can have: then the braces were not closed."""
        if not self._grammars or token.kind != "name" or token.text in self._grammars[-1]:
            return False
        after = self._cursor.peek(1)
        named = after.kind in ("name", "string") and self._cursor.peek(2).is_mark("{", ".")
        outer = (grammar.get(token.text) for grammar in self._grammars[:-1])
        return named and any(entry is not None and entry.is_block for entry in outer)

    def _note_unclosed(self, opened: LexerToken, token: LexerToken) -> None:
        if token.kind == "end":
            if not any(problem.message == _UNCLOSED for problem in self._cursor.problems):
                self._cursor.note(_UNCLOSED, opened.span, "add a '}' where it ends")
        else:
            line, _ = self._cursor.source.place(opened.span.start)
            self._cursor.note(f"expected '}}' before {token}", token.span, f"the '{{' of line {line} is still open")

    def _recover(self, start: int) -> None:
        """Goes on to what looks like the next setting or block: first in its line, inside of the same braces."""
        cursor = self._cursor
        depth = 0
        skipped = [cursor.peek(back) for back in range(start - cursor.place, 0)]
        self.skipped.append(((skipped or [cursor.peek()])[0].span.start, skipped))
        for token in skipped:
            depth += _depth(token)
        if cursor.place == start and not cursor.peek().is_mark("}"):
            skipped.append(cursor.next())
            depth += _depth(skipped[-1])
        while (token := cursor.peek()).kind != "end":
            if depth <= 0 and (token.is_mark("}") or self._begins(token)):
                return
            skipped.append(cursor.next())
            depth += _depth(token)

    def _begins(self, token: LexerToken) -> bool:
        between = self._cursor.source.text[self._cursor.last.end : token.span.start]
        after = self._cursor.peek(1)
        return (
            "\n" in between
            and token.kind in ("name", "string")
            and (after.is_mark(":", "{") or after.kind in ("name", "string", "int", "float", "duration"))
        )

    def _give_up_on_too_many(self) -> None:
        if len(self._cursor.problems) >= MOST_PROBLEMS:
            while self._cursor.peek().kind != "end":
                self._cursor.next()

    # --- values -------------------------------------------------------------------------------------------------------

    def _setting(self, key: Word, entry: GrammarWord) -> Setting:
        cursor = self._cursor
        with_braces = entry.kind in ("fields", "map") and cursor.peek().is_mark("{")
        if not with_braces:
            cursor.expect(":", repr(key.text))
        value = self._value(entry)
        self._refuse_the_next_setting(key)
        return Setting(key, value, key.span.to(cursor.last), entry)

    def _refuse_the_next_setting(self, key: Word) -> None:
        """A value that is missing, or breaks off, takes the name of the next setting for a part of itself."""
        cursor = self._cursor
        if cursor.peek().is_mark(":", "{"):
            cursor.back()
            if self._begins(cursor.peek()):
                end = cursor.last.end
                cursor.fail(f"the value of {key.text!r} is missing, or not finished", Span(end - 1, end))
            cursor.next()

    def _value(self, entry: GrammarWord) -> Value:
        if entry.kind == "expression":
            return self._formula()
        if entry.kind == "call":
            return self._onward() if entry.field == "map_to" and self._names_a_queue() else self._command()
        if entry.kind == "fields":
            return self._entries(self._typed)
        if entry.kind == "map":
            return self._entries(lambda: parse_literal(self._cursor))
        return parse_literal(self._cursor)

    def _entries(self, value: Callable[[], Value]) -> MapSyntax:
        opened = self._cursor.expect("{")
        seen: set[str] = set()

        def setting() -> Setting:
            key = parse_key(self._cursor, "a name or '}'")
            if key.text in seen:
                self._cursor.note(f"{key.text!r} is here twice", key.span)
            seen.add(key.text)
            self._cursor.expect(":", repr(key.text))
            found = value()
            self._refuse_the_next_setting(key)
            return Setting(key, found, key.span.to(self._cursor.last))

        self._grammars.append({})
        try:
            settings = self._until_closed(opened, setting)
        finally:
            self._grammars.pop()
        return MapSyntax(settings, opened.span, opened.span.to(self._cursor.last))

    def _formula(self) -> Formula:
        start = self._cursor.peek().span
        node = expressions.parse(self._cursor)
        return Formula(node, start.to(self._cursor.last))

    def _typed(self) -> Typed:
        start = self._cursor.peek().span
        shape = parse_shape(self._cursor)
        return Typed(shape, start.to(self._cursor.last))

    def _names_a_queue(self) -> bool:
        return self._cursor.at_word("queue") and self._cursor.peek(1).kind in ("name", "string")

    def _onward(self) -> ForwardSyntax:
        cursor, start = self._cursor, self._cursor.next().span
        queue = parse_literal(cursor)
        assert isinstance(queue, Literal), "a name or a text follows"
        inputs = self._entries(self._formula) if cursor.peek().is_mark("{") else None
        return ForwardSyntax(queue, inputs, Span(start.start, cursor.last.end))

    def _command(self) -> CommandSyntax:
        cursor, start = self._cursor, self._cursor.peek().span
        if cursor.at_word("command") and cursor.peek(1).kind == "name":
            cursor.next()
        entity = cursor.expect_name("a command", "write it like Incident.CreateIncident { title: payload.title }")
        cursor.expect(".", entity.text, "a command has the name of an entity in front, like Incident.CreateIncident")
        command = cursor.expect_name("the name of the command")
        inputs = self._entries(self._formula) if cursor.peek().is_mark("{") else None
        return CommandSyntax(_word(entity), _word(command), inputs, Span(start.start, cursor.last.end))


def is_unnamed(name: Word) -> bool:
    """Whether this stands for a name that was not given."""
    return name.text.startswith(_UNNAMED)


_UNNAMED = "? at "
_UNCLOSED = "this '{' is never closed"


def _word(token: LexerToken) -> Word:
    return Word(token.text, token.span)


def _depth(token: LexerToken) -> int:
    return 1 if token.is_mark("{") else -1 if token.is_mark("}") else 0
