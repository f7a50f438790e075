"""The whole comparison: installs the peers, measures them beside Holdfast in rounds, and reports."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench import machine, progress
from bench.peers import comparison
from bench.peers.cases import cases
from bench.peers.catalog import PEERS
from bench.peers.environment import Program, Unavailable, prepare, read_pins
from bench.places import PLACES, run_folder
from bench.sizes import Sizes

WIDTH = 170


@dataclass(frozen=True)
class Choice:
    """What was asked for."""

    peers: Sequence[str]
    workloads: Sequence[str]
    stores: Sequence[str]
    rounds: int
    json: Path | None = None
    markdown: Path | None = None


def compare(choice: Choice, sizes: Sizes) -> int:
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    programs, absent = install(choice, lambda line: console.print(line, markup=False, highlight=False))
    with ExitStack() as closing:
        folder = closing.enter_context(run_folder())
        places = [closing.enter_context(PLACES[store](folder)) for store in choice.stores]
        facts = machine.describe(folder, next((place.version for place in places if place.store == "postgres"), None))
        plan = [
            (place, cases(choice.workloads, sizes, [one for one in programs if place.store in one.peer.stores]))
            for place in places
        ]
        results = progress.run(console, plan, choice.rounds)
    versions = {program.peer.name: program.version for program in programs}
    found = comparison.standings(results, versions, absent)
    comparison.show(console, found, machine.line(facts))
    if choice.json:
        comparison.write_json(choice.json, results, found, facts)
    if choice.markdown:
        choice.markdown.write_text(comparison.markdown(found, machine.line(facts)))
    # A peer that failed is told in its line; only a failure of our own is one of the run.
    return 1 if any(standing.is_own_failure for standing in found) else 0


def install(choice: Choice, tell: Callable[[str], None]) -> tuple[list[Program], dict[str, str]]:
    """The chosen peers of the chosen stores: those that are there, and why the others are not."""
    pins, programs, absent = read_pins(), list[Program](), dict[str, str]()
    for name in choice.peers:
        if not set(choice.stores) & set(PEERS[name].stores):
            continue
        try:
            program = prepare(PEERS[name], pins[name], tell)
        except (Unavailable, OSError) as problem:
            absent[name] = str(problem)
            tell(f"{name}: {problem}")
        else:
            programs.append(program)
            tell(f"{name}: {program.version} is ready")
    return programs, absent
