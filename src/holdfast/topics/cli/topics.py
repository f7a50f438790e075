"""`holdfast topics`: what is published where, and how far its readers are."""

from __future__ import annotations

from typing import Any

import click

from holdfast import Holdfast, NotFound
from holdfast.cli.options import client_options, json_option, open_client
from holdfast.cli.tables import show_json, show_settings, show_table

COLUMNS = ("topic", "mode", "groups", "lag", "oldest", "in flight", "dead letters", "lost")


@click.group()
def topics() -> None:
    """List topics, and show their settings."""


@topics.command("list")
@client_options
@json_option
def list_(url: str, tenant: str, as_json: bool) -> None:
    """List all topics of a tenant: how far behind the last of their groups is.

    `lag` is that of the group with the most messages before it, `oldest` for how many seconds a message has waited for
    one; the other numbers are those of all groups together. `holdfast groups list TOPIC` shows each.
    """
    with open_client(url, tenant) as hf:
        found = [_line(hf, name) for name in hf.topics.list()]
    if as_json:
        show_json(found)
    elif found:
        show_table(COLUMNS, [_cells(line) for line in found], right=COLUMNS[2:])
    else:
        click.echo(f"The tenant {tenant!r} has no topics yet: hf.topic(name) declares one.")


@topics.command()
@click.argument("topic")
@client_options
@json_option
def settings(topic: str, url: str, tenant: str, as_json: bool) -> None:
    """Show all settings of a topic, as stored. Durations are seconds."""
    with open_client(url, tenant) as hf:
        found = hf.topics.settings(topic)
    show_settings(found, as_json)


def _line(hf: Holdfast, name: str) -> dict[str, Any]:
    try:
        groups = hf.groups.list(name)
    except NotFound:
        return _as_queue(hf, name)
    return {
        "topic": name,
        "mode": "pubsub",
        "groups": len(groups),
        "lag": max((group.lag for group in groups), default=0),
        "oldest": max((group.oldest for group in groups if group.oldest is not None), default=None),
        "in_flight": sum(group.in_flight for group in groups),
        "dead_letters": sum(group.dead_letters for group in groups),
        "lost": sum(group.lost for group in groups),
    }


def _as_queue(hf: Holdfast, name: str) -> dict[str, Any]:
    """One that is a work queue has nobody who reads beside others."""
    stats = hf.stats(name)
    return {
        "topic": name,
        "mode": "queue",
        "groups": None,
        "lag": stats.queue_depth,
        "oldest": stats.age_of_oldest_item,
        "in_flight": stats.processing,
        "dead_letters": stats.dead,
        "lost": None,
    }


def _cells(line: dict[str, Any]) -> list[object]:
    oldest = line["oldest"]
    return [*list(line.values())[:4], "" if oldest is None else f"{oldest:.0f}", *list(line.values())[5:]]
