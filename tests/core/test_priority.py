"""Priorities and the lanes they make."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import InvalidInput
from holdfast.core.priority import ALL, NORMAL, channel_of, lane, lane_start, priority, priority_of

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("name", "number"), [("urgent", 0), ("high", 1), ("normal", 2), ("low", 3)])
def test_a_priority_has_a_name_and_a_number(name: str, number: int) -> None:
    assert priority(name) == number
    assert priority(number) == number


def test_normal_is_the_default() -> None:
    assert priority("normal") == NORMAL


@pytest.mark.parametrize("refused", [-1, 4, "", "Urgent", "2", None, True, False, 1.5, 10**30])
def test_anything_else_is_refused(refused: object) -> None:
    with pytest.raises(InvalidInput, match="priority must be 0 to 3"):
        priority(refused)  # type: ignore[arg-type]


def test_a_whole_float_never_becomes_a_lane() -> None:
    with pytest.raises(InvalidInput, match="priority must be 0 to 3"):
        priority(1.0)  # type: ignore[arg-type]


@given(st.integers(1, 10**6), st.sampled_from(ALL))
def test_a_lane_knows_its_channel_and_priority(channel: int, level: int) -> None:
    number = lane(channel, level)
    assert channel_of(number) == channel
    assert priority_of(number) == level


@given(st.integers(1, 10**6), st.sampled_from(ALL))
def test_lanes_do_not_overlap(channel: int, level: int) -> None:
    number = lane(channel, level)
    last = lane_start(number + 1) - 1
    assert lane_start(number) >> 40 == number
    assert last >> 40 == number
    assert last < 2**63


def test_urgent_lanes_come_first() -> None:
    assert [priority_of(number) for number in sorted(lane(7, level) for level in ALL)] == [0, 1, 2, 3]
