"""`holdfast queues peek`: the next messages, without taking them."""

from __future__ import annotations

import click

from holdfast.cli.options import client_options, json_option, open_client
from holdfast.cli.tables import moment, plain, show_json, show_table


@click.command()
@click.argument("queue")
@click.option("-n", "count", type=click.IntRange(1, 100_000), default=10, show_default=True, help="How many at most.")
@client_options
@json_option
def peek(queue: str, count: int, url: str, tenant: str, as_json: bool) -> None:
    """Show the next messages of a queue in the order of claiming. Nothing is claimed."""
    with open_client(url, tenant, strict=True) as hf:
        messages = hf.queues.peek(queue, count)
    if as_json:
        show_json(plain(message) for message in messages)
    elif messages:
        show_table(
            ("id", "priority", "key", "enqueued", "body"),
            [(m.id, m.priority, m.key, moment(m.enqueued_at), m.raw_body.decode()) for m in messages],
        )
    else:
        click.echo(f"{queue!r} has nothing that could be claimed now.")
