"""`holdfast plan` and `holdfast apply`: a spec beside a database, and into it."""

from __future__ import annotations

import json
from typing import Any

import click

from holdfast.cli.options import client_options, json_option, open_client
from holdfast.cli.tables import show_json
from holdfast.spec.apply import accepting
from holdfast.spec.apply import apply as apply_spec
from holdfast.spec.files import examine, sound_spec
from holdfast.spec.plan import PlanStep, SettingChange, SpecPlan, make_plan, summary

CHANGES = 2
MARKS = {"create": "+", "change": "~", "remove": "-"}


@click.command()
@click.argument("spec", metavar="FILE")
@client_options
@click.option("--prune", is_flag=True, help="Also remove groups and schedules that the file does not have.")
@click.option("--exit-code", is_flag=True, help=f"End with {CHANGES} if there is something to do.")
@json_option
def plan(spec: str, url: str, tenant: str, prune: bool, exit_code: bool, as_json: bool) -> int:
    """Show what a spec would change in a database, and what would be lost by it. Changes nothing."""
    wanted = sound_spec(examine(spec))
    with open_client(url, tenant) as hf:
        found = make_plan(hf, wanted, prune)
    if as_json:
        show_json(found.steps)
    else:
        _show(found)
    return CHANGES if exit_code and found.steps else 0


@click.command()
@click.argument("spec", metavar="FILE")
@client_options
@click.option("--prune", is_flag=True, help="Also remove groups and schedules that the file does not have.")
@click.option("--accept-loss", is_flag=True, help="Go on although messages are lost by it: see holdfast plan.")
@json_option
def apply(spec: str, url: str, tenant: str, prune: bool, accept_loss: bool, as_json: bool) -> None:
    """Make a database as a spec says. Doing it again changes nothing, and nothing is lost unless you agree."""
    wanted = sound_spec(examine(spec))
    with open_client(url, tenant) as hf:
        told = (lambda step: show_json([step])) if as_json else _show_step
        command = accepting("apply", spec, db=url, tenant=tenant, prune=prune)
        done = apply_spec(hf, wanted, accept_loss=accept_loss, prune=prune, command=command, told=told)
    if not as_json:
        click.echo(f"done: {len(done.steps)} changed, {done.unchanged} as they were")


def _show(found: SpecPlan) -> None:
    for step in found.steps:
        _show_step(step)
    for kind, name in found.others:
        click.echo(f"? {kind} {name} is not in the spec, and is left alone")
    click.echo(f"{summary(found.steps)}; {found.unchanged} as they should be")


def _show_step(step: PlanStep) -> None:
    click.echo(f"{MARKS[step.act]} {step.kind} {step.name}")
    _show_effects(step)
    for change in step.changes:
        click.echo(f"    {change.setting}: {_text(change.before)} → {_text(change.after)}")
        _show_effects(change)


def _show_effects(of: PlanStep | SettingChange) -> None:
    if of.loses:
        click.secho(f"    ! {of.loses}", fg="red")
    if of.means:
        click.echo(f"    · {of.means}")


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
