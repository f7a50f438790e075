"""`holdfast queues`: what there is, and how much of it; looking into one queue, and operating it."""

from __future__ import annotations

from typing import Any

import click

from holdfast import Holdfast
from holdfast.cli.options import client_options, json_option, open_client
from holdfast.cli.tables import show_json, show_settings, show_table
from holdfast.client.client import internals
from holdfast.core.stats import metrics
from holdfast.queues.cli.operate import blocked, pause, purge, resume, unblock
from holdfast.queues.cli.peek import peek

COUNTS = ("pending", "waiting", "processing", "dead")
COLUMNS = ("queue", *COUNTS, "consumers", "done/s", "failed/s", "oldest", "state", "delivery")


@click.group()
def queues() -> None:
    """List queues; show their settings, look into them, pause and purge them."""


@queues.command("list")
@client_options
@json_option
def list_(url: str, tenant: str, as_json: bool) -> None:
    """List all queues of a tenant: how many messages are where.

    `pending` can be claimed now, `waiting` is delayed or backing off, `processing` is in someone's hands. Rates are
    those of the last minute, `oldest` is for how many seconds a message has waited. `delivery` says who delivers, and
    how many messages SQS has. With --json, all ten metrics.
    """
    with open_client(url, tenant) as hf:
        found = [_line(hf, name) for name in hf.queues.list()]
    if as_json:
        show_json(found)
    elif found:
        show_table(COLUMNS, [_cells(line) for line in found], right=COLUMNS[1:-2])
    else:
        click.echo(f"The tenant {tenant!r} has no queues yet: holdfast send QUEUE BODY makes one.")


@queues.command()
@click.argument("name")
@client_options
@json_option
def settings(name: str, url: str, tenant: str, as_json: bool) -> None:
    """Show all settings of a queue, a topic, or a group (TOPIC/GROUP), as stored. Durations are seconds."""
    with open_client(url, tenant) as hf:
        found = hf.queues.settings(name)
    show_settings(found, as_json)


for command in (peek, pause, resume, purge, blocked, unblock):
    queues.add_command(command)


def _line(hf: Holdfast, name: str) -> dict[str, Any]:
    stats = hf.stats(name)
    counts = {count: getattr(stats, count) for count in COUNTS}
    return {
        "queue": name,
        **counts,
        **metrics(stats),
        "enqueued": stats.enqueued,
        "state": "paused" if hf.queues.is_paused(name) else "open",
        "delivery": _delivery(hf, name),
    }


def _delivery(hf: Holdfast, name: str) -> str:
    spec = internals(hf).catalog.channel(name).spec
    return spec.delivery if spec.sqs_queue is None else f"{spec.delivery} {spec.sqs_queue}"


def _cells(line: dict[str, Any]) -> list[object]:
    oldest = line["age_of_oldest_item"]
    return [
        line["queue"],
        *(line[count] for count in COUNTS),
        line["consumer_count"],
        f"{line['completion_rate']:.1f}",
        f"{line['failure_rate']:.1f}",
        "" if oldest is None else f"{oldest:.0f}",
        line["state"],
        line["delivery"] + (f" ({line['enqueued']})" if line["enqueued"] else ""),
    ]
