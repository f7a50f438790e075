"""`holdfast publish`: messages for every group of a topic."""

from __future__ import annotations

from typing import IO, Any

import click

from holdfast.cli.message_input import checked, message_options, put_lines, tell, value
from holdfast.cli.options import client_options, json_option, open_client


@click.command()
@click.argument("topic")
@click.argument("body", required=False)
@message_options
@client_options
@json_option
def publish(
    topic: str, body: str | None, lines: IO[str] | None, url: str, tenant: str, as_json: bool, **options: Any
) -> None:
    """Publish a message whose BODY is JSON to every group of a topic; what is no JSON is sent as text.

    The topic is the one that owns the name. A name that belongs to no topic may be that of an existing queue.

    \b
        holdfast publish orders.eu.created '{"id": 42}'
        holdfast publish orders.eu.created --lines bodies.jsonl
    """
    options = checked(body, lines, options)
    with open_client(url, tenant) as hf:
        if lines is None:
            tell([hf.publish(topic, value(str(body)), **options)], topic, as_json)
        else:
            put_lines(hf.publish_many, topic, lines, options, as_json)
