"""How the command line shows things: tables for people, one JSON value per line for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click
import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from holdfast.core.health import HealthFinding
from holdfast.core.message import Message
from holdfast.core.times import readable

WIDEST = 60

STYLES = {"ok": "green", "advice": "yellow", "problem": "bold red"}


def show_json(rows: Iterable[Any]) -> None:
    """One JSON value per line: easy to filter, and a long list need not be read whole."""
    for row in rows:
        click.echo(msgspec.json.encode(readable(row)).decode())


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()) -> None:
    """A plain table; piped, it is as wide as it has to be."""
    console = Console(highlight=False)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    console.print(table, markup=False)


def show_settings(settings: dict[str, Any], as_json: bool) -> None:
    """The stored settings of a queue, a topic or a group: one per line, with JSON values."""
    plain_settings = msgspec.to_builtins(settings)
    if as_json:
        show_json([plain_settings])
    else:
        show_table(("setting", "value"), [(name, json.dumps(value)) for name, value in plain_settings.items()])


def show_findings(findings: Iterable[HealthFinding]) -> None:
    """One finding after the other, its advice below it; nothing is cut off."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for finding in findings:
        text = Text(finding.found)
        if finding.advice:
            text.append(f"\n→ {finding.advice}", "italic")
        table.add_row(Text(finding.state, STYLES[finding.state]), Text(finding.check, "bold"), text)
    console.print(table)


def cell(value: object) -> str:
    """One value, on one line and not too wide."""
    text = "" if value is None else f"{value:,}" if type(value) is int else str(value)
    text = " ".join(text.split())
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def moment(at: datetime | None) -> str:
    """A time of the database, for people."""
    return "" if at is None else at.strftime("%Y-%m-%d %H:%M:%SZ")


def plain(message: Message) -> dict[str, Any]:
    """A message as JSON can say it."""
    return {
        "id": message.id,
        "body": msgspec.Raw(message.raw_body),
        "headers": message.headers,
        "priority": message.priority,
        "key": message.key,
        "correlation_id": message.correlation_id,
        "reply_to": message.reply_to,
        "topic": message.topic,
        "enqueued_at": message.enqueued_at,
        "expires_at": message.expires_at,
    }


@contextmanager
def progress_bar(what: str, total: int | None) -> Iterator[Callable[[int, int], None]]:
    """Shows how far a long act is; nothing where the output is no terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(30), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)

        def told(done: int, whole: int) -> None:
            progress.update(task, completed=done, total=whole or None)

        yield told
