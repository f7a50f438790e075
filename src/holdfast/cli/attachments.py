"""`holdfast attach` and `holdfast detach`: which queues a consumer takes from, changed while it runs."""

from __future__ import annotations

import click

from holdfast import Holdfast
from holdfast.cli.options import client_options, open_client
from holdfast.core.queue import EMPTY


@click.command()
@click.argument("consumer")
@click.argument("queue")
@click.option("--weight", type=float, help="How often the queue has its turn beside the others: 2 is twice as often.")
@click.option("--empty", type=click.Choice(EMPTY), help="What the consumer does when nothing is left.")
@client_options
def attach(consumer: str, queue: str, weight: float | None, empty: str | None, url: str, tenant: str) -> None:
    """Have a consumer take from a queue. Running ones follow at once, those that start later too."""
    with open_client(url, tenant, strict=True) as hf:
        hf.attach(consumer, queue, weight=weight, empty=empty)
        click.echo(f"{consumer!r} takes from {queue!r}: {_running(hf, consumer)}.")


@click.command()
@click.argument("consumer")
@click.argument("queue")
@client_options
def detach(consumer: str, queue: str, url: str, tenant: str) -> None:
    """Have a consumer take nothing more from a queue; what it has in hand it finishes."""
    with open_client(url, tenant) as hf:
        hf.detach(consumer, queue)
        click.echo(f"{consumer!r} takes nothing more from {queue!r}: {_running(hf, consumer)}.")


def _running(hf: Holdfast, consumer: str) -> str:
    """Whom it concerns; a name that was mistyped shows here."""
    count = sum(one.consumer == consumer for one in hf.consumers())
    return f"{count:,} running" if count else "none of that name is running now"
