"""Each store with a mistake is caught, by the check that is there for it; without the mistake, the same seed is clean.

So are all seeds of `test_simulation`, which plays them on the same stages."""

from collections.abc import Callable

import pytest

from tests.simulation.broken import SQLITE
from tests.simulation.broken_postgres import POSTGRES
from tests.simulation.postgres_stage import PostgresStage
from tests.simulation.simulation import Outcome, simulate
from tests.simulation.sqlite_stage import SqliteStage

MOST_SEEDS = 300

pytestmark = pytest.mark.timeout(60, func_only=True)
"""Seconds: what is caught later is as good as not caught."""


def first_caught(play: Callable[[int], Outcome], check: str) -> int:
    """The first seed in which a check found something."""
    for seed in range(MOST_SEEDS):
        if play(seed).verdict.violations[check]:
            return seed
    pytest.fail(f"{check} found nothing in {MOST_SEEDS} seeds")


@pytest.mark.parametrize("name", SQLITE)
def test_a_broken_store_is_caught(stage: SqliteStage, name: str) -> None:
    broken = SQLITE[name]
    with broken.mistake():
        seed = first_caught(lambda seed: simulate(stage, seed, broken.queues, broken.cast), broken.check)
    assert simulate(stage, seed, broken.queues, broken.cast).verdict.clean


@pytest.mark.parametrize("name", POSTGRES)
def test_a_broken_store_with_many_writers_is_caught(postgres_stage: PostgresStage, name: str) -> None:
    broken, stage = POSTGRES[name], postgres_stage
    with broken.mistake(stage):
        seed = first_caught(lambda seed: simulate(stage, seed, broken.queues, broken.cast), broken.check)
    assert simulate(stage, seed, broken.queues, broken.cast).verdict.clean
