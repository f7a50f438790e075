"""`holdfast dead-letters`, or `dlq`: dead letters, and what to do about them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from holdfast import DeadLetterRecord
from holdfast.cli.options import client_options, json_option, open_client
from holdfast.cli.tables import moment, plain, progress_bar, show_json, show_table
from holdfast.core.times import fields, readable
from holdfast.errors import NotFound


@click.group()
def dead_letters() -> None:
    """Look at dead letters, replay them, delete them. Short: dlq."""


def chosen(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which letters: by queue, error text, key and time of death."""
    for option in (
        click.option("--before", type=click.DateTime(), help="Died before this time (UTC)."),
        click.option("--since", type=click.DateTime(), help="Died at or after this time (UTC)."),
        click.option("--key", help="With this key."),
        click.option("--error", help="Whose error contains this text."),
        click.option("--queue", help="Of this queue; of all queues unless given."),
    ):
        command = option(command)
    return command


@dead_letters.command("list")
@chosen
@click.option("-n", "count", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many at most.")
@click.option("--after", metavar="ID", help="Go on after this dead letter.")
@client_options
@json_option
def list_(count: int, after: str | None, url: str, tenant: str, as_json: bool, **choice: Any) -> None:
    """List dead letters, oldest first."""
    with open_client(url, tenant) as hf:
        letters = hf.dead_letters.list(n=count, after=after, **_selection(choice))
        total = hf.dead_letters.count(**_selection(choice))
    if as_json:
        show_json(map(_plain, letters))
    elif letters:
        show_table(
            ("id", "queue", "died", "attempts", "error", "replay"),
            [
                (one.id, one.queue, moment(one.failed_at), one.attempts, _first(one), one.replay_state)
                for one in letters
            ],
            right=("attempts",),
        )
        click.echo(f"{len(letters):,} of {total:,}")
    else:
        click.echo("No dead letters.")


@dead_letters.command()
@click.argument("dead_id")
@client_options
def show(dead_id: str, url: str, tenant: str) -> None:
    """Show one dead letter whole, with its history, as JSON."""
    with open_client(url, tenant) as hf:
        letter = hf.dead_letters.get(dead_id)
    if letter is None:
        raise NotFound(f"there is no dead letter {dead_id}")
    click.echo(msgspec.json.format(msgspec.json.encode(readable(_plain(letter)))).decode())


@dead_letters.command()
@click.argument("dead_id", required=False)
@chosen
@click.option("--body", help="Another body for the one with DEAD_ID, as JSON.")
@click.option("--rate", type=float, help="At most so many per second.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@client_options
def replay(
    dead_id: str | None, body: str | None, rate: float | None, yes: bool, url: str, tenant: str, **choice: Any
) -> None:
    """Give one dead letter another life, or all that are chosen and had none.

    \b
        holdfast dead-letters replay 01890a5d-ac96-774b-bcce-b302099a8057
        holdfast dead-letters replay --queue emails --error timeout --rate 50
    """
    if (dead_id is None) == (not any(choice.values())):
        raise click.UsageError("give either a DEAD_ID, or --queue, --error, --key, --since or --before")
    with open_client(url, tenant) as hf:
        if dead_id is not None:
            receipt = hf.dead_letters.replay(dead_id, **({} if body is None else {"body": msgspec.json.decode(body)}))
            click.echo(f"replayed as {receipt.id}")
            return
        count = hf.dead_letters.count(fresh=True, **_selection(choice))
        if _agreed(f"Replay {count:,} dead letters?", count, yes):
            with progress_bar("replaying", count) as told:
                done = hf.dead_letters.replay_many(rate=rate, progress=told, **_selection(choice))
            click.echo(f"{done:,} replayed")


@dead_letters.command()
@chosen
@click.option("--yes", is_flag=True, help="Do not ask.")
@client_options
def delete(yes: bool, url: str, tenant: str, **choice: Any) -> None:
    """Delete all dead letters that are chosen, for good."""
    with open_client(url, tenant) as hf:
        count = hf.dead_letters.count(**_selection(choice))
        if _agreed(f"Delete {count:,} dead letters for good?", count, yes):
            with progress_bar("deleting", count) as told:
                done = hf.dead_letters.delete_many(progress=told, **_selection(choice))
            click.echo(f"{done:,} deleted")


def _selection(choice: dict[str, Any]) -> dict[str, Any]:
    """Times without a zone, as the command line reads them, are UTC, as those that it prints."""
    return {name: _utc(value) if isinstance(value, datetime) else value for name, value in choice.items()}


def _utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC)


def _agreed(question: str, count: int, yes: bool) -> bool:
    if not count:
        click.echo("No such dead letters.")
        return False
    return yes or click.confirm(question, abort=True)


def _plain(letter: DeadLetterRecord) -> dict[str, Any]:
    return {**fields(letter), "message": plain(letter.message)}


def _first(letter: DeadLetterRecord) -> str:
    lines = letter.error.splitlines()
    return lines[0] if lines else ""
