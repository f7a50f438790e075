"""`holdfast torture`: real processes and real faults on a database of yours, and a verdict."""

from __future__ import annotations

import os
import shlex
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from urllib.parse import quote, urlsplit

import click
import msgspec
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.core.redaction import without_password
from holdfast.errors import HoldfastError
from holdfast.torture.address import is_server
from holdfast.torture.chart import ROWS, draw
from holdfast.torture.nemesis import FAULTS, possible
from holdfast.torture.plan import FEW_ATTEMPTS, KEYS, TorturePlan
from holdfast.torture.progress import HistoryProgress
from holdfast.torture.run import FINAL, TortureRun, check_folder, tidy
from holdfast.torture.soak import Gauge
from holdfast.torture.verdict import TortureVerdict

LINE_EVERY = 5.0
LONG = 300.0
"""Seconds: a longer run forgets what is done while it goes on, so that the database does not grow."""

NUMBERS = {
    "enqueued": "stored, as their producers were told",
    "done": "acked; those of a topic once for each of its two groups",
    "dead": f"given up by a worker, or out of attempts (one queue has {FEW_ATTEMPTS})",
    "recovered": "no answer came, but it was stored: allowed",
    "repeated": "sent again under the same key: nothing was stored",
    "retried": "claims after the first of a message",
    "stale refused": "answers that came too late, or found a full disk: refused",
    "unknown endings": "answers whose own answer never came",
    "sagas": "all steps done, or all undone",
}
"""What is counted → what it means."""

FAULTY = {
    "lost": "stored, and nowhere",
    "unexpected": "never sent, and there",
    "duplicate": "one thing sent, two messages stored",
    "doubled": "ended twice, or claimed after its end",
    "double lease": "two holders at one moment",
    "claimed twice": "one attempt, two claims",
    "attempts": "not 1, 2, 3, …",
    "stale accepted": "an answer counted after someone else had the message",
    "out of order": "the next one of a key before the one ahead had ended",
    "group": "published, and a group never got it",
    "group order": "two groups saw one key in two orders",
    "passed by": "a group got it after what was published later",
    "durability": "what a process was told is not so any more",
    "stuck": "did not end although nothing was in its way",
    "conservation": "statistics that do not add up",
    "saga": "neither done nor undone",
    "error": "a process met something that it was not told of",
}


class CannotRun(click.ClickException):
    """There is no verdict."""

    exit_code = 2


@click.command()
@click.option("--db", "url", metavar="URL", envvar="HOLDFAST_DB", show_envvar=True, help="Your database.")
@click.option("--seconds", type=click.FloatRange(1, 86_400), default=60.0, show_default=True, help="How long.")
@click.option("--seed", type=int, help="Which faults, and when.  [default: another one each time]")
@click.option("--workers", type=click.IntRange(1, 64), default=4, show_default=True, help="Competing processes.")
@click.option("--faults", metavar="LIST", help="Only these, such as kill,stop.  [default: all that are possible]")
@click.option("--rate", type=click.FloatRange(1, 100_000), default=200.0, show_default=True, help="Sent per second.")
@click.option("--lease", type=click.FloatRange(0.2, 60), default=1.0, show_default=True, help="Seconds.")
@click.option("--delivery", type=click.Choice(["database", "sqs"]), default="database", show_default=True)
@click.option("--restart-command", metavar="CMD", help="Restarts your PostgreSQL server and returns when it is back.")
@click.option("--dir", "folder", metavar="DIR", type=click.Path(path_type=Path), help="Where the histories go.")
@click.option("--keep", is_flag=True, help="Leave the messages of the run in the database.")
@click.option("--chart", metavar="FILE.svg", type=click.Path(path_type=Path), help="Draw rate, memory and disk space.")
@click.option(
    "--check", "checked", metavar="DIR", type=click.Path(path_type=Path), help="Only check a run that is over."
)
def torture(url: str | None, folder: Path | None, checked: Path | None, **options: object) -> int:
    """Prove it on your own database: real processes, real faults, and an account of every message.

    Producers, workers, subscribers and sagas are killed, stopped, cut off and lied to; then everything heals, all work
    is finished, and the histories of all processes are checked against the database. Ctrl-C heals and checks early.

    The exit code is 0 if nothing was violated, 1 if something was, 2 if it could not run, or nothing happened in it.
    """
    console = Console(highlight=False)
    if checked is not None:
        return _conclude(console, _check(checked), checked)
    place = folder or Path(tempfile.mkdtemp(prefix="holdfast-torture-"))
    place.mkdir(parents=True, exist_ok=True)
    if any(place.glob("*.log")):
        raise click.UsageError(f"{place} holds the histories of another run: take an empty folder, or --check it")
    plan = _plan(url or f"sqlite:///{quote(str(place.resolve()))}/torture.db", **options)
    try:
        keeps = bool(options["keep"]) or (url is None and plan.delivery == "database")
        return _run(console, plan, place, keeps, options["chart"])
    except HoldfastError as problem:
        raise CannotRun(" ".join(str(problem).split())) from problem


