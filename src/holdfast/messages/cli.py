"""`holdfast status`: where a message is, and what happened to it."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.options import client_options, json_option, open_client
from holdfast.cli.tables import moment, plain, show_json, show_table
from holdfast.core.message import MessageStatus
from holdfast.core.timeline import timeline
from holdfast.core.times import fields
from holdfast.errors import NotFound

COLUMNS = ("queue", "state", "attempts", "due", "worker", "claimed", "leased until", "session")
LINES = ("when", "what", "attempt", "worker", "error")


@click.command()
@click.argument("message_id")
@client_options
@json_option
def status(message_id: str, url: str, tenant: str, as_json: bool) -> None:
    """Show where a message is, and what happened to it."""
    with open_client(url, tenant) as hf:
        found = hf.status(message_id)
    if found is None:
        raise NotFound(f"there is no message {message_id}: it never was, or its history is over")
    if as_json:
        show_json([_whole(found)])
        return
    show_table(COLUMNS, [_cells(found)], right=("attempts",))
    steps = timeline(found)
    show_table(LINES, [(moment(one["at"]), *(one.get(name) for name in ("event", *LINES[2:]))) for one in steps])


def _cells(found: MessageStatus) -> tuple[object, ...]:
    times = moment(found.claimed_at), moment(found.until)
    return found.queue, found.state, found.attempts, moment(found.due_at), found.worker, *times, found.session


def _whole(found: MessageStatus) -> dict[str, Any]:
    message = None if found.message is None else plain(found.message)
    return {**fields(found), "message": message, "timeline": timeline(found)}
