"""What is measured: a case runs once per round and contender, and its outcome fills one or more rows of the report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.places import Place
from bench.queues import Contender, Target

Outcome = dict[str, float]
BOTH: tuple[Contender, ...] = ("holdfast", "ref")
ONLY_HOLDFAST: tuple[Contender, ...] = ("holdfast",)


@dataclass(frozen=True)
class Goal:
    """A figure of DESIGN.md, section 6: Holdfast's value, or its ratio to `ref` or to the row it is held `against`."""

    of: Literal["value", "ref", "against"]
    bound: float
    stores: tuple[str, ...] = ("sqlite", "postgres")
    below: bool = False

    def is_met(self, found: float) -> bool:
        return found <= self.bound if self.below else found >= self.bound


@dataclass(frozen=True)
class Row:
    """One line of the report: a number of the outcome.

    `against` is another row of the same workload to divide by, and what to call it beside the ratio.
    """

    name: str
    metric: str = "rate"
    unit: str = "/s"
    against: tuple[str, str] | None = None
    goals: tuple[Goal, ...] = ()


@dataclass(frozen=True)
class Case:
    workload: str
    name: str
    measure: Callable[[Place, Target], Outcome]
    rows: Sequence[Row]
    contenders: tuple[Contender, ...] = BOTH
    most_rounds: int = 99
    stores: tuple[str, ...] = ("sqlite", "postgres")


def rate_case(
    workload: str,
    name: str,
    measure: Callable[[Place, Target], Outcome],
    *,
    against: tuple[str, str] | None = None,
    goals: tuple[Goal, ...] = (),
    contenders: tuple[Contender, ...] = BOTH,
) -> Case:
    """The usual case: one number, messages per second."""
    return Case(workload, name, measure, [Row(name, against=against, goals=goals)], contenders)
