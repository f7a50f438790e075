"""From a URL to a store."""

from __future__ import annotations

import os
import sys
from urllib.parse import parse_qsl, unquote, urlsplit

from holdfast.core.message import clean_text
from holdfast.core.redaction import without_password
from holdfast.errors import InvalidInput, shown
from holdfast.settings import Settings
from holdfast.store.api import Store
from holdfast.store.migrate import script

_FORMS = "sqlite:///relative.db, sqlite:////absolute.db or postgresql://user@host/database"


def open_store(settings: Settings) -> Store:
    """Opens what the URL names. Drivers are imported only when they are wanted."""
    if os.name != "posix":
        raise InvalidInput(f"Holdfast needs a POSIX system; {sys.platform} is not supported (on Windows, use WSL)")
    kind = settings.url.split(":", 1)[0] if isinstance(settings.url, str) else ""
    if kind == "sqlite":
        return _open_sqlite(settings)
    if kind in ("postgresql", "postgres"):
        return _open_postgres(settings)
    raise _no_url(settings.url)


def migration_script(url: str) -> str:
    """The SQL that creates everything Holdfast needs, for the kind of database that the URL names."""
    database = {"sqlite": "sqlite", "postgresql": "postgres", "postgres": "postgres"}.get(url.partition(":")[0])
    if database is None:
        raise _no_url(url)
    return script(database)


def _open_sqlite(settings: Settings) -> Store:
    from holdfast.store.sqlite import SqliteStore

    try:
        parts = urlsplit(settings.url)
    except ValueError as problem:
        raise InvalidInput(f"the url cannot be read ({problem}); write {_FORMS}") from None
    options = dict(parse_qsl(parts.query))
    engine, network = options.pop("engine", "apsw"), options.pop("network", "refuse")
    if options or network not in ("refuse", "allow"):
        unknown = next(iter(options), f"network={network}")
        raise InvalidInput(
            f"unknown option {unknown!r} in the URL; sqlite knows engine=apsw|stdlib and network=refuse|allow"
        )
    path = unquote(parts.path[1:])
    if parts.netloc or not path or path == ":memory:":
        raise InvalidInput("a sqlite URL names a file: sqlite:///relative.db or sqlite:////absolute.db")
    if clean_text(path) != path:
        raise InvalidInput(f"the path in the url may not hold NUL or lone surrogates: {shown(path)}")
    return SqliteStore(
        path, engine=engine, clock=settings.clock, patience=settings.patience, network=network == "allow"
    )


def _open_postgres(settings: Settings) -> Store:
    if not settings.url.partition(":")[2].startswith("//"):
        raise _no_url(settings.url)
    try:
        from holdfast.store.postgres import PostgresStore
    except ImportError as problem:
        raise InvalidInput(f"PostgreSQL needs its driver: pip install 'holdfast[postgres]' ({problem})") from problem
    return PostgresStore(settings.url, clock=settings.clock, patience=settings.patience)


def _no_url(url: object) -> InvalidInput:
    return InvalidInput(f"{shown(without_password(url))} is not a database URL; write {_FORMS}")
