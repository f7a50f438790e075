"""From results to lines: medians, ratios within the run, goals met or missed; as tables and as JSON."""

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.cases import Row
from bench.runner import Result

FAILED = "FAILED"


@dataclass
class Line:
    """One row of one store, computed."""

    store: str
    workload: str
    row: Row
    holdfast: float | None
    ref: float | None
    failures: dict[str, list[str]]
    to_ref: float | None = None
    to_ref_by_round: list[float] | None = None
    to_against: float | None = None
    ref_to_against: float | None = None

    @property
    def failed(self) -> bool:
        return any(self.failures.values())


def lines(results: Sequence[Result]) -> list[Line]:
    found = [line for case in _by_case(results) for line in _case_lines(case)]
    by_name = {(line.store, line.workload, line.row.name): line for line in found}
    for line in found:
        base = by_name.get((line.store, line.workload, line.row.against[0])) if line.row.against else None
        if base and not (line.failed or base.failed):
            line.to_against = _ratio(line.holdfast, base.holdfast)
            line.ref_to_against = _ratio(line.ref, base.ref)
    return found


def show(console: Console, found: Sequence[Line], machine: str) -> None:
    for store in dict.fromkeys(line.store for line in found):
        console.print(_table(store, [line for line in found if line.store == store]))
    console.print(f"[dim]{machine}")
    for line in found:
        for contender, failures in line.failures.items():
            for failure in failures:
                console.print(f"[red]{FAILED}[/] {line.store} {line.workload} {line.row.name} ({contender}): ", end="")
                console.print(failure, markup=False)


def write_json(path: Path, results: Sequence[Result], found: Sequence[Line], machine: dict[str, Any]) -> None:
    summary = [
        {
            "store": line.store,
            "workload": line.workload,
            "row": line.row.name,
            "unit": line.row.unit,
            "holdfast": line.holdfast,
            "ref": line.ref,
            "ratio_to_ref": line.to_ref,
            "ratio_to_ref_by_round": line.to_ref_by_round,
            "against": line.row.against[0] if line.row.against else None,
            "ratio_to_against": line.to_against,
            "ref_ratio_to_against": line.ref_to_against,
            "goals": [text for text, _ in _verdicts(line)],
            "failures": line.failures,
        }
        for line in found
    ]
    path.write_text(json.dumps({"machine": machine, "rows": summary, "raw": raw(results)}, indent=1) + "\n")


def raw(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Every number of every round."""
    return [
        {
            "store": result.store,
            "workload": result.case.workload,
            "case": result.case.name,
            "contender": result.contender,
            "rounds": result.outcomes,
            "failures": result.failures,
        }
        for result in results
    ]


def _by_case(results: Sequence[Result]) -> Iterator[dict[str, Result]]:
    cases: dict[tuple[str, int], dict[str, Result]] = {}
    for result in results:
        cases.setdefault((result.store, id(result.case)), {})[result.contender] = result
    yield from cases.values()


def _case_lines(case: dict[str, Result]) -> Iterator[Line]:
    first = next(iter(case.values()))
    failures = {contender: result.failures for contender, result in case.items()}
    for row in first.case.rows:
        ours, theirs = (
            [outcome[row.metric] for outcome in case[contender].outcomes] if contender in case else []
            for contender in ("holdfast", "ref")
        )
        line = Line(first.store, first.case.workload, row, _median(ours), _median(theirs), failures)
        if not line.failed:
            line.to_ref = _ratio(line.holdfast, line.ref)
            line.to_ref_by_round = [one / other for one, other in zip(ours, theirs, strict=False) if other]
        yield line


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None


def _table(store: str, found: Sequence[Line]) -> Table:
    table = Table(
        title=f"Holdfast on {store}, against ref-{'pg' if store == 'postgres' else store}", title_justify="left"
    )
    table.add_column("")
    table.add_column("workload")
    for name in ("holdfast", "ref", "× ref"):
        table.add_column(name, justify="right")
    table.add_column("compared")
    table.add_column("goal")
    before = ""
    for line in found:
        if before and line.workload != before:
            table.add_section()
        shown = "" if line.workload == before else line.workload
        before = line.workload
        table.add_row(shown, line.row.name, *_cells(line))
    return table


def _cells(line: Line) -> tuple[str, ...]:
    ours, theirs = _value(line, "holdfast", line.holdfast), _value(line, "ref", line.ref)
    goals = ", ".join(f"[{'green' if met else 'yellow'}]{text}[/]" for text, met in _verdicts(line))
    return ours, theirs, _to_ref(line), _compared(line), goals


def _value(line: Line, contender: str, value: float | None) -> str:
    return f"[bold red]{FAILED}" if line.failures.get(contender) else number(value, line.row.unit)


def _compared(line: Line) -> str:
    if line.to_against is None or line.row.against is None:
        return ""
    theirs = "" if line.ref_to_against is None else f" (ref {line.ref_to_against:.2f})"
    return f"{line.to_against:.2f} × {line.row.against[1]}{theirs}"


def _to_ref(line: Line) -> str:
    if line.to_ref is None:
        return ""
    spread = line.to_ref_by_round or []
    return f"{line.to_ref:.2f}" + (f" ({min(spread):.2f}…{max(spread):.2f})" if len(spread) > 1 else "")


def number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.2f} {unit}"


def _verdicts(line: Line) -> Iterator[tuple[str, bool]]:
    for goal in line.row.goals:
        found = {"value": line.holdfast, "ref": line.to_ref, "against": line.to_against}[goal.of]
        if found is None or line.store not in goal.stores or line.failed:
            continue
        met = goal.is_met(found)
        what = {"value": f" {line.row.unit}", "ref": " × ref", "against": " ×"}[goal.of]
        yield f"{'✓' if met else '✗'} {'≤' if goal.below else '≥'} {goal.bound:g}{what}", met
