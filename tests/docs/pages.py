"""The pages that users read, and the examples on them."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

FENCE = re.compile(r"^```(\w*)\s*$")
EXCLUDED = re.compile(r"^<!-- no test: (.+) -->$")
SHOWN = re.compile(r"#\s*→\s*(.+?)\s*$")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


@dataclass(frozen=True)
class Block:
    """A fenced example: its language, the line it begins in, its text, and why it is not run, if it is not."""

    language: str
    line: int
    text: str
    excluded: str | None = None


def pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])


def blocks(markdown: str) -> Iterator[Block]:
    lines = markdown.splitlines()
    reason, start, language = None, None, ""
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if start is not None:
            if fence:
                yield Block(language, start, "\n".join(lines[start:number]) + "\n", reason)
                start, reason = None, None
        elif fence:
            start, language = number + 1, fence.group(1)
        elif found := EXCLUDED.match(line):
            reason = found.group(1)
        elif line.strip():
            reason = None


def links(markdown: str) -> list[str]:
    """Where a page points inside the repository."""
    prose = re.sub(r"^```.*?^```", "", markdown, flags=re.DOTALL | re.MULTILINE)
    return [target for target in LINK.findall(prose) if "://" not in target]


def run(block: Block, page: str, names: dict[str, Any]) -> None:
    """Runs an example. An expression followed by `# → value` must have that value."""
    text = "\n" * block.line + block.text
    lines = text.splitlines()
    for statement in ast.parse(text, page).body:
        shown = SHOWN.search(lines[(statement.end_lineno or statement.lineno) - 1])
        if not shown:
            exec(compile(ast.Module([statement], []), page, "exec"), names)
            continue
        assert isinstance(statement, ast.Expr), f"{page}:{statement.lineno}: only an expression has a value to show"
        value = eval(compile(ast.Expression(statement.value), page, "eval"), names)
        assert shown.group(1) in (repr(value), str(value)), f"{page}:{statement.lineno}: it is {value!r}"
