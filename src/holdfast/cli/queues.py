"""`holdfast queues`: what there is, and how much of it."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from holdfast import Holdfast
from holdfast.cli.options import client_options, json_option, open_client
from holdfast.cli.showing import show_json, show_table

COLUMNS = ("queue", "pending", "waiting", "processing", "dead", "state")


@click.command()
@client_options
@json_option
def queues(url: str, tenant: str, as_json: bool) -> None:
    """List all queues of a tenant: how many messages are where.

    `pending` can be claimed now, `waiting` is delayed or backing off, `processing` is in someone's hands.
    """
    with open_client(url, tenant) as hf:
        found = [_line(hf, name) for name in hf.queues()]
    if as_json:
        show_json(found)
    elif found:
        show_table(COLUMNS, [list(line.values()) for line in found], right=COLUMNS[1:5])
    else:
        click.echo(f"The tenant {tenant!r} has no queues yet: holdfast send QUEUE BODY makes one.")


def _line(hf: Holdfast, name: str) -> dict[str, Any]:
    counts = msgspec.structs.asdict(hf.stats(name))
    return {"queue": name, **counts, "state": "paused" if hf.is_paused(name) else "open"}
