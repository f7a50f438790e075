"""`holdfast sagas`: where sagas are, what happened to one, and what an operator decides."""

from __future__ import annotations

import click

from holdfast import SagaStatus
from holdfast.cli.options import client_options, json_option, open_client
from holdfast.cli.tables import moment, show_json, show_table
from holdfast.errors import NotFound

COLUMNS = ("id", "name", "status", "at", "started", "moved", "trouble")
STEPS = ("step", "status", "tries", "queue", "trouble")
LINES = ("when", "what", "step", "who", "attempt", "error", "output")
NOTHING = "There is nothing to decide about it."


@click.group()
def sagas() -> None:
    """See where sagas are; cancel them, and decide about steps that failed."""


@sagas.command("list")
@click.option("--status", help="Only those with this status, such as compensation_failed.")
@click.option("--name", help="Only those of this definition.")
@click.option("-n", "--count", default=100, show_default=True, help="How many.")
@click.option("--after", help="Go on after this id.")
@client_options
@json_option
def list_(
    url: str, tenant: str, status: str | None, name: str | None, count: int, after: str | None, as_json: bool
) -> None:
    """List sagas in the order in which they were started."""
    with open_client(url, tenant) as hf:
        found = hf.sagas.list(status, name=name, n=count, after=after)
    if as_json:
        show_json(found)
    elif found:
        show_table(COLUMNS, [_cells(one) for one in found])
    else:
        click.echo("No sagas.")


@sagas.command()
@click.argument("saga_id")
@client_options
@json_option
def show(url: str, tenant: str, saga_id: str, as_json: bool) -> None:
    """Show one saga: its steps, and all that happened."""
    with open_client(url, tenant) as hf:
        found = hf.sagas.get(saga_id)
    if found is None:
        raise NotFound(f"there is no saga {saga_id!r}")
    if as_json:
        show_json([found])
        return
    click.echo(f"{found.id}: {found.name}, version {found.version}, {found.status}")
    show_table(
        STEPS, [(one.name, _state(one.status, one.undoing), one.tries, one.queue, one.error) for one in found.steps]
    )
    show_table(
        LINES,
        [(moment(one.at), one.what, one.step, one.who, one.attempt, one.error, one.output) for one in found.timeline],
    )


@sagas.command()
@click.argument("saga_id")
@click.option("--reason", help="Why; it stands in the history.")
@client_options
def cancel(url: str, tenant: str, saga_id: str, reason: str | None) -> None:
    """Undo what a saga has done so far."""
    with open_client(url, tenant) as hf:
        done = hf.sagas.cancel(saga_id, reason)
    click.echo(f"{saga_id} is canceled." if done else f"{saga_id} had turned round, or ended, before.")


@sagas.command()
@click.argument("saga_id")
@click.argument("step")
@client_options
def retry(url: str, tenant: str, saga_id: str, step: str) -> None:
    """Try a failed step, or a failed undo, once more."""
    with open_client(url, tenant) as hf:
        done = hf.sagas.retry(saga_id, step)
    click.echo(f"{step} of {saga_id} is tried again." if done else NOTHING)


@sagas.command()
@click.argument("saga_id")
@click.argument("step")
@click.option("--reason", required=True, help="Why; it stands in the history.")
@client_options
def skip(url: str, tenant: str, saga_id: str, step: str, reason: str) -> None:
    """Go on without a step, or without its undo."""
    with open_client(url, tenant) as hf:
        done = hf.sagas.skip(saga_id, step, reason)
    click.echo(f"{saga_id} goes on without {step}." if done else NOTHING)


@sagas.command()
@click.argument("saga_id")
@click.argument("step")
@client_options
def done(url: str, tenant: str, saga_id: str, step: str) -> None:
    """Say that a step, or its undo, was done by hand."""
    with open_client(url, tenant) as hf:
        is_done = hf.sagas.mark_done(saga_id, step)
    click.echo(f"{step} of {saga_id} is done." if is_done else NOTHING)


def _cells(one: SagaStatus) -> list[object]:
    open_steps = [step.name for step in one.steps if step.status in ("running", "compensating", "failed")]
    return [
        one.id,
        one.name,
        one.status,
        ", ".join(open_steps),
        moment(one.started_at),
        moment(one.updated_at),
        one.error,
    ]


def _state(status: str, undoing: bool) -> str:
    return f"undo {status}" if undoing and status == "failed" else status
