"""Databases of released versions, put where a test can open them, and a release that comes after this one."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import psycopg

from holdfast import Holdfast
from holdfast.client.client import internals
from holdfast.store.migrate import KnownMigrations, Migration, Migrator

FOLDER = Path(__file__).parent
RELEASES = sorted(path.parent.name for path in FOLDER.glob("*/expected.json"))

BURN = """
DO $$
BEGIN
    WHILE pg_current_xact_id()::text::bigint <= {} LOOP
        COMMIT;
    END LOOP;
END $$
"""
"""Let a server reach the number of a transaction, as the one that the dump is of had."""

TABLES = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'holdfast\\_%' ORDER BY relname"
FILE_TABLES = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'holdfast\\_%' ESCAPE '\\' ORDER BY name"
)
BY_PLACE = re.compile(r"enqueued_at,\s+place\)")
"""How functions of 0.1 end the list of a message's columns, by their places."""

FUNCTIONS = """
SELECT pg_get_functiondef(oid) FROM pg_proc
WHERE prosrc ~ 'holdfast_(message|read_)' OR prorettype = 'holdfast_message'::regtype ORDER BY proname
"""
"""Those that read or return whole rows of messages. Sessions keep their plans until the functions are replaced."""


def expected(release: str, url: str) -> dict[str, Any]:
    """What must be observable in its database: `now`, the `ids` of messages, open `leases`, and what was `shown`."""
    store = "sqlite" if url.startswith("sqlite") else "postgres"
    found: dict[str, Any] = json.loads((FOLDER / release / "expected.json").read_text())[store]
    return found


def unpack(release: str, url: str, path: Path) -> None:
    """Make the empty database of this URL the one of a release."""
    if url.startswith("sqlite"):
        path.write_bytes(gzip.decompress((FOLDER / release / "sqlite.db.gz").read_bytes()))
        return
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(BURN.format(expected(release, url)["transactions"]))
        connection.execute(gzip.decompress((FOLDER / release / "postgres.sql.gz").read_bytes()))


def next_migration(hf: Holdfast) -> Migration:
    """A migration as the next release may have it, and more: it adds a column to every table, and an index.

    On PostgreSQL, functions that read or return rows of messages are replaced in the same transaction.
    """
    is_file = hf.settings.url.startswith("sqlite")
    tables = [name for (name,) in rows(hf, FILE_TABLES if is_file else TABLES)]
    functions = [] if is_file else [text for (text,) in rows(hf, FUNCTIONS)]
    assert is_file or len(functions) > 1
    changed = [BY_PLACE.sub("enqueued_at, added_later, place)", text).replace("$function$", "$$") for text in functions]
    statements = [
        *(f"ALTER TABLE {name} ADD COLUMN added_later bigint DEFAULT 7" for name in tables),
        "CREATE INDEX holdfast_message_added ON holdfast_message (added_later)",
        *(text.rstrip() for text in changed),
    ]
    number = internals(hf).store.schema.newest + 1
    return number, f"{number:03}_added_later", "".join(f"{statement};\n" for statement in statements)


def make_newer(hf: Holdfast, *more: Migration) -> Holdfast:
    """Give a client that was not used yet the migrations of a release after this one."""
    schema = internals(hf).store.schema
    assert isinstance(schema, Migrator)
    internals(hf).store.schema = Migrator(schema._database, KnownMigrations([*schema.known.all, *more]))  # type: ignore[misc]
    return hf


def rows(hf: Holdfast, statement: str) -> list[tuple[Any, ...]]:
    """What a statement of a test's own returns."""
    if not hf.settings.url.startswith("sqlite"):
        with psycopg.connect(hf.settings.url) as connection:
            return connection.execute(statement.encode()).fetchall()
    found: list[tuple[Any, ...]] = internals(hf).store.database.read(lambda tx: tx._connection.rows(statement))  # type: ignore[attr-defined]
    return found
