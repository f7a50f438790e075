"""Shows how far a run is."""

from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import runner
from bench.cases import Case
from bench.places import Place
from bench.runner import Result


def run(console: Console, plan: Sequence[tuple[Place, Sequence[Case]]], rounds: int) -> list[Result]:
    """Measures each place's cases, place by place."""
    columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn())
    results: list[Result] = []
    # Drawn once a second: the machine is busy with something else.
    with Progress(*columns, console=console, refresh_per_second=1, transient=True) as progress:
        task = progress.add_task("", total=sum(runner.steps(cases, rounds) for _, cases in plan))
        progress.advance(task, -1)

        def tell(what: str) -> None:
            progress.update(task, description=what, advance=1)

        for place, cases in plan:
            results += runner.run(place, cases, rounds, tell)
    return results