def _check(folder: Path) -> TortureVerdict:
    if not (folder / FINAL).exists():
        raise click.UsageError(f"{folder} has no run that came to its end: there is no {FINAL} in it")
    try:
        return check_folder(folder)
    except msgspec.DecodeError as problem:
        raise click.UsageError(f"what {folder} holds of a run cannot be read: {problem}") from problem


def _plan(url: str, **options: object) -> TorturePlan:
    seed, restart, seconds = options["seed"], options["restart_command"], options["seconds"]
    if not is_server(url) and not url.startswith("sqlite:"):
        raise click.UsageError("--db takes sqlite:///… or postgresql://…")
    delivery = str(options["delivery"])
    can = possible(url, restart if isinstance(restart, str) else None, delivery)
    wanted = [name for name in str(options["faults"] or "").split(",") if name] or can
    for name in wanted:
        if name not in FAULTS:
            raise click.UsageError(f"--faults knows {', '.join(FAULTS)}, not {name!r}")
        if name not in can:
            raise click.UsageError(
                f"the fault {name!r} ({FAULTS[name]}) is not possible here; these are: {', '.join(can)}"
            )
    number = seed if isinstance(seed, int) else int.from_bytes(os.urandom(3))
    return TorturePlan(
        url=url,
        tenant=f"torture-{number}-{os.urandom(3).hex()}",
        seed=number,
        seconds=float(str(seconds)),
        workers=int(str(options["workers"])),
        lease=float(str(options["lease"])),
        rate=float(str(options["rate"])),
        faults=tuple(wanted),
        restart_command=restart if isinstance(restart, str) else None,
        delivery=delivery,
        keeps=float(str(seconds)) <= LONG,
        spares=options["chart"] is not None,
    )


def _run(console: Console, plan: TorturePlan, folder: Path, keeps: bool, chart: object) -> int:
    signal.signal(signal.SIGTERM, _leave)
    console.print(_announcement(plan, folder, keeps), soft_wrap=True)
    gauge = Gauge(plan) if chart else None
    with TortureScreen(console, plan) as screen:
        run = TortureRun(plan, folder, screen, gauge)
        verdict = run.run()
    if not keeps:
        tidy(plan)
    if isinstance(chart, Path) and gauge is not None:
        chart.write_text(draw(gauge, plan))
        console.print(_thirds(gauge), f"The chart is {chart}.", sep="\n", soft_wrap=True)
    return _conclude(console, verdict, folder, plan)


def _thirds(gauge: Gauge) -> str:
    """What grew, and what did not."""
    titles = {name: title for name, title, _ in ROWS}
    return "\n".join(
        f" {titles[name]}: {first:,.1f} in the first third, {last:,.1f} in the last"
        for name, (first, last) in gauge.thirds().items()
        if first or last
    )


def _leave(number: int, _: FrameType | None) -> None:
    """As Ctrl-C."""
    raise KeyboardInterrupt


class TortureScreen:
    """A line that lives in a terminal, or one now and then where the output is piped."""

    def __init__(self, console: Console, plan: TorturePlan) -> None:
        self._console = console
        self._plan = plan
        self._printed = -LINE_EVERY
        self._faults = 0
        self._last = ""
        alive = console.is_terminal and not console.is_dumb_terminal
        self._live = Live(console=console, auto_refresh=False, transient=True) if alive else None

    def __enter__(self) -> TortureScreen:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def tell(self, fault: str) -> None:
        self._faults += 1
        self._last = fault

    def show(self, phase: str, progress: HistoryProgress) -> None:
        if self._live:
            self._live.update(self._line(phase, progress), refresh=True)
        elif time.monotonic() - self._printed >= LINE_EVERY:
            self._printed = time.monotonic()
            self._console.print(self._line(phase, progress), soft_wrap=True)

    def _line(self, phase: str, progress: HistoryProgress) -> Text:
        counts = progress.counts
        what = f"{progress.seconds:5.0f} of {self._plan.seconds:.0f} s" if phase == "storm" else "  healed, draining"
        return Text.assemble(
            (f"{what}  ", "dim"),
            f"enqueued {counts['enqueued']:,}  done {counts['done']:,}  dead {counts['dead']:,}  ",
            (f"{progress.rate():,.0f}/s  ", "bold cyan"),
            (f"{self._faults} faults", "bold red"),
            (f"  {self._last}" if phase == "storm" else "", "dim"),
        )


