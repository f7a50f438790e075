"""`holdfast queues pause|resume|purge|blocked|unblock`: what an operator does with one queue.

Where a queue is asked for, the address of a group (TOPIC/GROUP) will do. The queue must have been declared: a mistyped
name must not create one.
"""

from __future__ import annotations

import click

from holdfast.cli.options import client_options, json_option, open_client
from holdfast.cli.tables import moment, show_json, show_table


@click.command()
@click.argument("queue")
@client_options
def pause(queue: str, url: str, tenant: str) -> None:
    """Hand out no more messages of a queue until it is resumed. Enqueueing goes on, running handlers finish."""
    with open_client(url, tenant, strict=True) as hf:
        hf.queues.pause(queue)
    click.echo(f"{queue} is paused.")


@click.command()
@click.argument("queue")
@client_options
def resume(queue: str, url: str, tenant: str) -> None:
    """End the pause of a queue. A queue whose budget is spent stays paused until there is more to spend."""
    with open_client(url, tenant, strict=True) as hf:
        hf.queues.resume(queue)
        paused = hf.queues.is_paused(queue)
    click.echo(f"{queue} stays paused: its budget is spent." if paused else f"{queue} goes on.")


@click.command()
@click.argument("queue")
@click.option("--yes", is_flag=True, help="Do not ask.")
@client_options
def purge(queue: str, yes: bool, url: str, tenant: str) -> None:
    """Remove all pending messages of a queue for good; those that are being worked on stay."""
    with open_client(url, tenant, strict=True) as hf:
        if not yes:
            count = hf.stats(queue).queue_depth
            if not count:
                click.echo(f"{queue} has no pending messages.")
                return
            click.confirm(f"Remove {count:,} pending messages of {queue} for good?", abort=True)
        done = hf.queues.purge(queue)
    click.echo(f"{done:,} removed")


@click.command()
@click.argument("queue")
@click.option("-n", "count", type=click.IntRange(1, 100_000), default=100, show_default=True, help="How many at most.")
@client_options
@json_option
def blocked(queue: str, count: int, url: str, tenant: str, as_json: bool) -> None:
    """List the keys of an ordered queue that wait behind a dead letter, longest first.

    Replaying the dead letter, or `unblock`, lets a key go on.
    """
    with open_client(url, tenant, strict=True) as hf:
        found = hf.queues.blocked(queue, count)
    if as_json:
        show_json(found)
    elif found:
        show_table(
            ("key", "dead letter", "blocked since", "waiting"),
            [(one.key, one.dead_id, moment(one.blocked_at), one.waiting) for one in found],
            right=("waiting",),
        )
    else:
        click.echo(f"{queue} has no blocked keys.")


@click.command()
@click.argument("queue")
@click.argument("key", required=False)
@client_options
def unblock(queue: str, key: str | None, url: str, tenant: str) -> None:
    """Let a blocked KEY go on without its dead letter; without a KEY, a fifo queue."""
    with open_client(url, tenant, strict=True) as hf:
        done = hf.queues.unblock(queue, key)
    what = queue if key is None else f"{key!r} of {queue}"
    click.echo(f"{what} goes on." if done else f"{what} was not blocked.")
