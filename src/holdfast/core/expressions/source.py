"""A spec file as its author sees it: places in a text, and what is wrong there."""

from __future__ import annotations

import bisect
import difflib
from collections.abc import Iterable
from typing import Literal

import msgspec

_TAB = "\t"


class Span(msgspec.Struct, frozen=True):
    """From which character of a text to which; the second does not belong to it."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """From the beginning of this one to the end of another."""
        return Span(self.start, max(self.end, other.end))


class SourceProblem(msgspec.Struct, frozen=True):
    """Something that is wrong, or only odd, in a spec."""

    message: str
    span: Span
    hint: str | None = None
    severity: Literal["error", "warning"] = "error"


class Source:
    """The text of a spec, with a name to speak of it."""

    def __init__(self, text: str, name: str = "<spec>") -> None:
        self.text = text
        self.name = name
        self._lines = [0, *(place + 1 for place, letter in enumerate(text) if letter == "\n")]

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, both from 1."""
        line = bisect.bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def _end_of(self, line: int) -> int:
        return self._lines[line] - 1 if line < len(self._lines) else len(self.text)

    def show(self, problem: SourceProblem) -> str:
        """A problem for a terminal: where, what, the line with a caret below, and perhaps a way out."""
        line, column = self.place(problem.span.start)
        whole = self.text[self._lines[line - 1] : self._end_of(line)].rstrip("\r")
        margin = "".join("\t" if letter == "\t" else " " for letter in whole[: column - 1])
        width = max(1, min(problem.span.end, self._lines[line - 1] + len(whole)) - problem.span.start)
        said = [
            f"{self.name}:{line}:{column}: {problem.severity}: {problem.message}",
            f"  {''.join(letter if letter.isprintable() or letter == _TAB else '?' for letter in whole)}",
            f"  {margin}{'^' * width}",
        ]
        return "\n".join([*said, *([f"  {problem.hint}"] if problem.hint else [])])


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint at the known word that someone may have meant."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1)
    return f"did you mean {by_lower[close[0]]!r}?" if close else None
