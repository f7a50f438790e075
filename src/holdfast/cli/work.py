"""`holdfast work`: runs the consumers of a program, or one program per message."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from holdfast import AsyncHoldfast, Holdfast, InvalidInput
from holdfast.cli.options import open_client
from holdfast.client.async_client import async_run_and_notify
from holdfast.client.client import run_and_notify
from holdfast.worker.sd_notify import Notifier

LEVELS = ("debug", "info", "warning", "error")


@click.command()
@click.argument("app", metavar="[MODULE:APP]", required=False)
@click.argument("names", metavar="[CONSUMER]...", nargs=-1)
@click.option("--exec", "command", metavar="CMD", help="Run this program once per message; needs --db and --queue.")
@click.option("--queue", "queues", metavar="NAME", multiple=True, help="With --exec: a queue to work on. Repeatable.")
@click.option("--db", "url", metavar="URL", envvar="HOLDFAST_DB", show_envvar=True, help="With --exec: the database.")
@click.option("--tenant", default="default", show_default=True, envvar="HOLDFAST_TENANT", show_envvar=True)
@click.option("--name", help="With --exec: the consumer's name.  [default: the program's]")
@click.option("--concurrency", default=1, show_default=True, help="With --exec: how many programs at a time.")
@click.option("--lease", metavar="TIME", help="With --exec: how long a claim lasts between two renewals.")
@click.option("--timeout", metavar="TIME", help='With --exec: how long a program may run, such as "10m".')
@click.option("--empty", type=click.Choice(["poll", "hibernate", "terminate"]), help="With --exec: on an empty queue.")
@click.option("--label", "labels", metavar="NAME=VALUE", multiple=True, help="With --exec: a label of the consumer.")
@click.option("--preflight", metavar="CMD", help="With --exec: must succeed before the first message is claimed.")
@click.option("--trust-commitments", is_flag=True, help="With --exec: run checks that messages bring along.")
@click.option("--grace", default="30s", show_default=True, help="How long handlers may finish when told to stop.")
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
def work(app: str | None, names: Sequence[str], grace: str, log_level: str, **options: Any) -> int:
    """Run the consumers of a program until told to stop, or a program per message.

    MODULE:APP is where your Holdfast stands, such as `mail:hf`; all of its consumers are run, or those named.

    Ctrl-C or SIGTERM: nothing new is claimed, what was not begun goes back, handlers finish. A second one: at once.
    Under systemd it reports its state (Type=notify) and pings the watchdog. The exit code is 1 if a consumer failed.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=log_level.upper(), stream=sys.stderr)
    notifier = Notifier.from_environment()
    if (app is None) == (options["command"] is None):
        raise click.UsageError("say what to run: MODULE:APP, or --exec 'CMD' --queue NAME --db URL")
    if app is None:
        found: Holdfast | AsyncHoldfast = _exec_app(**options)
    else:
        found = load(app)
    if isinstance(found, AsyncHoldfast):
        runner = asyncio.run(async_run_and_notify(found, names, grace, notifier))
    else:
        with found:
            runner = run_and_notify(found, names, grace, notifier)
    return 1 if runner.failed() else 0


def load(address: str) -> Holdfast | AsyncHoldfast:
    """The client that stands at `module:name`; without a name, the only one of the module."""
    module_name, _, name = address.partition(":")
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise InvalidInput(
            f"{address!r} is no MODULE:APP: write it as in Python, such as mail:hf for the hf of mail.py"
        )
    sys.path.insert(0, "")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as problem:
        if problem.name is None or not f"{module_name}.".startswith(f"{problem.name}."):
            raise
        raise InvalidInput(
            f"there is no module {module_name!r} here: write MODULE:APP, such as mail:hf, where mail.py stands"
        ) from None
    if name:
        found = getattr(module, name, None)
        if isinstance(found, Holdfast | AsyncHoldfast):
            return found
        raise InvalidInput(f"{module_name}.{name} is no Holdfast client: write MODULE:NAME, such as mail:hf")
    clients = [thing for thing in vars(module).values() if isinstance(thing, Holdfast | AsyncHoldfast)]
    if len(clients) != 1:
        raise InvalidInput(f"{module_name} has {len(clients)} Holdfast clients: say which one, {module_name}:NAME")
    return clients[0]


def _exec_app(
    url: str | None, tenant: str, queues: Sequence[str], command: str, labels: Sequence[str], **options: Any
) -> Holdfast:
    from holdfast.worker.programs.exec_handler import exec_handler

    if url is None or not queues:
        raise click.UsageError("--exec needs --db URL and --queue NAME")
    hf = open_client(url, tenant)
    handler = exec_handler(command, preflight=options.pop("preflight"))
    chosen = {name: value for name, value in options.items() if value is not None}
    hf.consumer(*queues, labels=_labels(labels), **chosen)(handler)
    return hf


def _labels(pairs: Sequence[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--label takes NAME=VALUE, not {pair!r}")
        found[name] = value
    return found
