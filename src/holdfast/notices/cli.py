"""`holdfast notices`: what waits for someone's answer, and answering."""

from __future__ import annotations

import click

from holdfast import Notice
from holdfast.cli.options import client_options, json_option, open_client
from holdfast.cli.tables import moment, show_json, show_table

COLUMNS = ("id", "kind", "about", "queue", "owner", "level", "repeats", "since", "climbs", "error")


@click.group()
def notices() -> None:
    """See which dead letters and other troubles wait for someone's answer, and answer."""


@notices.command("list")
@click.option("--owner", help="Only those that wait for this owner.")
@click.option("--queue", help="Only those of this queue.")
@click.option("--all", "everything", is_flag=True, help="Those that were acknowledged too.")
@click.option("-n", "count", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many at most.")
@click.option("--after", metavar="ID", help="Go on after this notice.")
@client_options
@json_option
def list_(
    url: str,
    tenant: str,
    owner: str | None,
    queue: str | None,
    everything: bool,
    count: int,
    after: str | None,
    as_json: bool,
) -> None:
    """List notices that wait for an answer, oldest first."""
    with open_client(url, tenant) as hf:
        found = hf.notices.list(owner, queue=queue, acknowledged=everything, n=count, after=after)
    if as_json:
        show_json(found)
    elif found:
        show_table(
            COLUMNS,
            [_cells(one) for one in found],
            right=("level", "repeats"),
        )
    else:
        click.echo("Nothing waits for an answer.")


@notices.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@click.option("--remark", help="What is being done about it.")
@client_options
def acknowledge(url: str, tenant: str, ids: tuple[str, ...], remark: str | None) -> None:
    """Acknowledge notices: they climb no further."""
    with open_client(url, tenant) as hf:
        done = hf.notices.acknowledge(*ids, remark=remark)
    click.echo(f"{done} of {len(ids)} acknowledged.")


def _cells(notice: Notice) -> list[object]:
    climbs = moment(notice.climbs_at)
    where = [notice.id, notice.kind, notice.about, notice.queue, notice.owner]
    return [*where, notice.level, notice.repeats or "", moment(notice.created_at), climbs, notice.error]
