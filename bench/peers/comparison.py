"""From results to standings: a line per store, row and contender, with Holdfast's ratio to it; as text and as JSON."""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench import report
from bench.cases import Case, Outcome, Row
from bench.peers.cases import GOALS, OWN
from bench.peers.catalog import PEERS, RUNTIME, Terms, terms
from bench.runner import Result

COLUMNS = (
    "",
    "workload",
    "contender",
    "version",
    "durability",
    "settings",
    "messages",
    "value",
    "Holdfast ÷ it",
    "run() ÷ it",
    "goal",
)
NUMBERS = ("messages", "value", "Holdfast ÷ it", "run() ÷ it")
TITLES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


@dataclass
class Standing:
    """How one contender did in one row. `problem` says why it has no value."""

    store: str
    workload: str
    row: Row
    contender: str
    terms: Terms
    value: float | None = None
    messages: float | None = None
    ratio: float | None = None
    ratio_by_round: list[float] = field(default_factory=list)
    runtime_ratio: float | None = None
    problem: str | None = None

    @property
    def is_own_failure(self) -> bool:
        return self.problem is not None and self.contender not in PEERS

    def verdicts(self) -> Iterator[tuple[str, bool]]:
        for goal in GOALS:
            if (goal.row, goal.peer) != (self.row.name, self.contender) or self.store not in goal.stores:
                continue
            for ratio, whose in ((self.ratio, ""), (self.runtime_ratio, " by run()")):
                if ratio:
                    met = goal.is_met(ratio)
                    yield f"{'✓' if met else '✗'} {'<' if goal.below else '≥'} {goal.bound:g} ×{whose}", met


def standings(results: Sequence[Result], versions: Mapping[str, str], absent: Mapping[str, str]) -> list[Standing]:
    """In the order measured; peers that are absent are in every row of their stores, with the reason."""
    by_case: dict[tuple[str, int], list[Result]] = {}
    for result in results:
        by_case.setdefault((result.store, id(result.case)), []).append(result)
    return [
        standing
        for group in by_case.values()
        for row in group[0].case.rows
        for standing in [*_measured(group, row, versions), *_absent(group[0].store, group[0].case, row, absent)]
    ]


def _measured(group: Sequence[Result], row: Row, versions: Mapping[str, str]) -> Iterator[Standing]:
    ours, runtime = _values(group, "holdfast", row), _values(group, RUNTIME, row)
    for result in group:
        name, workload = result.contender, result.case.workload
        standing = Standing(
            result.store, workload, row, name, terms(result.store, name, workload, versions.get(name, ""))
        )
        if result.failures:
            standing.problem = " ".join(result.failures[0].split())
        else:
            theirs = [outcome[row.metric] for outcome in result.outcomes]
            standing.value = statistics.median(theirs)
            standing.messages = _messages(result.outcomes, row)
            if ours and name != "holdfast" and standing.value:
                standing.ratio = statistics.median(ours) / standing.value
                standing.ratio_by_round = [one / other for one, other in zip(ours, theirs, strict=False) if other]
            if runtime and name != RUNTIME and standing.value:
                standing.runtime_ratio = statistics.median(runtime) / standing.value
        yield standing


def _values(group: Sequence[Result], contender: str, row: Row) -> list[float]:
    """Of every round; none if it failed, or takes no part."""
    found = next((result for result in group if result.contender == contender), None)
    return [] if found is None or found.failures else [outcome[row.metric] for outcome in found.outcomes]


def _absent(store: str, case: Case, row: Row, absent: Mapping[str, str]) -> Iterator[Standing]:
    for name, reason in absent.items():
        if store in PEERS[name].stores and PEERS[name].takes_part(case.workload):
            yield Standing(store, case.workload, row, name, terms(store, name, case.workload), problem=reason)


def _messages(outcomes: Sequence[Outcome], row: Row) -> float | None:
    """With how many messages it was measured: said for the row, for the whole outcome, or not at all."""
    for key in (f"{row.metric}_messages", "messages", "count"):
        if key in outcomes[0]:
            return statistics.median(outcome[key] for outcome in outcomes)
    return None


def show(console: Console, found: Sequence[Standing], machine: str) -> None:
    for store in dict.fromkeys(standing.store for standing in found):
        table = Table(title=f"Holdfast and its peers on {TITLES[store]}", title_justify="left")
        for name in COLUMNS:
            table.add_column(name, justify="right" if name in NUMBERS else "left")
        for standing, cells in _lines(store, found):
            if cells[1]:
                table.add_section()
            colour = "red" if standing.problem else "bold" if standing.contender in OWN else ""
            table.add_row(*(escape(cell) for cell in cells), style=colour)
        console.print(table)
    console.print(f"[dim]{machine}")


def markdown(found: Sequence[Standing], machine: str) -> str:
    """The same tables, to be put into a page."""
    text = []
    for store in dict.fromkeys(standing.store for standing in found):
        text += [f"## {TITLES[store]}", "", "| " + " | ".join(COLUMNS) + " |"]
        text += ["|" + "|".join("---:" if name in NUMBERS else "---" for name in COLUMNS) + "|"]
        text += [
            "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for _, cells in _lines(store, found)
        ]
        text += [""]
    return "\n".join([*text, machine, ""])


def write_json(path: Path, results: Sequence[Result], found: Sequence[Standing], machine: dict[str, Any]) -> None:
    rows = [
        {
            "store": standing.store,
            "workload": standing.workload,
            "row": standing.row.name,
            "unit": standing.row.unit,
            "contender": standing.contender,
            **asdict(standing.terms),
            "messages": standing.messages,
            "value": standing.value,
            "holdfast_ratio": standing.ratio,
            "holdfast_ratio_by_round": standing.ratio_by_round,
            "run_ratio": standing.runtime_ratio,
            "goals": [text for text, _ in standing.verdicts()],
            "problem": standing.problem,
        }
        for standing in found
    ]
    path.write_text(json.dumps({"machine": machine, "rows": rows, "raw": report.raw(results)}, indent=1) + "\n")


def _lines(store: str, found: Sequence[Standing]) -> Iterator[tuple[Standing, tuple[str, ...]]]:
    """Cells of a store's lines; the names of workload and row only where they begin."""
    workload = row = ""
    for standing in found:
        if standing.store != store:
            continue
        first, named = standing.workload != workload, standing.row.name != row
        workload, row = standing.workload, standing.row.name
        yield standing, (workload if first else "", row if named else "", *_cells(standing))


def _cells(standing: Standing) -> tuple[str, ...]:
    value = standing.problem or report.number(standing.value, standing.row.unit)
    spread = standing.ratio_by_round
    ratio = "" if standing.ratio is None else f"{standing.ratio:.2f}"
    if len(spread) > 1:
        ratio += f" ({min(spread):.2f}…{max(spread):.2f})"
    runtime = "" if standing.runtime_ratio is None else f"{standing.runtime_ratio:.2f}"
    messages = "" if standing.messages is None else f"{standing.messages:,.0f}"
    goals = ", ".join(text for text, _ in standing.verdicts())
    terms = standing.terms
    return standing.contender, terms.version, terms.durability, terms.how, messages, value, ratio, runtime, goals
