"""The SQL of both databases, in `.sql` files with blocks that begin with `-- name: verb`. A query is `file.verb`.

A block stands in exactly one place: in `shared` if both databases run the same text, else in `sqlite` or in `postgres`
(or in both of these, with different texts). Three rules make one text serve both:

- `:now` is the database's time. SQLite gets it as a parameter. PostgreSQL gets the query `clock.now` as a subquery,
  which is evaluated once and can be compared with an index.
- A cast (`:id::uuid`) tells PostgreSQL the type of a parameter. SQLite has no such syntax: it gets the text without.
- A row lock (`FOR UPDATE SKIP LOCKED`) is left out for SQLite, whose transaction has the only write lock.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)
_NOW = re.compile(r"(?<!:):now\b(?!::)")
_CAST = re.compile(r"::[a-z]\w*(\[\])?")
_LOCK = re.compile(r"\s+FOR (NO KEY )?(UPDATE|SHARE)( OF \w+)?( SKIP LOCKED)?\b")

_FOLDER = os.path.dirname(__file__)
"""As text: without POSIX, `Path` cannot be made, and importing must work there."""


def load_queries(database: str) -> dict[str, str]:
    """Return the queries of `sqlite` or `postgres`, shared ones included, by name."""
    shared, own = read_blocks("shared"), read_blocks(database)
    if twice := shared.keys() & own.keys():
        raise RuntimeError(f"these queries of {database} are shared, too: {', '.join(sorted(twice))}")
    if database == "sqlite":
        return {name: without_postgres(text) for name, text in shared.items()} | own
    return {name: with_clock(text, own["clock.now"]) for name, text in (shared | own).items()}


def load_migrations(database: str) -> list[tuple[int, str, str]]:
    """(number, name, text) of a database's migrations, in order, without holes."""
    found = []
    for file in sorted((Path(_FOLDER) / "migrations" / database).glob("*.sql")):
        found.append((int(file.stem[:3]), file.stem, file.read_text(encoding="utf-8")))
    if [number for number, _, _ in found] != list(range(1, len(found) + 1)):
        raise RuntimeError(f"the migrations of {database} are not numbered 1, 2, 3, …")
    return found


def without_postgres(text: str) -> str:
    """A shared query as SQLite runs it: without casts and row locks."""
    return _LOCK.sub("", _CAST.sub("", text))


def with_clock(text: str, clock: str) -> str:
    """A query as PostgreSQL runs it: a plain `:now` becomes the query `clock`. `:now::bigint` is left as it is."""
    return _NOW.sub(f"({clock})", text)


def read_blocks(folder: str) -> dict[str, str]:
    """The queries of one folder by name, as they are written."""
    return {
        f"{file.stem}.{name}": text
        for file in sorted((Path(_FOLDER) / folder).glob("*.sql"))
        for name, text in blocks(file.read_text(encoding="utf-8")).items()
    }


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
