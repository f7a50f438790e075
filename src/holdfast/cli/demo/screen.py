"""How a demo looks: a table that lives in a terminal, or a line now and then where the output is piped."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.cli.demo.ledger import DemoVerdict
from holdfast.cli.demo.plan import ATTEMPTS, LEASE, PRODUCERS, DemoPlan
from holdfast.cli.demo.story import Story
from holdfast.cli.demo.team import DemoProcess

_EVERY = 2.0
_WIDTH = 76


class DemoScreen:
    """Shows a story while it happens. Use it as a context."""

    def __init__(self, console: Console, plan: DemoPlan, place: str) -> None:
        self._console = console
        self._head = _head(plan, place)
        self._lines: list[Text] = []
        self._printed = 0.0
        alive = console.is_terminal and not console.is_dumb_terminal
        self._live = Live(console=console, auto_refresh=False) if alive else None

    def __enter__(self) -> DemoScreen:
        if self._live:
            self._live.start()
        else:
            self._console.print(self._head, soft_wrap=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, story: Story) -> None:
        """The state now."""
        if self._live:
            self._live.update(self._picture(story), refresh=True)
        elif story.elapsed - self._printed >= _EVERY:
            self._printed = story.elapsed
            self._console.print(_moment(story, _counts(story)), soft_wrap=True)

    def tell(self, story: Story, line: str) -> None:
        """Something happened."""
        self._lines.append(_moment(story, Text(line)))
        if self._live:
            self.show(story)
        else:
            self._console.print(self._lines[-1], soft_wrap=True)

    def end(self, story: Story, verdict: DemoVerdict) -> None:
        """The account, under the last picture."""
        if self._live:
            self.show(story)
            self._live.stop()
        else:
            self._console.print(_processes(story))
        self._console.print()
        self._console.print(_account(story, verdict))
        self._console.print()
        self._console.print(_sentence(verdict), soft_wrap=True)

    def _picture(self, story: Story) -> RenderableType:
        bar = ProgressBar(total=story.plan.messages, completed=len(story.ledger.done) + story.stats.dead, width=_WIDTH)
        return Group(self._head, _processes(story), _counts(story), Padding(bar, (0, 1, 1, 1)), *self._lines)


def _head(plan: DemoPlan, place: str) -> Text:
    return Text.assemble(
        (" Holdfast ", "bold reverse"),
        f"  {plan.messages:,} messages through {place}\n",
        (
            f" {PRODUCERS} producers, {plan.consumers} competing consumers; "
            f"a handler takes {_short(plan.work)}, a lease lasts {LEASE:.0f} s",
            "dim",
        ),
    )


def _processes(story: Story) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("process", min_width=10, no_wrap=True)
    for name in ("pid", "enqueued", "claimed", "done", "failed"):
        table.add_column(name, justify="right", min_width=max(7, len(name)), no_wrap=True)
    table.add_column("state", min_width=18, no_wrap=True)
    for member in [*story.team.producers, *story.team.consumers]:
        tally = member.tally
        numbers = [f"{n:,}" if n else "" for n in (tally.enqueued, tally.claimed, tally.done, tally.failed)]
        style = "dim" if member.killed else ""
        table.add_row(member.name, str(member.process.pid), *numbers, _state(story, member), style=style)
    return table


def _state(story: Story, member: DemoProcess) -> Text:
    if member.killed:
        left = len(story.ledger.orphans - story.ledger.taken_over)
        return Text(f"killed -9, held {left}" if left else "killed -9", style="bold red not dim")
    if member.ended:
        return Text("finished", style="dim")
    if member.role == "producer":
        return Text("enqueueing", style="cyan")
    held = len(member.tally.held)
    return Text(f"working on {held}", style="green") if held else Text("waiting", style="dim")


def _counts(story: Story) -> Text:
    stats = story.stats
    parts = {
        "pending": stats.pending,
        "waiting": stats.waiting,
        "processing": stats.processing,
        "dead": stats.dead,
        "done": len(story.ledger.done),
    }
    text = Text(" ")
    for name, count in parts.items():
        text.append(f"{name} ", style="dim")
        text.append(f"{count:,}   ", style="bold")
    text.append(f"{story.rate:,.0f}/s", style="bold cyan")
    return text


def _moment(story: Story, what: Text) -> Text:
    return Text.assemble((f"{story.elapsed:5.1f} s  ", "dim"), what)


def _account(story: Story, verdict: DemoVerdict) -> Table:
    ledger = story.ledger
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 1))
    table.add_column(justify="left")
    table.add_column(justify="right", style="bold")
    table.add_column(style="dim")
    acked_by_the_killed = "" if not verdict.unreported else f"{verdict.unreported} of them acked just before the kill"
    for name, count, remark in (
        ("enqueued", verdict.enqueued, "ids returned by enqueue_many"),
        ("done", verdict.done, acked_by_the_killed or "acked, each by one consumer"),
        ("dead", verdict.dead, f"after {ATTEMPTS} attempts each, kept with all errors"),
        ("failed attempts", ledger.failures, "nacked, then tried again after a backoff"),
        ("taken over", len(ledger.taken_over), "from the killed consumer, once its lease was over"),
        ("acked twice", len(ledger.acked_twice), ""),
        ("missing", len(verdict.missing), ""),
    ):
        table.add_row(name, f"{count:,}", remark)
    return table


def _sentence(verdict: DemoVerdict) -> Text:
    sum_up = f"{verdict.enqueued:,} enqueued = {verdict.done:,} done + {verdict.dead:,} dead"
    if verdict.nothing_lost:
        return Text.assemble((" Nothing was lost: ", "bold green"), f"{sum_up}, checked id by id.")
    wrong = [*verdict.missing, *verdict.doubtful][:5]
    return Text.assemble((" Something is wrong: ", "bold red"), f"{sum_up}; look at {', '.join(wrong)}")


def _short(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"
