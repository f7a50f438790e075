"""The command itself: a temporary folder, the options, and the exit code."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from urllib.parse import quote, urlsplit

import click
from rich.console import Console

from holdfast.cli.demo.plan import DemoPlan
from holdfast.cli.demo.screen import DemoScreen
from holdfast.cli.demo.story import Story


@click.command()
@click.option("--db", "url", metavar="URL", help="Another database than a temporary SQLite file.")
@click.option("--messages", type=click.IntRange(100, 1_000_000), default=20_000, show_default=True)
@click.option("--seconds", type=click.FloatRange(1, 3600), default=10, show_default=True, help="About how long.")
@click.option("--consumers", type=click.IntRange(2, 64), default=4, show_default=True, help="Competing processes.")
def demo(url: str | None, messages: int, seconds: float, consumers: int) -> int:
    """See it work: competing consumers, a kill -9, and nothing lost.

    Producers and consumers are real processes on one queue. One consumer is killed with -9 while it holds messages,
    some handlers fail, a few always fail. At the end every message is accounted for by its id.

    On a database of yours (--db) it works in a tenant of its own and leaves a queue with a few dead letters there.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        place = f"a {urlsplit(url).scheme} database" if url else "one SQLite file"
        plan = DemoPlan(
            url=url or f"sqlite:///{quote(folder)}/demo.db",
            queue=f"orders-{os.urandom(3).hex()}",
            messages=messages,
            seconds=seconds,
            consumers=consumers,
        )
        screen = DemoScreen(Console(highlight=False), plan, place)
        with Story(plan, Path(folder), screen) as story, screen:
            verdict = story.run()
            screen.end(story, verdict)
            if url:
                _tidy(story)
    return 0 if verdict.nothing_lost else 1


def _leave(number: int, _: FrameType | None) -> None:
    """As Ctrl-C: the way out goes through everything that has to be cleaned up."""
    sys.exit(128 + number)


def _tidy(story: Story) -> None:
    """Takes the finished messages out of a database that is not ours."""
    story.team.close()
    story.hf.queue(story.plan.queue, history=0)
    while story.hf.queues.sweep(story.plan.queue):
        continue
