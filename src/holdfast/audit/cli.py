"""`holdfast audit`: what operators did."""

from __future__ import annotations

import click
import msgspec

from holdfast.cli.options import client_options, json_option, open_client
from holdfast.cli.tables import moment, show_json, show_table


@click.group()
def audit() -> None:
    """See what operators did."""


@audit.command("list")
@click.option("-n", "count", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many at most.")
@click.option("--before", type=int, metavar="ID", help="Go on before this record.")
@client_options
@json_option
def list_(count: int, before: int | None, url: str, tenant: str, as_json: bool) -> None:
    """List what operators did, and to how many messages, newest first."""
    with open_client(url, tenant) as hf:
        found = hf.audit.list(count, before=before)
    if as_json:
        show_json(found)
    elif found:
        show_table(
            ("id", "when", "who", "what", "queue", "which", "how many"),
            [
                (str(o.id), moment(o.at), o.actor, o.act, o.queue, msgspec.json.encode(o.about).decode(), o.count)
                for o in found
            ],
            right=("id", "how many"),
        )
    else:
        click.echo("The audit is empty.")
