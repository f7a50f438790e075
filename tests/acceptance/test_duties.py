"""A turn of a duty holds SQLite's write lock for a moment only, however much there is to do."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.limits import SWEEP_LIMIT
from tests.acceptance.effort import effort
from tests.clock import FakeClock

FEW, MANY = 25 * SWEEP_LIMIT, 75 * SWEEP_LIMIT

MOMENT = 500_000
"""Steps of SQLite's machine: about 50 ms on a slow computer, which does ten million and more in a second."""


def lapsed_rows(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.queue("q", backoff=None)
    hf.enqueue_many("q", range(count), delay=1)
    clock.advance(1)
    while hf.claim("q", n=1000, lease=1):
        pass
    clock.advance(2)


def lapsed_run(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.enqueue_many("q", range(count))
    while hf.claim("q", n=1000, lease=1):
        pass
    clock.advance(2)


def outlived(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.queue("q", max_age=60)
    hf.enqueue_many("q", range(count))
    clock.advance(61)


def outlived_rows(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.queue("q", max_age=60)
    hf.enqueue_many("q", range(count), delay=1)
    clock.advance(61)


def past(hf: Holdfast, clock: FakeClock, count: int) -> None:
    hf.queue("q", history=60)
    hf.enqueue_many("q", range(count))
    while claims := hf.claim("q", n=1000):
        hf.ack(claims)
    clock.advance(61)


@pytest.mark.parametrize(
    ("duty", "fill"),
    [
        ("take_back", lapsed_rows),
        ("take_back", lapsed_run),
        ("expire", outlived),
        ("expire", outlived_rows),
        ("prune", past),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_turn_costs_the_same_however_much_there_is_to_do(
    tmp_path: Path, duty: str, fill: Callable[[Holdfast, FakeClock, int], None]
) -> None:
    def turn(count: int) -> int:
        clock, url = FakeClock(), f"sqlite:///{tmp_path}/{count}.db"
        with Holdfast(url, clock=clock, sweep_every=3600) as hf:
            fill(hf, clock, count)
            channel, done = hf._book.channel("q"), list[int]()
            work = getattr(hf.store.upkeep, duty)
            steps = effort(url, hf, lambda: done.append(work(channel, SWEEP_LIMIT)))
            assert done[0] > 0, "there was something to do"
        return steps

    few, many = turn(FEW), turn(MANY)
    assert many < 1.5 * few
    assert many < MOMENT
