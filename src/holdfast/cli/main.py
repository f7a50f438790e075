"""`holdfast`: finds the command, and turns errors of ours into one line and an exit code."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from holdfast.errors import HoldfastError

SECTIONS = {
    "Everyday commands": {
        "demo": ("holdfast.cli.demo.command", "See it work: competing consumers, a kill -9, and nothing lost."),
        "send": ("holdfast.cli.send", "Enqueue a message whose BODY is JSON; what is no JSON is sent as text."),
        "publish": ("holdfast.cli.publish", "Publish a message whose BODY is JSON to every group of a topic."),
        "work": ("holdfast.cli.work", "Run the consumers of a program until told to stop, or a program per message."),
        "serve": ("holdfast.cli.serve", "Serve a spec: its webhooks, its commands and consumers, and the admin API."),
        "check": ("holdfast.spec.cli.check", "Say what is wrong with a spec, where, and what was probably meant."),
        "fmt": ("holdfast.spec.cli.fmt", "Bring specs into their canonical form, comments and all."),
        "plan": (
            "holdfast.spec.cli.plan",
            "Show what a spec would change in a database, and what would be lost by it.",
        ),
        "apply": ("holdfast.spec.cli.plan", "Make a database as a spec says."),
    },
    "Commands by noun": {
        "queues": (
            "holdfast.queues.cli.queues",
            "List queues; show their settings, look into them, pause and purge them.",
        ),
        "messages": ("holdfast.messages.cli", "Show where a message is, search for messages, cancel them."),
        "dead-letters": ("holdfast.dead_letters.cli", "Look at dead letters, replay them, delete them. Short: dlq."),
        "topics": ("holdfast.topics.cli.topics", "List topics, and show their settings."),
        "groups": ("holdfast.topics.cli.groups", "See how far the groups of a topic are; pause, move and end them."),
        "consumers": (
            "holdfast.consumers.cli.consumers",
            "List running consumers; attach them to queues and detach them.",
        ),
        "pools": ("holdfast.consumers.cli.pools", "List pools of consumers."),
        "schedules": (
            "holdfast.schedules.cli",
            "See which messages are sent by the clock; pause, run and remove schedules.",
        ),
        "sagas": (
            "holdfast.sagas.cli",
            "See where sagas are; cancel them, and decide about steps that failed.",
        ),
        "notices": (
            "holdfast.notices.cli",
            "See which dead letters and other troubles wait for someone's answer, and answer.",
        ),
        "audit": ("holdfast.audit.cli", "See what operators did."),
    },
    "Operations": {
        "doctor": ("holdfast.cli.doctor", "Look at a database and say what is wrong with it, and what to do."),
        "migrate": ("holdfast.cli.migrate", "Bring a database up to date, or print the SQL for it."),
        "maintain": (
            "holdfast.cli.maintain",
            "Take back ended leases, expire messages, prune what is over, fire schedules: once, until nothing is left.",
        ),
        "token": (
            "holdfast.cli.token",
            "Make a token for the admin API, and the line that a server has to know of it.",
        ),
        "rebase": ("holdfast.cli.rebase", "Make a database usable that was restored from another server's dump."),
        "torture": (
            "holdfast.cli.torture",
            "Prove it on your own database: real processes, real faults, and an account of every message.",
        ),
    },
}
"""The sections of the help: command → the module that defines it under the same name (with _ for -), and its line in
the help.
"""

COMMANDS = {name: found for section in SECTIONS.values() for name, found in section.items()}

ALIASES = {"dlq": "dead-letters"}

FAILED = 1
INTERRUPTED = 130


class LazyGroup(click.Group):
    """Imports a command when it is called, so that `holdfast --help` waits for none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        found = getattr(import_module(COMMANDS[name][0]), name.replace("-", "_"))
        assert isinstance(found, click.Command), "a command's module defines it under its own name"
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, line) for name, (_, line) in commands.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="holdfast", message="holdfast %(version)s")
def holdfast() -> None:
    """Reliable messaging in the database you already have."""


def main() -> int:
    """Runs the command line; the exit code."""
    try:
        code = holdfast.main(prog_name="holdfast", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except HoldfastError as problem:
        # What is wrong with a file is told line by line, with the lines that it is about.
        is_report = getattr(problem, "is_report", False)
        click.echo(str(problem) if is_report else f"holdfast: {one_line(problem)}", err=True)
        return FAILED
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python would complain once more while it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def one_line(problem: BaseException) -> str:
    """The text of an error, whatever line breaks a database put in."""
    return " ".join(str(problem).split())
