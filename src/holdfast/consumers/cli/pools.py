"""`holdfast pools`: how many members the pools have, and how busy they are."""

from __future__ import annotations

import click

from holdfast.cli.options import client_options, json_option, open_client
from holdfast.cli.tables import show_json, show_table

COLUMNS = ("pool", "members", "consumers", "saturation", "handled", "failed")


@click.group()
def pools() -> None:
    """List pools of consumers."""


@pools.command("list")
@client_options
@json_option
def list_(url: str, tenant: str, as_json: bool) -> None:
    """List the pools that have running members, over all processes and machines.

    `saturation` is the average of the members; `handled` and `failed` are sums.
    """
    with open_client(url, tenant) as hf:
        found = hf.pools.list()
    if as_json:
        show_json(found)
    elif found:
        rows = [
            (one.name, one.members, ", ".join(one.consumers), f"{one.saturation:.0%}", one.handled, one.failed)
            for one in found
        ]
        show_table(COLUMNS, rows, right=("members", "saturation", "handled", "failed"))
    else:
        click.echo("No pool has running members.")
