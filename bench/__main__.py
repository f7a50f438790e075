"""python -m bench: what Holdfast does per second, beside the smallest raw queue on the same driver, or beside peers."""

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
    from bench.cases import Case

# Imports are in the functions: every measuring process imports this module too, and should carry nothing of the report.


def main(arguments: Sequence[str] | None = None) -> int:
    from bench.peers.cases import WORKLOADS as WITH_PEERS
    from bench.peers.catalog import PEERS
    from bench.places import PLACES
    from bench.workloads import WORKLOADS

    parser = _arguments(list(WORKLOADS), list(PLACES), list(PEERS))
    chosen = parser.parse_args(arguments)
    chosen.workloads = chosen.workloads or list(WITH_PEERS if chosen.peers else WORKLOADS)
    chosen.rounds = chosen.rounds or (1 if chosen.quick else 3)
    if chosen.markdown and not chosen.peers:
        parser.error("--markdown is the comparison with peers as a page: add --peers")
    if chosen.peers and (alone := set(chosen.workloads) - set(WITH_PEERS)):
        parser.error(
            f"no peer takes part in {', '.join(sorted(alone))}; with --peers there are {', '.join(WITH_PEERS)}"
        )
    return _compare(chosen) if chosen.peers else _measure(chosen)


def _measure(chosen: argparse.Namespace) -> int:
    from rich.console import Console

    from bench import machine, progress, report
    from bench.places import PLACES, run_folder
    from bench.workloads import WORKLOADS

    sizes = _sizes(chosen)
    cases = [case for name in chosen.workloads for case in WORKLOADS[name](sizes)]
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    with ExitStack() as closing:
        folder = closing.enter_context(run_folder())
        places = [closing.enter_context(PLACES[store](folder)) for store in chosen.stores]
        facts = machine.describe(folder, next((place.version for place in places if place.store == "postgres"), None))
        results = progress.run(console, [(place, _of(place.store, cases)) for place in places], chosen.rounds)
    found = report.lines(results)
    report.show(console, found, machine.line(facts))
    if chosen.json:
        report.write_json(chosen.json, results, found, facts)
    return 1 if any(line.failed for line in found) else 0


def _of(store: str, cases: Sequence[Case]) -> list[Case]:
    return [case for case in cases if store in case.stores]


def _compare(chosen: argparse.Namespace) -> int:
    from bench.peers.running import Choice, compare

    choice = Choice(chosen.peers, chosen.workloads, chosen.stores, chosen.rounds, chosen.json, chosen.markdown)
    return compare(choice, _sizes(chosen))


def _sizes(chosen: argparse.Namespace) -> Sizes:
    sizes = QUICK if chosen.quick else FULL
    if chosen.churn_seconds is None:
        return sizes
    windows = min(12, max(2, int(chosen.churn_seconds)))
    return replace(sizes, churn_seconds=chosen.churn_seconds, churn_windows=windows)


def _arguments(workloads: list[str], stores: list[str], peers: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--workloads",
        type=lambda text: _some_of(workloads, text),
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
    parser.add_argument(
        "--peers",
        type=lambda text: _some_of(peers, text),
        nargs="?",
        const=peers,
        metavar="P,…",
        help=f"beside other queues, installed on first use: some of {', '.join(peers)}; all if none is named",
    )
    parser.add_argument("--rounds", type=int, help="how often each contender is measured; 3 by default")
    parser.add_argument("--churn-seconds", type=float, help="how long the churn runs; 60 by default")
    parser.add_argument("--quick", action="store_true", help="everything tiny: shows that it runs, not how fast")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write every number that was measured")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="where to write the tables with the peers")
    return parser


def _some_of(known: list[str], text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
