"""python -m bench: what Holdfast does per second, beside the smallest raw queue on the same database."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.sizes import FULL, QUICK, Sizes

if TYPE_CHECKING:
    from rich.console import Console

    from bench.cases import Case
    from bench.places import Place
    from bench.runner import Result


def main(arguments: Sequence[str] | None = None) -> int:
    # Imported here: every measuring process imports this module too, and should carry nothing of the report.
    from rich.console import Console

    from bench import machine, report
    from bench.places import PLACES, run_folder
    from bench.workloads import WORKLOADS

    chosen = _arguments(list(WORKLOADS), list(PLACES)).parse_args(arguments)
    sizes = _sizes(chosen)
    cases = [case for name in chosen.workloads for case in WORKLOADS[name](sizes)]
    rounds = chosen.rounds or (1 if chosen.quick else 3)
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    with ExitStack() as closing:
        folder = closing.enter_context(run_folder())
        places = [closing.enter_context(PLACES[store](folder)) for store in chosen.stores]
        facts = machine.describe(folder, next((place.version for place in places if place.store == "postgres"), None))
        results = _run(console, places, cases, rounds)
    found = report.lines(results)
    report.show(console, found, machine.line(facts))
    if chosen.json:
        report.write_json(chosen.json, results, found, facts)
    return 1 if any(line.failed for line in found) else 0


def _run(console: Console, places: Sequence[Place], cases: Sequence[Case], rounds: int) -> list[Result]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from bench import runner

    columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn())
    results: list[Result] = []
    # Drawn once a second: the machine is busy with something else.
    with Progress(*columns, console=console, refresh_per_second=1, transient=True) as progress:
        task = progress.add_task("", total=runner.steps(cases, rounds) * len(places))
        progress.advance(task, -1)

        def tell(what: str) -> None:
            progress.update(task, description=what, advance=1)

        for place in places:
            results += runner.run(place, cases, rounds, tell)
    return results


def _sizes(chosen: argparse.Namespace) -> Sizes:
    sizes = QUICK if chosen.quick else FULL
    if chosen.churn_seconds is None:
        return sizes
    windows = min(12, max(2, int(chosen.churn_seconds)))
    return replace(sizes, churn_seconds=chosen.churn_seconds, churn_windows=windows)


def _arguments(workloads: list[str], stores: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--workloads",
        type=lambda text: _some_of(workloads, text),
        default=workloads,
        metavar="W,…",
        help=f"some of {', '.join(workloads)}; all by default",
    )
    parser.add_argument(
        "--stores",
        type=lambda text: _some_of(stores, text),
        default=stores,
        metavar="S,…",
        help=f"some of {', '.join(stores)}; both by default",
    )
    parser.add_argument("--rounds", type=int, help="how often each contender is measured; 3 by default")
    parser.add_argument("--churn-seconds", type=float, help="how long the churn runs; 60 by default")
    parser.add_argument("--quick", action="store_true", help="everything tiny: shows that it runs, not how fast")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write every number that was measured")
    return parser


def _some_of(known: list[str], text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
