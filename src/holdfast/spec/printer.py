"""The canonical text of a document: two spaces per level, one setting per line, comments where they were.

What stood in one line stays in one line, if it fits. A comment inside of a value moves above its setting.
"""

from __future__ import annotations

import re

from holdfast.core.expressions import to_text
from holdfast.core.expressions.source import Span
from holdfast.spec.document import (
    Block,
    CommandSyntax,
    Formula,
    ForwardSyntax,
    Item,
    Listing,
    Literal,
    MapSyntax,
    Setting,
    Typed,
    Value,
)
from holdfast.spec.reading import ReadSpec
from holdfast.spec.shapes import quoted

WIDTH = 100

_DOTTED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


def format_reading(reading: ReadSpec) -> str:
    """The text of a file as it should be. The file must have been readable to its end."""
    assert reading.is_whole, "what was not understood would be lost"
    return _Printer(reading).text()


def name_text(name: str) -> str:
    """What something is called, in quotes if need be."""
    # After an expression a bare `in` would belong to it.
    return name if _DOTTED.fullmatch(name) and name != "in" else quoted(name)


class _Printer:
    def __init__(self, reading: ReadSpec) -> None:
        self._source = reading.source.text
        self._apps = reading.document.apps
        self._comments = list(reversed(reading.comments))
        self._lines: list[str] = []
        self._behind: dict[int, str] = {}
        """Comments behind lines, by the number of the line."""
        self._indent = 0
        self._done = 0
        """Up to here the source has been printed."""
        self._opening = True
        """Whether nothing has been printed since a brace was opened."""

    def text(self) -> str:
        for app in self._apps:
            self._block(app)
        self._comments_until(len(self._source) + 1)
        self._add_comments_behind()
        return "\n".join(self._lines) + "\n" if self._lines else ""

    # --- blocks and settings ------------------------------------------------------------------------------------------

    def _item(self, item: Item) -> None:
        if isinstance(item, Block):
            self._block(item)
        else:
            self._setting(item)

    def _block(self, block: Block) -> None:
        named = "" if block.name is None else f" {name_text(block.name.text)}"
        head = f"{block.keyword.text}{named} {{"
        if self._stays_flat(block.span, self._flat_block(block)):
            self._put(self._flat_block(block), block.span)
            return
        self._open(head, block.span.start, block.opened, apart=block.entry.kind == "named")
        for item in block.items:
            self._item(item)
        self._close(block.span.end)

    def _setting(self, setting: Setting) -> None:
        value = setting.value
        entries = (
            value.inputs
            if isinstance(value, CommandSyntax | ForwardSyntax)
            else value
            if isinstance(value, MapSyntax)
            else None
        )
        flat = self._flat_setting(setting)
        if entries is not None and not self._stays_flat(setting.span, flat):
            head = self._head(setting) + (
                self._aim(setting) + " {" if isinstance(value, CommandSyntax | ForwardSyntax) else "{"
            )
            self._open(head, setting.span.start, entries.opened)
            for inner in entries.settings:
                self._setting(inner)
            self._close(entries.span.end)
        elif isinstance(value, Listing) and not self._fits(flat):
            self._comments_until(setting.span.end)
            self._blank_as_before(setting.span.start)
            shown = [self._flat(one) for one in value.values]
            self._line(self._head(setting) + "[")
            self._lines.extend("  " * (self._indent + 1) + one + "," for one in shown[:-1])
            self._lines.extend("  " * (self._indent + 1) + one for one in shown[-1:])
            self._line("]")
            self._finish(setting.span.end)
        else:
            self._put(flat, setting.span)

    def _stays_flat(self, span: Span, flat: str) -> bool:
        """Whether it was in one line, and can be."""
        inside = any(span.start < comment.span.start < span.end for comment in reversed(self._comments))
        return "\n" not in self._source[span.start : span.end] and not inside and self._fits(flat)

    def _fits(self, flat: str) -> bool:
        return 2 * self._indent + len(flat) <= WIDTH

    # --- in one line --------------------------------------------------------------------------------------------------

    def _flat_block(self, block: Block) -> str:
        named = "" if block.name is None else f" {name_text(block.name.text)}"
        inside = [self._flat_block(one) if isinstance(one, Block) else self._flat_setting(one) for one in block.items]
        return f"{block.keyword.text}{named} {_braces(inside)}"

    def _flat_setting(self, setting: Setting) -> str:
        if isinstance(setting.value, CommandSyntax | ForwardSyntax):
            inputs = setting.value.inputs
            inside = "" if inputs is None else " " + self._flat(inputs)
            return self._head(setting) + self._aim(setting) + inside
        return self._head(setting) + self._flat(setting.value)

    def _head(self, setting: Setting) -> str:
        with_braces = setting.entry is not None and setting.entry.kind in ("fields", "map")
        return name_text(setting.key.text) + (" " if with_braces else ": ")

    def _aim(self, setting: Setting) -> str:
        value = setting.value
        if isinstance(value, ForwardSyntax):
            return f"queue {self._literal(value.queue)}"
        assert isinstance(value, CommandSyntax), "asked for nothing else"
        word = "" if setting.key.text == "command" else "command "
        return f"{word}{value.entity.text}.{value.command.text}"

    def _flat(self, value: Value) -> str:
        if isinstance(value, Formula):
            return to_text(value.node)
        if isinstance(value, Typed):
            return str(value.shape)
        if isinstance(value, Listing):
            return f"[{', '.join(self._flat(one) for one in value.values)}]"
        if isinstance(value, MapSyntax):
            return _braces([self._flat_setting(one) for one in value.settings])
        assert isinstance(value, Literal), "commands are written with their settings"
        return self._literal(value)

    def _literal(self, value: Literal) -> str:
        if value.form == "text":
            return quoted(str(value.value))
        if value.form in ("number", "fixed"):
            return "".join(self._source[value.span.start : value.span.end].split())
        return str(value.value)

    # --- lines and comments -------------------------------------------------------------------------------------------

    def _put(self, text: str, span: Span) -> None:
        self._comments_until(span.end)
        self._blank_as_before(span.start)
        self._line(text)
        self._finish(span.end)

    def _open(self, head: str, start: int, opened: Span, apart: bool = False) -> None:
        if apart:
            self._blank()
        self._comments_until(opened.start)
        self._blank_as_before(start)
        self._line(head)
        self._finish(opened.end)
        self._indent += 1
        self._opening = True

    def _close(self, end: int) -> None:
        self._comments_until(end)
        self._indent -= 1
        if self._opening and len(self._lines) - 1 not in self._behind:
            self._lines[-1] += "}"
        else:
            self._line("}")
        self._opening = False
        self._finish(end)

    def _line(self, text: str) -> None:
        self._lines.append("  " * self._indent + text)
        self._opening = False

    def _finish(self, end: int) -> None:
        """What was printed ended here; a comment behind it in the same line stays there."""
        self._done = end
        if self._comments and self._source[end : self._comments[-1].span.start].strip(" \t,;") == "":
            comment = self._comments.pop()
            self._behind[len(self._lines) - 1] = comment.text.rstrip()
            self._done = comment.span.end

    def _add_comments_behind(self) -> None:
        """In one column, where they are behind neighbouring lines."""
        for number in self._behind:
            if number - 1 in self._behind:
                continue
            last = number
            while last in self._behind:
                last += 1
            width = max(len(line) for line in self._lines[number:last])
            for place in range(number, last):
                self._lines[place] = f"{self._lines[place].ljust(width)}  {self._behind[place]}"

    def _comments_until(self, place: int) -> None:
        while self._comments and self._comments[-1].span.start < place:
            comment = self._comments.pop()
            self._blank_as_before(comment.span.start)
            self._line(comment.text.rstrip())
            self._done = comment.span.end

    def _blank_as_before(self, start: int) -> None:
        """A blank line where there was one, but never two, and none at the beginning of a block."""
        if self._source[self._done : start].count("\n") > 1:
            self._blank()

    def _blank(self) -> None:
        if not self._opening and self._lines[-1] != "":
            self._lines.append("")


def _braces(inside: list[str]) -> str:
    return f"{{ {', '.join(inside)} }}" if inside else "{}"
