"""`holdfast send`: messages from the command line, one or a file of them."""

from __future__ import annotations

from typing import IO, Any

import click

from holdfast.cli.message_input import checked, message_options, put_lines, tell, value
from holdfast.cli.options import client_options, json_option, open_client


@click.command()
@click.argument("queue")
@click.argument("body", required=False)
@click.option("--delay", default="0s", show_default=True, help='Not before this has passed: "90s", "24h".')
@message_options
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
    options = checked(body, lines, options)
    with open_client(url, tenant) as hf:
        if lines is None:
            tell([hf.enqueue(queue, value(str(body)), **options)], queue, as_json)
        else:
            put_lines(hf.enqueue_many, queue, lines, options, as_json)
