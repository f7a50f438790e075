"""Runs cases in rounds; within a round the contenders take turns, so that drift of the machine hits them alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.cases import Case, Outcome
from bench.places import Place
from bench.processes import Failed
from bench.queues import Contender, Target


@dataclass
class Result:
    """All rounds of one case and contender."""

    store: str
    case: Case
    contender: Contender
    outcomes: list[Outcome] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def run(place: Place, cases: Sequence[Case], rounds: int, tell: Callable[[str], None]) -> list[Result]:
    """Measures everything; `tell` hears what comes next."""
    results: list[Result] = []
    for case in cases:
        taken = {contender: Result(place.store, case, contender) for contender in case.contenders}
        for turn in range(min(rounds, case.most_rounds)):
            order = case.contenders if turn % 2 == 0 else case.contenders[::-1]
            for contender in order:
                tell(f"{place.store} {case.workload}: {case.name} ({contender}, round {turn + 1})")
                _measure(place, case, taken[contender])
        results += taken.values()
    return results


def steps(cases: Sequence[Case], rounds: int) -> int:
    return sum(len(case.contenders) * min(rounds, case.most_rounds) for case in cases)


def _measure(place: Place, case: Case, result: Result) -> None:
    try:
        with place.fresh() as url:
            result.outcomes.append(case.measure(place, Target(result.contender, place.store, url)))
    except Failed as problem:
        result.failures.append(str(problem))
    except Exception as problem:
        result.failures.append(f"{type(problem).__name__}: {problem}")
