"""`holdfast check`: what is wrong with a spec."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from holdfast import Holdfast
from holdfast.cli.files import specs_argument
from holdfast.client.client import internals
from holdfast.server.serving.loading import function_at, load_module, register
from holdfast.spec.files import Examined, counted, examine
from holdfast.spec.model import to_json

FAILED = 1


@click.command()
@specs_argument
@click.option("--json", "as_json", is_flag=True, help="Print each sound spec as JSON, one per line.")
@click.option("--module", metavar="FILE.py", help="Also check against register(hf), and find the handlers.")
@click.option("--strict", is_flag=True, help="Warnings are errors too.")
def check(files: Sequence[str], as_json: bool, module: str | None, strict: bool) -> int:
    """Say what is wrong with a spec, where, and what was probably meant.

    FILE is a *.holdfast file, the JSON of one, or - for standard input. What is wrong goes to standard error, and the
    exit code is 1 if anything is. Secrets that the environment does not hold are warnings here.
    """
    known = {} if module is None else _declared(module)
    good = [_check(path, known, as_json, strict) for path in files]
    return 0 if all(good) else FAILED


def _declared(module: str) -> dict[str, Any]:
    """What the user's own code has; the client that it is declared with never opens its database."""
    hf = Holdfast("sqlite:///:nowhere:.db")
    register(hf, load_module(module))
    return {"commands": hf.commands.list(), "consumers": internals(hf).consumers.by_name, "handlers": function_at}


def _check(path: str, known: dict[str, Any], as_json: bool, strict: bool) -> bool:
    found = examine(path, environ=os.environ, **known)
    for finding in found.findings:
        click.echo(found.show(finding), err=True)
    errors = len(found.errors)
    good = not errors and not (strict and found.findings)
    if found.spec is not None and good and as_json:
        click.echo(to_json(found.spec).decode())
    elif not as_json:
        click.echo(_summary(found))
    return good


def _summary(found: Examined) -> str:
    spec, warnings = found.spec, len(found.findings)
    if found.errors or spec is None:
        return found.count
    kinds = ("queue", "topic", "webhook", "consumer", "pool", "schedule", "saga", "owner")
    parts = [counted(len(getattr(spec, kind + "s")), kind) for kind in kinds if getattr(spec, kind + "s")]
    said = f", {counted(warnings, 'warning')}" if warnings else ""
    return f"{found.name}: {spec.app} is sound: {', '.join(parts) or 'empty'}{said}"
