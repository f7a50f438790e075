"""The bits of a run that is split."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.run import is_finished, is_settled, settle

pytestmark = pytest.mark.unit


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, set[int]]:
    size = draw(st.integers(1, 40))
    return size, draw(st.sets(st.integers(0, size - 1)))


def settled(bits: bytes | None, size: int) -> set[int]:
    return {member for member in range(size) if is_settled(bits, member)}


def test_in_a_whole_run_nothing_is_settled() -> None:
    assert settled(None, 20) == set()


@settings(max_examples=40)
@given(runs())
def test_what_is_settled_is_settled_and_nothing_else(run: tuple[int, set[int]]) -> None:
    size, members = run
    assert settled(settle(None, size, members), size) == members


@settings(max_examples=40)
@given(runs(), st.data())
def test_settling_adds_to_what_was_settled_before(run: tuple[int, set[int]], data: st.DataObject) -> None:
    size, first = run
    second = data.draw(st.sets(st.integers(0, size - 1)))
    bits = settle(settle(None, size, first), size, second)
    assert settled(bits, size) == first | second


@settings(max_examples=40)
@given(runs())
def test_settling_twice_is_settling_once(run: tuple[int, set[int]]) -> None:
    size, members = run
    once = settle(None, size, members)
    assert settle(once, size, members) == once


@settings(max_examples=40)
@given(runs())
def test_a_run_is_finished_when_all_of_it_is_settled_and_not_before(run: tuple[int, set[int]]) -> None:
    size, members = run
    assert is_finished(settle(None, size, members), size) == (len(members) == size)


@settings(max_examples=40)
@given(st.integers(1, 40), st.randoms(use_true_random=False))
def test_the_last_member_finishes_the_run_in_any_order(size: int, random: object) -> None:
    order = list(range(size))
    random.shuffle(order)  # type: ignore[attr-defined]
    bits = settle(None, size, order[:-1])
    assert not is_finished(bits, size)
    assert is_finished(settle(bits, size, order[-1:]), size)


def test_a_bit_costs_a_bit() -> None:
    for size in range(1, 50):
        assert len(settle(None, size, [size - 1])) == (size + 7) // 8


def test_settling_leaves_the_old_bits_alone() -> None:
    before = settle(None, 10, [1])
    settle(before, 10, [2])
    assert settled(before, 10) == {1}
