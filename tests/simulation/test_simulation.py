"""Every seed is another story of producers, workers, faults and time; none of them may end badly.

`HOLDFAST_SEEDS=10000` plays more of them, `HOLDFAST_FIRST_SEED` others.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.long import size
from tests.simulation import regressions
from tests.simulation.postgres_stage import PostgresStage
from tests.simulation.replay import told
from tests.simulation.simulation import simulate
from tests.simulation.sqlite_stage import SqliteStage
from tests.simulation.stage import Stage

SEEDS = size(200, 1000, "HOLDFAST_SEEDS")
FIRST = int(os.environ.get("HOLDFAST_FIRST_SEED", "0"))
CHUNKS = 20
POSTGRES_SEEDS = max(SEEDS // 50, 1)
POSTGRES_CHUNKS = 2


def assert_clean(stage: Stage, seeds: Iterable[int]) -> None:
    outcomes = (simulate(stage, seed) for seed in seeds)
    bad = [told(outcome, stage) for outcome in outcomes if not outcome.verdict.clean]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_seed_ends_badly(stage: SqliteStage, chunk: int) -> None:
    assert_clean(stage, range(FIRST + chunk, FIRST + SEEDS, CHUNKS))


@pytest.mark.parametrize("chunk", range(POSTGRES_CHUNKS))
def test_no_seed_ends_badly_with_many_writers(postgres_stage: PostgresStage, chunk: int) -> None:
    """On PostgreSQL, where transactions really meet."""
    assert_clean(postgres_stage, range(FIRST + chunk, FIRST + POSTGRES_SEEDS, POSTGRES_CHUNKS))


def test_seeds_that_failed_once(stage: SqliteStage, postgres_stage: PostgresStage) -> None:
    assert_clean(stage, regressions.SQLITE)
    assert_clean(postgres_stage, regressions.POSTGRES)


def test_much_happens_in_a_few_seeds(stage: SqliteStage) -> None:
    """A simulation in which nothing happens proves nothing."""
    outcomes = [simulate(stage, seed) for seed in range(60)]
    counts = {name: sum(outcome.verdict.counts[name] for outcome in outcomes) for name in outcomes[0].verdict.counts}
    for name in ("recovered", "repeated", "retried", "dead", "stale refused", "unknown endings", "sagas"):
        assert counts[name] > 5, (name, counts)
    faults = sum((outcome.faults for outcome in outcomes), outcomes[0].faults)
    assert min(faults[name] for name in ("busy", "broken", "undone", "unheard", "killed", "stopped")) > 10, faults


def test_a_seed_replays_byte_for_byte(stage: SqliteStage, postgres_stage: PostgresStage) -> None:
    for seed in range(20):
        assert simulate(stage, seed).history == simulate(stage, seed).history
    for seed in range(2):
        assert simulate(postgres_stage, seed).history == simulate(postgres_stage, seed).history


def test_a_seed_replays_in_another_process() -> None:
    """Nothing depends on the address of an object, the seed of a hash, or the time of day."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.simulation.replay", "--digest", *map(str, range(40, 50))]
    runs = [
        subprocess.run(
            command, cwd=root, env={**os.environ, "PYTHONHASHSEED": number}, capture_output=True, text=True, check=True
        )
        for number in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stdout.count("\n") == 10
