"""All that must hold, whatever was done to the database and the processes: `check(events, final)` decides, and asks
nobody. Each check is a function of the account; all of them together take O(n log n)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from holdfast.torture.account import Account, account
from holdfast.torture.checks.attempts import attempts_out_of_line, claimed_twice
from holdfast.torture.checks.conservation import unaccounted
from holdfast.torture.checks.counting import counts, fault_counts, silences
from holdfast.torture.checks.doubles import done_twice, stored_twice
from holdfast.torture.checks.durability import taken_back
from holdfast.torture.checks.groups import orders_that_differ, owed_to_groups, passed_by
from holdfast.torture.checks.leases import held_by_two
from holdfast.torture.checks.liveness import stuck
from holdfast.torture.checks.lost import lost
from holdfast.torture.checks.order import out_of_order
from holdfast.torture.checks.sagas import broken_sagas
from holdfast.torture.checks.stale import accepted_too_late
from holdfast.torture.checks.unexpected import unexpected
from holdfast.torture.ending import FinalState
from holdfast.torture.history import HistoryEvent
from holdfast.torture.verdict import TortureVerdict, judge

CHECKS: dict[str, Callable[[Account], Iterator[str]]] = {
    "lost": lost,
    "unexpected": unexpected,
    "duplicate": stored_twice,
    "doubled": done_twice,
    "double lease": held_by_two,
    "claimed twice": claimed_twice,
    "attempts": attempts_out_of_line,
    "stale accepted": accepted_too_late,
    "out of order": out_of_order,
    "group": owed_to_groups,
    "group order": orders_that_differ,
    "passed by": passed_by,
    "durability": taken_back,
    "stuck": stuck,
    "conservation": unaccounted,
    "saga": broken_sagas,
    "error": lambda found: iter(found.errors),
}


def check(events: Iterable[HistoryEvent], final: FinalState) -> TortureVerdict:
    """The verdict over a whole run. `events` are in the order of their times."""
    found = account(events, final)
    verdict = TortureVerdict(counts(found), fault_counts(found), silences(found))
    return judge(verdict, {name: one(found) for name, one in CHECKS.items()})
