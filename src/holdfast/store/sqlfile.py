"""SQL lives in `.sql` files, in blocks that begin with `-- name: verb`. A query is known as `file.verb`."""

from __future__ import annotations

import re
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)


def load_queries(package: str) -> dict[str, str]:
    """All blocks of a package's `queries` folder."""
    queries: dict[str, str] = {}
    for entry in sorted(files(package).joinpath("queries").iterdir(), key=lambda file: file.name):
        if entry.name.endswith(".sql"):
            for name, text in blocks(entry.read_text(encoding="utf-8")).items():
                queries[f"{entry.name[:-4]}.{name}"] = text
    return queries


def load_migrations(package: str) -> list[tuple[int, str, str]]:
    """(number, name, text) of a package's migrations, in order, without holes."""
    found = []
    for entry in files(package).joinpath("migrations").iterdir():
        if entry.name.endswith(".sql"):
            found.append((int(entry.name[:3]), entry.name[:-4], entry.read_text(encoding="utf-8")))
    found.sort()
    if [number for number, _, _ in found] != list(range(1, len(found) + 1)):
        raise RuntimeError(f"the migrations of {package} are not numbered 1, 2, 3, …")
    return found


def blocks(text: str) -> dict[str, str]:
    """The named blocks of one file, without their comments."""
    parts = _NAME.split(text)[1:]
    return {
        name: _COMMENT.sub("", body).strip().rstrip(";") for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


def statements(text: str) -> list[str]:
    """A migration's statements; one ends at a semicolon at the end of a line, functions are kept whole by `$$`."""
    found, current, quoted = [], [], False
    for line in _COMMENT.sub("", text).splitlines():
        current.append(line)
        if line.count("$$") % 2:
            quoted = not quoted
        if line.rstrip().endswith(";") and not quoted:
            found.append("\n".join(current).strip())
            current = []
    return [statement for statement in found if statement]
