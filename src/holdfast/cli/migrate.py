"""`holdfast migrate`: the database's structure, by us or by hand."""

from __future__ import annotations

import click

from holdfast.errors import InvalidInput
from holdfast.settings import Settings
from holdfast.store.opening import migration_script, open_store

KINDS = ("sqlite", "postgresql", "postgres")

PATIENCE = 10.0
"""Seconds to wait for a database that is locked or away: someone sits in front of this."""


@click.command()
@click.option("--db", "url", required=True, metavar="URL", envvar="HOLDFAST_DB", show_envvar=True, help="The database.")
@click.option("--sql", is_flag=True, help="Print the SQL instead; only the kind of URL is looked at.")
def migrate(url: str, sql: bool) -> None:
    """Bring a database up to this version of Holdfast.

    Safe to repeat and safe to run from several places at once. With --sql nothing is opened and nothing is changed:

    \b
        holdfast migrate --db sqlite:///work.db
        holdfast migrate --db postgresql: --sql | psql …
    """
    if sql:
        click.echo(migration_script(known_kind(url)))
        return
    store = open_store(Settings(url, patience=PATIENCE))
    try:
        ran = store.schema.migrate()
        version = store.schema.version()
    finally:
        store.close()
    for name in ran:
        click.echo(f"ran {name}")
    click.echo(f"the database is up to date (schema {version})")


def known_kind(url: str) -> str:
    """The part of a URL that says which database it is."""
    kind = url.partition(":")[0]
    if kind not in KINDS:
        raise InvalidInput(f"{kind!r} is not a kind of database; write --db sqlite: or --db postgresql:")
    return kind
