"""`holdfast groups`: who reads a topic, how far; stopping a group, putting it elsewhere, ending it."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from holdfast import GroupStatus, Holdfast, UnknownGroup
from holdfast.cli.options import client_options, json_option, open_client
from holdfast.cli.tables import moment, show_json, show_settings, show_table

COLUMNS = ("group", "state", "patterns", "lag", "oldest", "in flight", "dead letters", "lost", "members", "last seen")
RIGHT = ("lag", "oldest", "in flight", "dead letters", "lost", "members")


@click.group()
def groups() -> None:
    """See how far the groups of a topic are; pause, move and end them."""


@groups.command("list")
@click.argument("topic")
@client_options
@json_option
def list_(topic: str, url: str, tenant: str, as_json: bool) -> None:
    """List the groups of a topic: how far each is, and who reads.

    `lag` is how many messages are before it, `oldest` for how many seconds the first of them has waited, `lost` how
    many retention took from it.
    """
    with open_client(url, tenant) as hf:
        found = hf.groups.list(topic)
    if as_json:
        show_json(found)
    elif found:
        show_table(COLUMNS, [_cells(one) for one in found], right=RIGHT)
    else:
        click.echo(f"Nobody has subscribed to {topic!r}.")


@groups.command()
@click.argument("topic")
@click.argument("group")
@client_options
@json_option
def settings(topic: str, group: str, url: str, tenant: str, as_json: bool) -> None:
    """Show all settings of a group, as stored. Durations are seconds."""
    with open_client(url, tenant) as hf:
        found = hf.groups.settings(topic, group)
    show_settings(found, as_json)


@groups.command()
@click.argument("topic")
@click.argument("group")
@client_options
def pause(topic: str, group: str, url: str, tenant: str) -> None:
    """Stop a group until it is resumed; nothing is lost meanwhile."""
    with open_client(url, tenant) as hf:
        hf.queues.pause(f"{topic}/{group}")
    click.echo(f"{topic}/{group} is paused.")


@groups.command()
@click.argument("topic")
@click.argument("group")
@client_options
def resume(topic: str, group: str, url: str, tenant: str) -> None:
    """Let a paused group go on where it was."""
    with open_client(url, tenant) as hf:
        hf.queues.resume(f"{topic}/{group}")
    click.echo(f"{topic}/{group} goes on.")


@groups.command()
@click.argument("topic")
@click.argument("group")
@click.argument("to")
@client_options
def seek(topic: str, group: str, to: str, url: str, tenant: str) -> None:
    """Put a group elsewhere in its topic: TO is earliest, latest, a time, or the id of a message.

    Everything before counts as done, everything from there on is delivered, again where it was before.

    \b
        holdfast groups seek orders email 2026-11-01T08:00
    """
    with open_client(url, tenant) as hf:
        hf.groups.seek(group, _place(to), topic=topic)
        lag = _find(hf, topic, group).lag
    click.echo(f"{topic}/{group} has {lag:,} messages before it.")


@groups.command("accept-loss")
@click.argument("topic")
@click.argument("group")
@client_options
def accept_loss(topic: str, group: str, url: str, tenant: str) -> None:
    """Let a group go on without the messages that it lost while it was dead."""
    with open_client(url, tenant) as hf:
        lost = hf.groups.accept_loss(topic, group)
    click.echo(f"{topic}/{group} goes on without {lost:,} messages.")


@groups.command()
@click.argument("topic")
@click.argument("group")
@click.option("--yes", is_flag=True, help="Do not ask.")
@client_options
def cancel(topic: str, group: str, yes: bool, url: str, tenant: str) -> None:
    """End a group for good; it stays in the list, and nobody joins it again by mistake."""
    with open_client(url, tenant) as hf:
        _agree(hf, topic, group, "Cancel", yes)
        done = hf.groups.cancel(topic, group)
    click.echo(f"{topic}/{group} {'is' if done else 'was already'} canceled.")


@groups.command()
@click.argument("topic")
@click.argument("group")
@click.option("--yes", is_flag=True, help="Do not ask.")
@client_options
def remove(topic: str, group: str, yes: bool, url: str, tenant: str) -> None:
    """End a group and forget it, or forget one that was canceled; its dead letters stay."""
    with open_client(url, tenant) as hf:
        _agree(hf, topic, group, "Remove", yes)
        hf.groups.remove(topic, group)
    click.echo(f"{topic}/{group} is removed.")


def _agree(hf: Holdfast, topic: str, group: str, act: str, yes: bool) -> None:
    """Nothing is asked about what is owed nothing."""
    found = _find(hf, topic, group)
    owed = found.lag + found.in_flight
    if owed and not yes:
        click.confirm(f"{topic}/{group} is owed {owed:,} messages, which it would not get. {act} it?", abort=True)


def _find(hf: Holdfast, topic: str, group: str) -> GroupStatus:
    found = next((one for one in hf.groups.list(topic) if one.group == group), None)
    if found is None:
        raise UnknownGroup(f"nobody has subscribed to {topic!r} as {group!r}")
    return found


def _place(to: str) -> str | datetime:
    """Times without a zone are UTC, as those that are printed."""
    try:
        found = datetime.fromisoformat(to)
    except ValueError:
        return to
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _cells(one: GroupStatus) -> list[object]:
    return [
        one.group,
        one.state,
        ", ".join(one.patterns),
        one.lag,
        "" if one.oldest is None else f"{one.oldest:.0f}",
        one.in_flight,
        one.dead_letters,
        one.lost,
        len(one.members),
        moment(one.last_seen),
    ]
