"""`holdfast send`: messages from the command line, one or a file of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import IO, Any

import click
import msgspec

from holdfast import Holdfast, Receipt
from holdfast.cli.options import client_options, json_option, open_client
from holdfast.cli.showing import progress_bar, show_json

BATCH = 1_000


@click.command()
@click.argument("queue")
@click.argument("body", required=False)
@click.option("--lines", type=click.File("r"), metavar="FILE", help="Send every line of a file (- for standard input).")
@click.option("--priority", default="normal", show_default=True, help="urgent, high, normal, low, or 0 to 3.")
@click.option("--key", help="The ordering key.")
@click.option("--delay", default="0s", show_default=True, help='Not before this has passed: "90s", "24h".')
@click.option("--ttl", help="Expires if nobody has claimed it by then.")
@click.option("--idempotency-key", help="The same key again is the same message.")
@click.option("--correlation-id", help="Carried along.")
@click.option("--reply-to", help="Carried along.")
@client_options
@json_option
def send(
    queue: str, body: str | None, lines: IO[str] | None, url: str, tenant: str, as_json: bool, **options: Any
) -> None:
    """Enqueue a message whose BODY is JSON; what is no JSON is sent as text.

    \b
        holdfast send emails '{"to": "ada@example.com"}' --priority high
        holdfast send emails --lines bodies.jsonl
    """
    if (body is None) == (lines is None):
        raise click.UsageError("give either a BODY or --lines FILE")
    if lines is not None and options["idempotency_key"] is not None:
        raise click.UsageError("one --idempotency-key for many messages would store only the first")
    options = {name: value for name, value in options.items() if value is not None}
    if str(options["priority"]).isdigit():
        options["priority"] = int(options["priority"])
    with open_client(url, tenant) as hf:
        if lines is None:
            _tell([hf.enqueue(queue, _value(str(body)), **options)], queue, as_json)
        else:
            _send_lines(hf, queue, lines, options, as_json)


def _send_lines(hf: Holdfast, queue: str, lines: Iterable[str], options: dict[str, Any], as_json: bool) -> None:
    """In transactions of a thousand: what was said to be stored is stored, whatever happens to the rest."""
    bodies = (_value(line) for line in lines if line.strip())
    sent = 0
    with progress_bar(f"to {queue}", None) as told:
        for batch in _batches(bodies):
            receipts = hf.enqueue_many(queue, batch, **options)
            sent += len(receipts)
            told(sent, 0)
            if as_json:
                _tell(receipts, queue, as_json)
    if not as_json:
        click.echo(f"{sent:,} messages are in {queue!r}")


def _batches(bodies: Iterator[Any]) -> Iterator[list[Any]]:
    while batch := list(itertools.islice(bodies, BATCH)):
        yield batch


def _tell(receipts: list[Receipt], queue: str, as_json: bool) -> None:
    if as_json:
        show_json({"id": receipt.id, "duplicate": receipt.duplicate} for receipt in receipts)
        return
    for receipt in receipts:
        click.echo(f"{receipt.id} {'was already' if receipt.duplicate else 'is'} in {queue!r}")


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text.rstrip("\n")
