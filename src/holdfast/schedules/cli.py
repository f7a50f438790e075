"""`holdfast schedules`: which messages are sent by the clock, stopping one, sending one now."""

from __future__ import annotations

import click

from holdfast import Schedule
from holdfast.cli.options import client_options, json_option, open_client
from holdfast.cli.tables import moment, show_json, show_table

COLUMNS = ("name", "when", "queue", "missed", "next", "last", "trouble")


@click.group()
def schedules() -> None:
    """See which messages are sent by the clock; pause, run and remove schedules."""


@schedules.command("list")
@client_options
@json_option
def list_(url: str, tenant: str, as_json: bool) -> None:
    """List all schedules of a tenant: when each fires next, and did last."""
    with open_client(url, tenant) as hf:
        found = hf.schedules.list()
    if as_json:
        show_json(found)
    elif found:
        show_table(COLUMNS, [_cells(one) for one in found])
    else:
        click.echo("No schedules.")


@schedules.command()
@click.argument("name")
@client_options
def pause(url: str, tenant: str, name: str) -> None:
    """Stop a schedule until it is resumed."""
    with open_client(url, tenant) as hf:
        hf.schedules.pause(name)
    click.echo(f"{name} is paused.")


@schedules.command()
@click.argument("name")
@client_options
def resume(url: str, tenant: str, name: str) -> None:
    """Let a paused schedule go on with its next slot."""
    with open_client(url, tenant) as hf:
        hf.schedules.resume(name)
    click.echo(f"{name} goes on.")


@schedules.command()
@click.argument("name")
@client_options
@json_option
def run(url: str, tenant: str, name: str, as_json: bool) -> None:
    """Send a schedule's message now, beside its plan."""
    with open_client(url, tenant) as hf:
        receipt = hf.schedules.run(name)
    if as_json:
        show_json([{"id": receipt.id}])
    else:
        click.echo(receipt.id)


@schedules.command()
@click.argument("name")
@client_options
def remove(url: str, tenant: str, name: str) -> None:
    """End a schedule; messages that it has sent stay."""
    with open_client(url, tenant) as hf:
        done = hf.schedules.remove(name)
    click.echo(f"{name} is removed." if done else f"There was no schedule {name}.")


def _cells(one: Schedule) -> list[object]:
    when = f"every {one.every:g} s" if one.cron is None else f"{one.cron} ({one.tz})"
    ahead = "paused" if one.paused else "never" if one.next_at is None else moment(one.next_at)
    last = moment(one.last_at)
    return [one.name, when, one.queue, one.missed, ahead, last, one.error]
