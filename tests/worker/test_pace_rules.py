"""How many messages a worker claims ahead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.worker.pace import MOMENT, MOST_AHEAD, PART_OF_LEASE, HandlingPace

pytestmark = pytest.mark.unit

times = st.floats(0, 100)


def settled(seconds: float, concurrency: int = 1, lease: float = 30.0) -> int:
    """What it comes to for a handler that always takes so long."""
    pace = HandlingPace()
    for _ in range(30):
        pace.note(seconds, 1)
        ahead = pace.ahead(concurrency, lease)
    return ahead


def test_nothing_is_claimed_ahead_before_anything_is_known() -> None:
    assert HandlingPace().ahead(4, 30.0) == 0


def test_slow_handlers_get_what_they_can_begin() -> None:
    assert settled(1.0) == 0
    assert settled(1.0, concurrency=10) == 0
    assert settled(MOMENT) == 0


def test_quick_handlers_get_a_moments_work() -> None:
    assert settled(0.001) == 99
    assert settled(0.001, concurrency=4) == 396


def test_there_is_a_most() -> None:
    assert settled(0.0) == MOST_AHEAD


def test_it_grows_by_doubling() -> None:
    pace = HandlingPace()
    pace.note(0.0, 100)
    assert [pace.ahead(1, 30.0) for _ in range(6)] == [16, 48, 112, 240, 496, MOST_AHEAD]


def test_one_slow_message_is_believed_at_once_and_quick_ones_little_by_little() -> None:
    pace = HandlingPace()
    for _ in range(20):
        pace.note(0.001, 1)
        pace.ahead(1, 30.0)
    pace.note(2.0, 1)
    assert pace.ahead(1, 30.0) == 0
    pace.note(0.001, 1)
    assert pace.mean is not None
    assert 1.0 < pace.mean < 2.0


def test_a_short_lease_is_kept_in_mind() -> None:
    assert settled(0.001, lease=0.1) == 24


@given(
    st.lists(st.tuples(times, st.integers(1, 500)), min_size=1, max_size=30), st.integers(1, 100), st.floats(0.01, 600)
)
def test_what_is_claimed_is_through_in_a_part_of_the_lease(
    samples: list[tuple[float, int]], concurrency: int, lease: float
) -> None:
    pace = HandlingPace()
    for seconds, count in samples:
        pace.note(seconds, count)
        ahead = pace.ahead(concurrency, lease)
        assert 0 <= ahead <= MOST_AHEAD
        if ahead:
            assert pace.mean is not None
            assert (ahead + concurrency) * pace.mean / concurrency <= lease * PART_OF_LEASE + 1e-9
