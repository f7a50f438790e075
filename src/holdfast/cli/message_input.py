"""Messages from the command line, one or a file of them: what `send` and `publish` have in common."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

import click
import msgspec

from holdfast import Receipt
from holdfast.cli.tables import progress_bar, show_json

BATCH = 1_000

PutMany = Callable[..., list[Receipt]]


def message_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What may be said of a message, or of every line of a file."""
    for option in reversed(
        (
            click.option(
                "--lines",
                type=click.File("r"),
                metavar="FILE",
                help="Send every line of a file (- for standard input).",
            ),
            click.option(
                "--priority", default="normal", show_default=True, help="urgent, high, normal, low, or 0 to 3."
            ),
            click.option("--key", help="The ordering key."),
            click.option("--ttl", help="Expires if nobody has claimed it by then."),
            click.option("--idempotency-key", help="The same key again is the same message."),
            click.option("--correlation-id", help="Carried along."),
            click.option("--reply-to", help="Carried along."),
        )
    ):
        command = option(command)
    return command


def checked(body: str | None, lines: IO[str] | None, options: dict[str, Any]) -> dict[str, Any]:
    """The options as a client takes them."""
    if (body is None) == (lines is None):
        raise click.UsageError("give either a BODY or --lines FILE")
    if lines is not None and options["idempotency_key"] is not None:
        raise click.UsageError("one --idempotency-key for many messages would store only the first")
    options = {name: value for name, value in options.items() if value is not None}
    if str(options["priority"]).isdigit():
        options["priority"] = int(options["priority"])
    return options


def put_lines(put_many: PutMany, name: str, lines: Iterable[str], options: dict[str, Any], as_json: bool) -> None:
    """In transactions of a thousand: what was said to be stored is stored, whatever happens to the rest."""
    bodies = (value(line) for line in lines if line.strip())
    sent = 0
    with progress_bar(f"to {name}", None) as told:
        for batch in _batches(bodies):
            receipts = put_many(name, batch, **options)
            sent += len(receipts)
            told(sent, 0)
            if as_json:
                tell(receipts, name, as_json)
    if not as_json:
        click.echo(f"{sent:,} messages are in {name!r}")


def tell(receipts: list[Receipt], name: str, as_json: bool) -> None:
    """What is stored where."""
    if as_json:
        show_json({"id": receipt.id, "duplicate": receipt.duplicate} for receipt in receipts)
        return
    for receipt in receipts:
        click.echo(f"{receipt.id} {'was already' if receipt.duplicate else 'is'} in {name!r}")


def value(text: str) -> Any:
    """A body: JSON, or what is no JSON as text."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text.rstrip("\n")


def _batches(bodies: Iterator[Any]) -> Iterator[list[Any]]:
    while batch := list(itertools.islice(bodies, BATCH)):
        yield batch
