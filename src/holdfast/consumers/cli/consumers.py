"""`holdfast consumers`: who is at work, how busy, and with what."""

from __future__ import annotations

import click

from holdfast import ConsumerStatus, Work
from holdfast.cli.options import client_options, json_option, open_client
from holdfast.cli.tables import moment, show_json, show_table
from holdfast.consumers.cli.attachments import attach, attachments, detach
from holdfast.consumers.client import SATURATED
from holdfast.consumers.rules import amplification
from holdfast.core.times import readable

COLUMNS = ("consumer", "pool", "state", "queues", "saturation", "work", "handled", "failed", "host", "pid", "seen")
RIGHT = ("saturation", "handled", "failed", "pid")


@click.group()
def consumers() -> None:
    """List running consumers; attach them to queues and detach them."""


@consumers.command("list")
@click.option("--all", "everyone", is_flag=True, help="Those too that fell silent within the last hour.")
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    default=SATURATED,
    show_default=True,
    help="The saturation from which a consumer counts as amplifying.",
)
@client_options
@json_option
def list_(url: str, tenant: str, everyone: bool, threshold: float, as_json: bool) -> None:
    """List running consumers: their queues, how busy they are, and what they have in hand.

    `saturation` is the share of its time that a consumer spends working. The amplification below the table (as JSON: in
    every line) is how many of them reach the threshold.
    """
    with open_client(url, tenant) as hf:
        found = hf.consumers.list(alive=not everyone)
    amplified = amplification(found, threshold)
    if as_json:
        show_json({**readable(one), "amplification": amplified} for one in found)
    elif found:
        show_table(COLUMNS, [_cells(one) for one in found], right=RIGHT)
        click.echo(f"Amplification: {amplified} (saturation of {threshold:.0%} or more)")
    else:
        click.echo("No consumer is running.")


for command in (attach, detach, attachments):
    consumers.add_command(command)


def _cells(one: ConsumerStatus) -> list[object]:
    return [
        one.consumer,
        one.pool,
        one.state if one.alive else "dead",
        ", ".join(one.queues),
        f"{one.saturation:.0%}",
        _in_hand(one.work),
        one.handled,
        one.failed,
        one.host,
        str(one.pid),
        moment(one.seen_at),
    ]


def _in_hand(work: list[Work]) -> str:
    """The first of them, with its progress, and how many more there are."""
    if not work:
        return ""
    first, more = work[0], len(work) - 1
    told = "" if first.progress is None else f" {first.progress}"
    return f"{first.queue} {first.id}{told}" + (f" and {more} more" if more else "")
