"""`holdfast rebase`: a dump that was restored on another server becomes readable there."""

from __future__ import annotations

import click

from holdfast import Holdfast, NotFound
from holdfast.cli.options import PATIENCE, db_option
from holdfast.client.client import internals


@click.command()
@db_option
def rebase(url: str) -> None:
    """Make a database usable that was restored from another server's dump.

    Positions in a PostgreSQL queue are made of transaction numbers, and every server counts its own. Nothing else may
    use the database meanwhile. Where it is not needed, nothing is done.
    """
    with Holdfast(url, patience=PATIENCE) as hf:
        schema = internals(hf).store.schema
        if schema.version() == 0:
            raise NotFound("there is nothing of Holdfast in this database")
        if not schema.is_ahead():
            click.echo("nothing to do: this server can read the database as it is")
            return
        schema.rebase()
    click.echo("done: waiting messages are in their old order, open leases have ended, finished history is gone")
