"""A place among the tokens of a spec, moved on by the parsers, which also notes what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from holdfast.core.expressions.lexer import LexerToken, tokens
from holdfast.core.expressions.source import Source, SourceProblem, Span

DEEPEST = 64
"""Brackets and blocks inside each other; also keeps the parsers far from Python's own limit."""


class Lost(Exception):
    """A parser cannot go on from here. The problem has been noted; catch this where a new beginning can be found."""


class TokenCursor:
    """The tokens of a source one by one, without its comments, and all problems found so far."""

    def __init__(self, source: Source) -> None:
        read, self.problems = tokens(source)
        self.source = source
        self.comments = [token for token in read if token.kind == "comment"]
        self.last = Span(0, 0)
        """Of the token that was taken last: where an unfinished thing ends."""
        self._tokens = [token for token in read if token.kind != "comment"]
        self._at = 0
        self._depth = 0

    @property
    def place(self) -> int:
        """How many tokens were taken."""
        return self._at

    def peek(self, ahead: int = 0) -> LexerToken:
        """The token that comes next, or one further on; the end stays the end."""
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def next(self) -> LexerToken:
        """Take the next token."""
        token = self.peek()
        if token.kind != "end":
            self._at += 1
            self.last = token.span
        return token

    def back(self) -> None:
        """Put the last token back."""
        self._at -= 1
        self.last = self._tokens[self._at - 1].span if self._at else Span(0, 0)

    def accept(self, *marks: str) -> LexerToken | None:
        """Take the next token if it is one of these signs."""
        return self.next() if self.peek().is_mark(*marks) else None

    def accept_word(self, *words: str) -> LexerToken | None:
        """Take the next token if it is one of these words."""
        return self.next() if self.at_word(*words) else None

    def at_word(self, *words: str) -> bool:
        """Whether one of these words comes next."""
        token = self.peek()
        return token.kind == "name" and token.text in words

    def expect(self, mark: str, after: str = "", hint: str | None = None) -> LexerToken:
        """Take this sign, or note that it is missing and get lost."""
        return self.accept(mark) or self.wanted(f"{mark!r}{after and ' after '}{after}", hint)

    def expect_name(self, what: str, hint: str | None = None) -> LexerToken:
        """Take a name (of a queue, a field …), or note that it is missing and get lost."""
        return self.next() if self.peek().kind == "name" else self.wanted(what, hint)

    def wanted(self, what: str, hint: str | None = None) -> NoReturn:
        """Something else should have come next."""
        token = self.peek()
        span = Span(self.last.end, self.last.end + 1) if token.kind == "end" else token.span
        self.fail(f"expected {what}, found {token}", span, hint)

    def note(self, message: str, span: Span, hint: str | None = None) -> None:
        """Remember a problem and go on."""
        self.problems.append(SourceProblem(message, span, hint))

    def fail(self, message: str, span: Span, hint: str | None = None) -> NoReturn:
        """Remember a problem and get lost."""
        self.note(message, span, hint)
        raise Lost(message)

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Inside one more bracket or block; a limit keeps a hostile text from exhausting the stack."""
        if self._depth >= DEEPEST:
            self.fail(f"this is nested more than {DEEPEST} levels deep", self.peek().span)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
