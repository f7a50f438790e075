"""SQL lives in `.sql` files, in blocks that begin with `-- name: verb`. A query is known as `file.verb`."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)


def load_queries(package: str) -> dict[str, str]:
    """All blocks of a package's `queries` folder."""
    queries: dict[str, str] = {}
    for file in _sql_files(package, "queries"):
        for name, text in blocks(file.read_text(encoding="utf-8")).items():
            queries[f"{file.stem}.{name}"] = text
    return queries


def load_migrations(package: str) -> list[tuple[int, str, str]]:
    """(number, name, text) of a package's migrations, in order, without holes."""
    found = []
    for file in _sql_files(package, "migrations"):
        found.append((int(file.stem[:3]), file.stem, file.read_text(encoding="utf-8")))
    if [number for number, _, _ in found] != list(range(1, len(found) + 1)):
        raise RuntimeError(f"the migrations of {package} are not numbered 1, 2, 3, …")
    return found


def _sql_files(package: str, folder: str) -> list[Path]:
    return sorted(Path(str(import_module(package).__file__)).with_name(folder).glob("*.sql"))


def blocks(text: str) -> dict[str, str]:
    """The named blocks of one file, without their comments."""
    parts = _NAME.split(text)[1:]
    return {
        name: _COMMENT.sub("", body).strip().rstrip(";") for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


def is_transactional(text: str) -> bool:
    """Whether a migration runs in a transaction: not on PostgreSQL if its first line says `-- without transaction`."""
    return not text.startswith("-- without transaction\n")


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
