"""A turn of a duty holds SQLite's write lock for a moment only, however much there is to do."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast import Holdfast
from holdfast.delivery import reconciling
from holdfast.limits import SWEEP_LIMIT
from tests.acceptance import chores
from tests.acceptance.effort import longest_write
from tests.clock import FakeClock

MOMENT = 500_000
"""Steps of SQLite's machine: about 50 ms on a slow computer, which does ten million and more in a second."""


class Case(NamedTuple):
    """A turn of a duty, after `fill` has made this much of its work; and three times as much."""

    turn: Callable[[Holdfast], int]
    fill: Callable[[Holdfast, FakeClock, int], None]
    few: int = 25 * SWEEP_LIMIT


def take_back(hf: Holdfast) -> int:
    return hf.store.upkeep.take_back(hf._book.channel("q"), SWEEP_LIMIT)


def expire(hf: Holdfast) -> int:
    return hf.store.upkeep.expire(hf._book.channel("q"), SWEEP_LIMIT)


def prune(hf: Holdfast) -> int:
    return hf.store.upkeep.prune(hf._book.channel("q"), SWEEP_LIMIT)


def fold(hf: Holdfast) -> int:
    return prune_of(hf, "holdfast_tally")


def forget_askers(hf: Holdfast) -> int:
    return prune_of(hf, "holdfast_consumer")


def prune_of(hf: Holdfast, table: str) -> int:
    """What is not counted as work, by the rows that are gone."""

    def size() -> int:
        with hf.store.lend() as conn:
            return int(conn.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    before = size()
    prune(hf)
    return before - size()


def send_again(hf: Holdfast) -> int:
    return hf.store.deliveries.send_again(hf._book.channel("q"), reconciling.AT_ONCE, 0, waiting=10)


def wait_longer(hf: Holdfast) -> int:
    return hf.store.deliveries.wait_longer(hf._book.channel("q"), reconciling.AT_ONCE, 1)


def forget_replies(hf: Holdfast) -> int:
    return hf.store.replies.forget("default", SWEEP_LIMIT)


CASES = [
    Case(take_back, chores.lapsed_rows),
    Case(take_back, chores.lapsed_run),
    Case(take_back, chores.half_acked_run),
    Case(take_back, chores.dying_rows, 200),
    Case(take_back, chores.dying_run, 300),
    Case(take_back, chores.dying_steps, 200),
    Case(expire, chores.outlived),
    Case(expire, chores.outlived_rows),
    Case(expire, chores.outlived_everywhere, 200),
    Case(prune, chores.past),
    Case(prune, chores.long_past_run),
    Case(prune, chores.too_much_past),
    Case(prune, chores.results_of_old, 200),
    Case(prune, chores.dead_for_long, 200),
    Case(fold, chores.busy_seconds, 1200),
    Case(forget_askers, chores.gone_askers, 200),
    Case(take_back, chores.silent_senders),
    Case(send_again, chores.lost_pointers, 12_000),
    Case(wait_longer, chores.lost_pointers),
    Case(Holdfast._retain, chores.read_by_all),
    Case(Holdfast._retain, chores.too_old_for_one),
    Case(Holdfast._retain, chores.too_old_for_many, 30),
    Case(forget_replies, chores.silent_askers, 300),
    Case(forget_replies, chores.forgotten_askers, 300),
    Case(forget_replies, chores.unheard_answers),
    Case(Holdfast.escalate, chores.late_notices, 200),
    Case(Holdfast.escalate, chores.digest_of_one, 200),
    Case(Holdfast.escalate, chores.digests_of_many, 200),
    Case(Holdfast.escalate, chores.news_for_one, 500),
    Case(Holdfast.escalate, chores.news_for_all, 1000),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.turn.__name__}-{case.fill.__name__}")
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
