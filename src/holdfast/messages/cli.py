"""`holdfast messages`: where a message is, and what happened to it; finding messages, cancelling one."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.message_input import value
from holdfast.cli.options import client_options, json_option, open_client
from holdfast.cli.tables import moment, plain, show_json, show_table
from holdfast.core.message import MessageStatus
from holdfast.core.timeline import timeline
from holdfast.core.times import fields
from holdfast.errors import NotFound

COLUMNS = ("queue", "state", "attempts", "due", "worker", "claimed", "leased until", "session")
FOUND = ("id", "queue", "state", "attempts", "key", "correlation id", "enqueued")
LINES = ("when", "what", "attempt", "worker", "error")


@click.group()
def messages() -> None:
    """Show where a message is, search for messages, cancel them."""


@messages.command()
@click.argument("message_id")
@client_options
@json_option
def show(message_id: str, url: str, tenant: str, as_json: bool) -> None:
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


@messages.command()
@click.option("--queue", help="In this queue; in all queues unless given.")
@click.option("--key", help="With this ordering key.")
@click.option("--correlation-id", help="With this correlation id.")
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="With this header. Repeatable.")
@click.option("-n", "count", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many at most.")
@click.option("--after", metavar="ID", help="Go on after this message.")
@client_options
@json_option
def search(
    url: str, tenant: str, headers: tuple[str, ...], count: int, after: str | None, as_json: bool, **choice: str | None
) -> None:
    """Find messages by key, correlation id and headers, in whatever state, oldest first.

    The VALUE of a header is JSON; what is no JSON is text. By headers alone, every message of the queue is read.
    """
    wanted = dict(_header(text) for text in headers)
    with open_client(url, tenant) as hf:
        found = hf.messages.search(headers=wanted or None, n=count, after=after, **choice)
    if as_json:
        show_json(_whole(one) for one in found)
    elif found:
        show_table(FOUND, [_line(one) for one in found], right=("attempts",))
    else:
        click.echo("No such messages.")


@messages.command()
@click.argument("message_id")
@client_options
def cancel(message_id: str, url: str, tenant: str) -> None:
    """End a message that is pending or being worked on. What was published to a topic cannot be taken back."""
    with open_client(url, tenant) as hf:
        done = hf.messages.cancel(message_id)
    click.echo(f"{message_id} is canceled." if done else f"{message_id} had ended before, or never was.")


def _header(text: str) -> tuple[str, Any]:
    name, equals, given = text.partition("=")
    if not name or not equals:
        raise click.UsageError(f"--header takes NAME=VALUE, not {text!r}")
    return name, value(given)


def _line(found: MessageStatus) -> tuple[object, ...]:
    carried = (None, None) if found.message is None else (found.message.key, found.message.correlation_id)
    return found.id, found.queue, found.state, found.attempts, *carried, moment(found.enqueued_at)


def _cells(found: MessageStatus) -> tuple[object, ...]:
    times = moment(found.claimed_at), moment(found.until)
    return found.queue, found.state, found.attempts, moment(found.due_at), found.worker, *times, found.session


def _whole(found: MessageStatus) -> dict[str, Any]:
    message = None if found.message is None else plain(found.message)
    return {**fields(found), "message": message, "timeline": timeline(found)}