def _announcement(plan: TorturePlan, folder: Path, keeps: bool) -> str:
    kind = "file" if urlsplit(plan.url).scheme == "sqlite" else "database"
    stays = "Its messages stay there." if keeps else "Afterwards its messages are removed; its queues' names stay."
    return "\n".join(
        [
            f"Torture for {plan.seconds:g} s with the seed {plan.seed}: {without_password(plan.url)}",
            f"It works in the tenant {plan.tenant}, on {KEYS} keys; other tenants are not touched. {stays}",
            f"Whoever else uses this {kind} may have to wait for up to {2 * plan.lease:g} s at a time.",
            *(f"  {name:9} {FAULTS[name]}" for name in plan.faults),
            f"Histories go to {folder}",
        ]
    )


def _conclude(console: Console, verdict: TortureVerdict, folder: Path, plan: TorturePlan | None = None) -> int:
    console.print(_table(verdict, () if plan is None else plan.faults))
    for finding in verdict.findings:
        console.print(Text.assemble((f" {finding.check}: ", "bold red"), finding.what), soft_wrap=True)
    if verdict.is_empty:
        raise CannotRun(_why_empty(verdict, folder))
    again = f"Check again: holdfast torture --check {folder}"
    if plan is not None:
        again += f"\nOnce more: {_once_more(plan)}"
    operations = f"{verdict.counts['events']:,} events, {sum(verdict.faults.values())} faults"
    if verdict.clean:
        console.print(
            Text.assemble((" Nothing was violated: ", "bold green"), f"{operations}.\n{again}"), soft_wrap=True
        )
        return 0
    broken = ", ".join(f"{name} {count:,}" for name, count in verdict.violations.items() if count)
    console.print(Text.assemble((" VIOLATED: ", "bold red"), f"{broken}; {operations}.\n{again}"), soft_wrap=True)
    return 1


def _once_more(plan: TorturePlan) -> str:
    """The same command with the same seed, in another folder."""
    words = ["holdfast", "torture", "--seed", str(plan.seed)]
    context = click.get_current_context()
    for option in context.command.params:
        name, value = str(option.name), context.params[str(option.name)]
        if name in ("seed", "folder", "checked") or value in (None, False) or value == option.default:
            continue
        words.append(option.opts[0])
        if value is not True:
            words.append(
                without_password(value) if name == "url" else f"{value:g}" if isinstance(value, float) else str(value)
            )
    return shlex.join(words)


def _why_empty(verdict: TortureVerdict, folder: Path) -> str:
    """What the processes said last."""
    what = "was done" if verdict.counts["enqueued"] else "was enqueued"
    lines = {path.stem: path.read_text(errors="replace").strip().splitlines()[-1:] for path in folder.glob("*.txt")}
    said = sorted({f"{name} said: {line}" for name, (*found,) in lines.items() for line in found})[:3]
    return " ".join([f"there is no verdict, because nothing {what}: see {folder}.", *said])


def _table(verdict: TortureVerdict, wanted: Sequence[str]) -> Table:
    """A fault that was wanted and never done is told too."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 1))
    table.add_column()
    table.add_column(justify="right", style="bold")
    table.add_column(style="dim")
    for name, remark in NUMBERS.items():
        table.add_row(name, f"{verdict.counts.get(name, 0):,}", remark)
    for name, count in sorted({**dict.fromkeys(wanted, 0), **verdict.faults}.items()):
        pause = verdict.silence.get(name)
        remark = "" if pause is None else f"longest silence after it: {pause:.1f} s"
        table.add_row(f"fault {name}", f"{count:,}", remark if count else "it could not be done, or there was no time")
    for name, remark in FAULTY.items():
        count = verdict.violations.get(name, 0)
        table.add_row(Text(name, "bold red" if count else ""), Text(f"{count:,}", "red" if count else "green"), remark)
    return table


__all__ = ["torture"]
