"""`holdfast maintain`: what clients that claim do by themselves, for queues that nobody claims from."""

from __future__ import annotations

import click

from holdfast.cli.options import client_options, open_client


@click.command()
@client_options
def maintain(url: str, tenant: str) -> None:
    """Take back ended leases, expire messages, prune what is over, fire schedules: once, until nothing is left.

    Clients that claim do this by themselves. For the rest, run it from cron.
    """
    done = 0
    with open_client(url, tenant) as hf:
        while found := hf.maintain():
            done += found
    click.echo(f"{done:,} thing(s) done." if done else "Nothing to do.")
