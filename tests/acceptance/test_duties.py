"""A turn of a duty holds SQLite's write lock for a moment only, however much there is to do."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast import Holdfast
from holdfast.client.client import internals
from holdfast.client.validate import SWEEP_LIMIT
from holdfast.schedules import rules as schedules_rules
from holdfast.sqs import lost_pointers
from holdfast.worker.maintenance.duties import (
    DUTIES,
    Duty,
    ageing,
    commands,
    crew,
    deliveries,
    escalation,
    history,
    liveness,
    reaper,
    replies,
    retention,
    sagas,
    schedules,
    wakeups,
)
from tests.acceptance import chores
from tests.acceptance.effort import longest_write
from tests.clock import FakeClock
from tests.long import only_long

MOMENT = 500_000
"""Steps of SQLite's machine: about 50 ms on a slow computer, which does ten million and more in a second."""


class Case(NamedTuple):
    """A turn of a duty, after `fill` has made this much of its work; and three times as much."""

    duty: Duty
    turn: Callable[[Holdfast], int]
    fill: Callable[[Holdfast, FakeClock, int], None]
    few: int = 25 * SWEEP_LIMIT


def take_back(hf: Holdfast) -> int:
    return internals(hf).store.upkeep.take_back(internals(hf).catalog.channel("q"), SWEEP_LIMIT)


def expire(hf: Holdfast) -> int:
    return internals(hf).store.upkeep.expire(internals(hf).catalog.channel("q"), SWEEP_LIMIT)


def prune(hf: Holdfast) -> int:
    return internals(hf).store.upkeep.prune(internals(hf).catalog.channel("q"), SWEEP_LIMIT)


def fold(hf: Holdfast) -> int:
    return prune_of(hf, "holdfast_tally")


def forget_askers(hf: Holdfast) -> int:
    return prune_of(hf, "holdfast_consumer")


def prune_of(hf: Holdfast, table: str) -> int:
    """What is not counted as work, by the rows that are gone."""

    def size() -> int:
        with internals(hf).store.lend() as conn:
            return int(conn.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    before = size()
    prune(hf)
    return before - size()


def send_again(hf: Holdfast) -> int:
    return internals(hf).store.deliveries.send_again(
        internals(hf).catalog.channel("q"), lost_pointers.AT_ONCE, 0, waiting=10
    )


def wait_longer(hf: Holdfast) -> int:
    return internals(hf).store.deliveries.wait_longer(internals(hf).catalog.channel("q"), lost_pointers.AT_ONCE, 1)


def tell_of_deaths(hf: Holdfast) -> int:
    return internals(hf).transport.through_sqs().aftercare.tell(internals(hf).catalog.channel("q"))


CASES = [
    Case(reaper, take_back, chores.lapsed_rows),
    Case(reaper, take_back, chores.lapsed_run),
    Case(reaper, take_back, chores.half_acked_run),
    Case(reaper, take_back, chores.dying_rows, 200),
    Case(reaper, take_back, chores.dying_run, 300),
    Case(reaper, take_back, chores.dying_steps, 200),
    Case(ageing, expire, chores.outlived),
    Case(ageing, expire, chores.outlived_rows),
    Case(ageing, expire, chores.outlived_everywhere, 200),
    Case(history, prune, chores.past),
    Case(history, prune, chores.long_past_run),
    Case(history, prune, chores.too_much_past),
    Case(history, prune, chores.results_of_old, 200),
    Case(history, prune, chores.dead_for_long, 200),
    Case(history, fold, chores.busy_seconds, 1200),
    Case(history, forget_askers, chores.gone_askers, 200),
    Case(reaper, take_back, chores.silent_senders),
    Case(deliveries, send_again, chores.lost_pointers, 12_000),
    Case(deliveries, wait_longer, chores.lost_pointers),
    Case(deliveries, tell_of_deaths, chores.untold_deaths, 200),
    Case(liveness, liveness.turn, chores.silent_groups, 50),
    Case(retention, retention.turn, chores.read_by_all),
    Case(retention, retention.turn, chores.too_old_for_one),
    Case(retention, retention.turn, chores.too_old_for_many, 30),
    Case(schedules, schedules.turn, chores.missed_slots),
    Case(schedules, schedules.turn, chores.many_schedules, 200),
    Case(sagas, sagas.turn, chores.late_steps, 200),
    Case(sagas, sagas.turn, chores.wide_sagas, 1),
    Case(sagas, sagas.turn, chores.ended_sagas, 30),
    Case(crew, crew.turn, chores.gone_consumers, 200),
    Case(commands, commands.turn, chores.old_receipts, 200),
    Case(replies, replies.turn, chores.silent_askers, 300),
    Case(replies, replies.turn, chores.forgotten_askers, 300),
    Case(replies, replies.turn, chores.unheard_answers),
    Case(escalation, escalation.turn, chores.late_notices, 200),
    Case(escalation, escalation.turn, chores.digest_of_one, 200),
    Case(escalation, escalation.turn, chores.digests_of_many, 200),
    Case(escalation, escalation.turn, chores.news_for_one, 500),
    Case(escalation, escalation.turn, chores.news_for_all, 1000),
]


FIRST = {case.duty: case for case in reversed(CASES)}
"""The default run has one case of each duty."""


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=() if case is FIRST[case.duty] else only_long) for case in CASES],
    ids=lambda case: f"{case.duty.name}-{case.turn.__name__}-{case.fill.__name__}",
)
def test_a_turn_costs_the_same_however_much_there_is_to_do(tmp_path: Path, case: Case) -> None:
    def steps(count: int) -> int:
        clock, done = FakeClock(), list[int]()
        with Holdfast(f"sqlite:///{tmp_path}/{count}.db", clock=clock, sweep_every=3600) as hf:
            hf.queue("q")
            case.fill(hf, clock, count)
            most = longest_write(hf, lambda: done.append(case.turn(hf)))
        assert done[0] > 0, "there was something to do"
        return most

    few, many = steps(case.few), steps(3 * case.few)
    assert many < 1.5 * few
    assert many < MOMENT


def test_every_duty_that_writes_has_a_case() -> None:
    assert {case.duty for case in CASES} == set(DUTIES) - {wakeups}


def test_a_look_for_what_was_slept_through_never_takes_the_write_lock(tmp_path: Path) -> None:
    clock = FakeClock()
    with Holdfast(f"sqlite:///{tmp_path}/q.db", clock=clock, sweep_every=3600) as hf:
        chores.due_everywhere(hf, clock, 20)
        assert longest_write(hf, lambda: wakeups.turn(hf)) == 0


def test_missed_slots_are_counted_before_the_write_lock_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, is_held = FakeClock(), list[bool]()
    with Holdfast(f"sqlite:///{tmp_path}/q.db", clock=clock, sweep_every=3600) as hf:

        def counted(plan: schedules_rules.SlotPlan, slot: int, end: int) -> int:
            is_held.append(internals(hf).store.database._writing.locked())  # type: ignore[attr-defined]
            return count(plan, slot, end)

        count = schedules_rules.count
        monkeypatch.setattr(schedules_rules, "count", counted)
        hf.schedule("tick", queue="q", cron="30 4 * * 1-5", tz="Europe/Berlin")
        clock.advance(4 * 365 * 86_400)
        assert hf.schedules.fire() == 1
    assert is_held == [False]
