"""How much is claimed ahead: a moment's work, learned quickly when it gets slower, and slowly when it gets faster."""

import pytest

from holdfast.core.pace import MOST_AHEAD, Pace


def settled(seconds: float, concurrency: int = 1, lease: float = 30.0) -> int:
    """What it comes to when every message takes so long."""
    pace = Pace()
    for _ in range(50):
        pace.note(seconds * 10, 10)
        pace.ahead(concurrency, lease)
    return pace.ahead(concurrency, lease)


def test_nothing_is_claimed_ahead_before_anything_is_known() -> None:
    assert Pace().ahead(10, 30.0) == 0


@pytest.mark.parametrize(
    ("seconds", "ahead"), [(1e-6, MOST_AHEAD), (0.0, MOST_AHEAD), (0.001, 99), (0.01, 9), (0.1, 0), (60.0, 0)]
)
def test_a_moments_work_lies_ready(seconds: float, ahead: int) -> None:
    assert settled(seconds) == ahead


def test_more_hands_get_through_more() -> None:
    assert settled(0.01, concurrency=10) == 90


def test_it_is_through_in_a_part_of_the_lease() -> None:
    assert settled(0.01, lease=0.2) == 4


def test_it_grows_step_by_step() -> None:
    pace, steps = Pace(), []
    for _ in range(8):
        pace.note(1e-6, 1)
        steps.append(pace.ahead(1, 30.0))
    assert steps == [16, 48, 112, 240, 496, 500, 500, 500]


def test_slower_is_believed_at_once_and_faster_step_by_step() -> None:
    pace = Pace()
    pace.note(0.001, 1)
    pace.note(5.0, 1)
    assert pace.ahead(1, 30.0) == 0
    pace.note(0.001, 1)
    assert pace.mean is not None
    assert 3.0 < pace.mean < 5.0
