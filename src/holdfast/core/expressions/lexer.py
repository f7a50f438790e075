"""From letters to tokens, the same ones for the spec language and for its expressions.

It never gives up: what it cannot read is reported and left out. The last token is always the end.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from holdfast.core.expressions.source import Source, SourceProblem, Span

Kind = Literal["name", "int", "float", "duration", "string", "mark", "comment", "end"]

LONGEST_SPEC = 1_000_000
"""Letters; no spec of a person has more."""

_TOKEN = re.compile(
    r"""
      (?P<blank>[ \t\r\n]+)
    | (?P<comment>//[^\n]*|\#[^\n]*)
    | (?P<duration>(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+(?![A-Za-z0-9_]))
    | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
    | (?P<int>\d+)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<mark>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,;()\[\]{}=@])
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "/": "/", "b": "\b", "f": "\f"}


class LexerToken(msgspec.Struct, frozen=True):
    """A piece of a spec. `text` is as written; `value` is what a string or a number says."""

    kind: Kind
    text: str
    span: Span
    value: str | int | float | None = None

    def is_mark(self, *marks: str) -> bool:
        """Whether it is one of these signs."""
        return self.kind == "mark" and self.text in marks

    def __str__(self) -> str:
        """As an error speaks of it."""
        return "the end of the file" if self.kind == "end" else f"{self.text[:40]!r}"


def tokens(source: Source) -> tuple[list[LexerToken], list[SourceProblem]]:
    """All tokens of a text, comments too, and what could not be read."""
    text = source.text
    if len(text) > LONGEST_SPEC:
        return [_end(text)], [SourceProblem(f"a spec has at most {LONGEST_SPEC:,} characters", Span(0, 1))]
    found: list[LexerToken] = []
    problems: list[SourceProblem] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            at = _skip(text, at, problems)
            continue
        if match.lastgroup != "blank":
            found.append(_token(match, problems))
        at = match.end()
    return [*found, _end(text)], problems


def _end(text: str) -> LexerToken:
    return LexerToken("end", "", Span(len(text), len(text)))


def _skip(text: str, at: int, problems: list[SourceProblem]) -> int:
    """Past what is no token; a string that is not closed ends with its line."""
    if text[at] in "\"'":
        line_end = text.find("\n", at)
        end = len(text) if line_end < 0 else line_end
        problems.append(
            SourceProblem("this text has no end", Span(at, end), f"close it with {text[at]} on the same line")
        )
        return end
    problems.append(SourceProblem(f"{text[at]!r} has no meaning here", Span(at, at + 1)))
    return at + 1


def _token(match: re.Match[str], problems: list[SourceProblem]) -> LexerToken:
    kind, text, span = match.lastgroup, match.group(), Span(match.start(), match.end())
    value: str | int | float | None = None
    if kind == "string":
        value = _unescape(text[1:-1], span.start + 1, problems)
    elif kind == "int":
        value = _whole(text, span, problems)
    elif kind == "float":
        value = float(text)
        if value == float("inf"):
            problems.append(SourceProblem("this number is too large", span))
            value = 0.0
    return LexerToken(kind, text, span, value)  # type: ignore[arg-type]


def _whole(text: str, span: Span, problems: list[SourceProblem]) -> int:
    # Python itself refuses very long ones with a ValueError.
    if len(text) > 19 or int(text) >= 2**63:
        problems.append(SourceProblem("this number is too large", span, f"the largest is {2**63 - 1}"))
        return 0
    return int(text)


def _unescape(text: str, start: int, problems: list[SourceProblem]) -> str:
    def letter(match: re.Match[str]) -> str:
        code = match.group(1)
        if len(code) > 1 and (number := int(code[1:], 16)) <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF:
            return chr(number)
        if code in _ESCAPES:
            return _ESCAPES[code]
        where = Span(start + match.start(), start + match.end())
        problems.append(
            SourceProblem(f"{match.group()!r} is no letter that can be written", where, r"write \\ for a \ ")
        )
        return ""

    return _ESCAPE.sub(letter, text) if "\\" in text else text
