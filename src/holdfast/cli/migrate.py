"""`holdfast migrate`: the database's structure, by us or by hand."""

from __future__ import annotations

import click

from holdfast import Holdfast
from holdfast.cli.options import PATIENCE, db_option
from holdfast.client.client import internals
from holdfast.store.open import migration_script


@click.command()
@db_option
@click.option("--sql", is_flag=True, help="Print the SQL instead; only the kind of URL is looked at.")
def migrate(url: str, sql: bool) -> None:
    """Bring a database up to date, or print the SQL for it.

    Safe to repeat and safe to run from several places at once. With --sql nothing is opened and nothing is changed:

    \b
        holdfast migrate --db sqlite:///work.db
        holdfast migrate --db postgresql: --sql > holdfast.sql
    """
    if sql:
        click.echo(migration_script(url))
        return
    with Holdfast(url, patience=PATIENCE) as hf:
        ran = internals(hf).store.schema.migrate()
        version = internals(hf).store.schema.version()
    for name in ran:
        click.echo(f"ran {name}")
    click.echo(f"the database is up to date (schema {version})")
