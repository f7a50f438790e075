"""`holdfast consumers attach|detach|attachments`: which queues a consumer takes from, changed while it runs."""

from __future__ import annotations

import click

from holdfast import Attachment, Holdfast
from holdfast.cli.options import client_options, json_option, open_client
from holdfast.cli.tables import moment, show_json, show_table
from holdfast.core.queue import EMPTY

COLUMNS = ("consumer", "queue", "state", "weight", "empty", "changed")


@click.command()
@click.argument("consumer")
@click.argument("queue")
@click.option("--weight", type=float, help="How often the queue has its turn beside the others: 2 is twice as often.")
@click.option("--empty", type=click.Choice(EMPTY), help="What the consumer does when nothing is left.")
@client_options
def attach(consumer: str, queue: str, weight: float | None, empty: str | None, url: str, tenant: str) -> None:
    """Have a consumer take from a queue. Running ones follow at once, those that start later too."""
    with open_client(url, tenant, strict=True) as hf:
        hf.consumers.attach(consumer, queue, weight=weight, empty=empty)
        click.echo(f"{consumer!r} takes from {queue!r}: {_running(hf, consumer)}.")


@click.command()
@click.argument("consumer")
@click.argument("queue")
@client_options
def detach(consumer: str, queue: str, url: str, tenant: str) -> None:
    """Have a consumer take nothing more from a queue; what it has in hand it finishes."""
    with open_client(url, tenant) as hf:
        hf.consumers.detach(consumer, queue)
        click.echo(f"{consumer!r} takes nothing more from {queue!r}: {_running(hf, consumer)}.")


@click.command()
@click.argument("consumer", required=False)
@client_options
@json_option
def attachments(consumer: str | None, url: str, tenant: str, as_json: bool) -> None:
    """List what was attached to consumers, and detached from them: all, or of one CONSUMER.

    What their code declares is not in it; nor is a weight or an answer to an empty queue that was left to the code.
    """
    with open_client(url, tenant) as hf:
        found = hf.consumers.attachments(consumer)
    if as_json:
        show_json(found)
    elif found:
        show_table(COLUMNS, [_cells(one) for one in found], right=["weight"])
    else:
        click.echo("Nothing was attached or detached.")


def _cells(one: Attachment) -> list[object]:
    state = "attached" if one.attached else "detached"
    return [one.consumer, one.queue, state, one.weight, one.empty, moment(one.changed_at)]


def _running(hf: Holdfast, consumer: str) -> str:
    """Whom it concerns; a name that was mistyped shows here."""
    count = sum(one.consumer == consumer for one in hf.consumers.list())
    return f"{count:,} running" if count else "none of that name is running now"
