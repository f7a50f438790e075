"""How long to wait after a failed attempt."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Backoff, InvalidInput
from holdfast.core.duration import micros
from holdfast.core.retry import backoff

pytestmark = pytest.mark.unit

EXTREME_ATTEMPTS = [0, 1, 63, 64, 1_000, 1_000_000]


def test_the_wait_doubles_up_to_its_cap() -> None:
    rule = backoff("1s..60s")
    assert [rule.base(attempt) for attempt in range(1, 10)] == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_range_of_one_value_is_constant() -> None:
    assert [backoff("5s..5s").base(attempt) for attempt in (1, 2, 50)] == [5, 5, 5]


def test_jitter_spreads_the_wait_around_its_base() -> None:
    rule = backoff("10s..1000s")
    assert rule.wait(1, 0.0) == pytest.approx(9.0)
    assert rule.wait(1, 0.5) == pytest.approx(10.0)
    assert rule.wait(1, 1.0) == pytest.approx(11.0)


def test_jitter_never_passes_the_cap() -> None:
    rule = backoff("1s..60s")
    assert rule.wait(20, 1.0) == 60.0
    assert rule.wait(20, 0.0) == pytest.approx(54.0)


@pytest.mark.parametrize("value", [30, 30.0, "30s"])
def test_one_duration_is_a_fixed_wait_without_jitter(value: float | str) -> None:
    assert [backoff(value).wait(attempt, chance) for attempt in (1, 2, 99) for chance in (0.0, 1.0)] == [30.0] * 6


@pytest.mark.parametrize("steps", [[60, "5m", 1800], (60, 300.0, "30m")])
def test_a_list_is_walked_and_its_last_step_repeats(steps: list[float | str]) -> None:
    rule = backoff(steps)
    assert [rule.wait(attempt, 1.0) for attempt in (1, 2, 3, 4, 100)] == [60, 300, 1800, 1800, 1800]


def test_a_list_may_go_down_as_well() -> None:
    assert [backoff([60, 5]).wait(attempt, 0.5) for attempt in (1, 2, 3)] == [60, 5, 5]


def test_none_is_no_wait() -> None:
    assert [backoff(None).wait(attempt, 1.0) for attempt in (1, 2, 1000)] == [0.0, 0.0, 0.0]


def test_zero_is_no_wait() -> None:
    assert backoff(0).wait(7, 1.0) == 0.0


@pytest.mark.parametrize("attempt", EXTREME_ATTEMPTS)
@pytest.mark.parametrize("value", ["1s..60s", "1ms..36500d", "0s..60s", 30, [60, 300, 1800], None])
def test_no_attempt_number_leaves_the_bounds(value: object, attempt: int) -> None:
    """L9."""
    rule = backoff(value)  # type: ignore[arg-type]
    steps = rule.steps or (rule.initial, rule.longest)
    for chance in (0.0, 0.5, 1.0):
        wait = rule.wait(attempt, chance)
        assert math.isfinite(wait)
        assert min(steps) * (1 - rule.jitter) <= wait <= max(steps)
        assert micros(wait) >= 0


@given(
    first=st.floats(0, 1e6),
    more=st.floats(0, 1e6),
    attempt=st.integers(-(10**6), 10**9),
    chance=st.floats(0, 1),
)
def test_waits_stay_in_bounds_whatever_the_numbers(first: float, more: float, attempt: int, chance: float) -> None:
    rule = Backoff(initial=first, longest=first + more)
    assert 0 <= rule.initial * (1 - rule.jitter) <= rule.wait(attempt, chance) * (1 + 1e-9)
    assert rule.wait(attempt, chance) <= rule.longest


@given(attempt=st.integers(1, 10**6))
def test_a_later_attempt_never_waits_less(attempt: int) -> None:
    rule = backoff("1s..1h")
    assert rule.base(attempt) <= rule.base(attempt + 1)


@pytest.mark.parametrize(
    "refused", ["60s..1s", "1s..", "..60s", "soon", -1, [], [1, -1], ["x"], True, {"initial": 1}, [[1]]]
)
def test_what_is_no_backoff_is_refused(refused: object) -> None:
    with pytest.raises(InvalidInput):
        backoff(refused)  # type: ignore[arg-type]
