"""`holdfast serve`: a spec at work. HTTP and maintenance in this process, its consumers in another."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.core.duration import seconds
from holdfast.core.redaction import without_password
from holdfast.errors import InvalidInput
from holdfast.server.serving.loading import Sources
from holdfast.worker.sd_notify import Notifier

if TYPE_CHECKING:
    from holdfast.server.serving.serve import Options, Started
    from holdfast.spec.model import StepDeclaration

LEVELS = ("debug", "info", "warning", "error")


@click.command()
@click.argument("spec", metavar="FILE", type=click.Path(dir_okay=False))
@click.option("--db", "url", metavar="URL", envvar="HOLDFAST_DB", show_envvar=True, help="[default: FILE.db here]")
@click.option("--module", metavar="FILE.py", help="Where a function register(hf) declares commands and consumers.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8700, show_default=True, help="0: any that is free.")
@click.option("--tokens", metavar="FILE", help="Who may use the admin API: see holdfast token.")
@click.option("--tokens-env", metavar="VARIABLE", help="The same lines in an environment variable; ; is a line break.")
@click.option("--allow-host", "hosts", metavar="NAME", multiple=True, help="Another name that the server answers to.")
@click.option("--trust-proxy", "proxies", metavar="ADDRESS", multiple=True, help="Believe its X-Forwarded-For.")
@click.option("--tenant", default="default", show_default=True, envvar="HOLDFAST_TENANT", show_envvar=True)
@click.option("--grace", default="30s", show_default=True, help="How long all may finish when told to stop.")
@click.option("--no-consumers", is_flag=True, help="Only HTTP and maintenance; consumers run elsewhere.")
@click.option("--no-reload", is_flag=True, help="Changes of FILE count at the next SIGHUP, not at once.")
@click.option("--accept-loss", is_flag=True, help="Start although messages are lost by it: see holdfast plan.")
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True)
def serve(
    spec: str,
    url: str | None,
    module: str | None,
    host: str,
    port: int,
    tokens: str | None,
    tokens_env: str | None,
    hosts: Sequence[str],
    proxies: Sequence[str],
    tenant: str,
    grace: str,
    no_consumers: bool,
    no_reload: bool,
    accept_loss: bool,
    log_level: str,
) -> None:
    """Serve a spec: its webhooks, its queues' commands and consumers, and the admin API.

    The database is made as the spec says. A change of FILE, or SIGHUP, is taken over while everything runs; what
    cannot work is refused, and what was served is served on. Ctrl-C or SIGTERM: nothing new is accepted or claimed,
    what was begun finishes. A second one: at once. Under systemd it reports its state (Type=notify) and pings the
    watchdog.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=log_level.upper(), stream=sys.stderr)
    notifier = Notifier.from_environment()
    os.environ["HOLDFAST_LOG"] = log_level.upper()  # For the consumers' process.
    try:
        from holdfast.server.serving.serve import Options, Serving
        from holdfast.server.tokens import load_tokens
    except ModuleNotFoundError as problem:
        raise InvalidInput(f"holdfast serve needs {problem.name}: pip install 'holdfast[server]'") from None
    address = url or f"sqlite:///{Path(spec).stem}.db"
    options = Options(
        sources=Sources(spec, module),
        url=address,
        tenant=tenant,
        host=host,
        port=port,
        tokens=load_tokens(tokens, tokens_env),
        hosts=hosts,
        proxies=proxies,
        grace=seconds(grace, "grace"),
        consumers=not no_consumers,
        watch=not no_reload,
        accept_loss=accept_loss,
    )
    Serving(options, notifier).run(lambda started: _introduce(started, options))


def _step(step: StepDeclaration) -> str:
    return f"({' + '.join(one.name for one in step.parallel)})" if step.parallel else step.name


def _introduce(started: Started, options: Options) -> None:
    """One line per thing that was started, and where."""
    spec = started.spec
    place = without_password(options.url)
    click.echo(f"{spec.app} on {place}" + ("" if options.tenant == "default" else f", tenant {options.tenant}"))
    for name, webhook in spec.webhooks.items():
        aim = f"queue {webhook.queue}" if webhook.topic is None else f"topic {webhook.topic}"
        aim = aim if webhook.command is None else f"command {webhook.command.name}"
        guard = "" if webhook.verify_hmac else ", NOT SIGNED: anybody may send"
        click.echo(f"  POST {started.address}/hook/{name} → {aim}{guard}")
    for name, queue in spec.queues.items():
        if queue.map_to is not None:
            click.echo(f"  queue {name} → command {queue.map_to.name}")
        if queue.map_to_queue is not None:
            click.echo(f"  queue {name} → queue {queue.map_to_queue.queue}")
    for name, topic in spec.topics.items():
        click.echo(f"  topic {name} → {', '.join(topic.groups) or 'nobody yet'}")
    for name, call in spec.group_calls.items():
        click.echo(f"  group {name} → command {call.name}")
    for name, onward in spec.group_onwards.items():
        click.echo(f"  group {name} → queue {onward.queue}")
    for name, schedule in spec.schedules.items():
        click.echo(f"  schedule {name} ({schedule.cron or f'every {schedule.every:g} s'}) → queue {schedule.queue}")
    for name, saga in spec.sagas.items():
        click.echo(f"  saga {name}: {' → '.join(_step(step) for step in saga.steps)}")
    if started.staffed:
        click.echo("  consumers in a process of their own" if options.consumers else "  consumers: elsewhere")
    access = "with a token" if options.tokens else "open to this machine"
    click.echo(f"  admin API {started.address}/admin/queues, {access}; metrics {started.address}/metrics")
    click.echo("ready; Ctrl-C stops")
    sys.stdout.flush()
