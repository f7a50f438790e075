"""How many consumers a pool should have."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.worker.pools.scaling import Load, PoolSpec, Scaler, to_drain

pytestmark = pytest.mark.unit

CALM, MIDDLE, MUCH = Load(0, 0.0), Load(10, 1.0), Load(20, 1.0)
OLD = Load(1, 30.0)

loads = st.builds(Load, st.integers(0, 60), st.floats(0, 60), st.integers(0, 3), st.booleans())
pauses = st.floats(0, 20)


def scaler(**spec: Any) -> Scaler:
    return Scaler(PoolSpec(**{"least": 1, "most": 8, "up_depth": 20, "down_depth": 5, "cooldown": 10.0, **spec}))


def test_the_least_is_started_at_once() -> None:
    assert scaler(least=3).wanted(CALM, 0, 0.0) == 3
    assert scaler(least=3).wanted(CALM, 1, 0.0) == 3


def test_a_deep_queue_doubles_the_pool_up_to_its_most() -> None:
    one = scaler(most=6, cooldown=10.0)
    assert [one.wanted(MUCH, 1, 0.0), one.wanted(MUCH, 2, 10.0), one.wanted(MUCH, 4, 20.0)] == [2, 4, 6]
    assert one.wanted(MUCH, 6, 30.0) == 6


def test_age_alone_is_a_backlog_too() -> None:
    assert scaler(least=2).wanted(OLD, 2, 0.0) == 4
    assert scaler(least=2).wanted(Load(1, 29.9), 2, 0.0) == 2


def test_the_age_of_nothing_is_no_backlog() -> None:
    assert scaler().wanted(Load(0, 1000.0), 2, 0.0) == 2


def test_between_the_thresholds_nothing_changes() -> None:
    one = scaler()
    for moment, depth in enumerate([6, 19, 6, 19, 12, 7] * 50):
        assert one.wanted(Load(depth, 1.0), 3, float(moment)) == 3


def test_a_depth_that_wavers_around_a_threshold_never_has_a_calm_cooldown() -> None:
    one = scaler()
    for moment in range(100):
        assert one.wanted(Load(5 if moment % 2 else 6, 1.0), 3, float(moment)) == 3


def test_after_a_change_it_waits_for_a_cooldown() -> None:
    one = scaler()
    assert one.wanted(MUCH, 1, 0.0) == 2
    assert one.wanted(MUCH, 2, 9.9) == 2
    assert one.wanted(MUCH, 2, 10.0) == 4


def test_it_shrinks_by_one_and_only_when_it_has_been_calm_for_long() -> None:
    one = scaler()
    assert one.wanted(CALM, 4, 0.0) == 4
    assert one.wanted(CALM, 4, 9.9) == 4
    assert one.wanted(CALM, 4, 10.0) == 3
    assert one.wanted(CALM, 3, 15.0) == 3
    assert one.wanted(CALM, 3, 20.0) == 2


def test_a_busy_moment_ends_the_calm() -> None:
    one = scaler()
    assert one.wanted(CALM, 4, 0.0) == 4
    assert one.wanted(MIDDLE, 4, 9.0) == 4
    assert one.wanted(CALM, 4, 10.0) == 4
    assert one.wanted(CALM, 4, 19.9) == 4
    assert one.wanted(CALM, 4, 20.0) == 3


def test_a_pool_that_may_be_empty_has_one_as_soon_as_something_waits() -> None:
    one = scaler(least=0)
    assert one.wanted(CALM, 0, 0.0) == 0
    assert one.wanted(Load(1, 0.0), 0, 1.0) == 1
    for moment in range(2, 60):
        assert one.wanted(Load(1, 0.0), 1, float(moment)) == 1, "the last one is not drained while something waits"
    assert one.wanted(CALM, 1, 60.0) == 0


@pytest.mark.parametrize("ends", [False, True])
def test_the_last_one_is_not_drained_while_it_works(ends: bool) -> None:
    """Who drains keeps its seat, so nobody could take its place."""
    one, working = scaler(least=0, most=1), Load(0, 0.0, held=1, ends=ends)
    for moment in range(60):
        assert one.wanted(working, 1, float(moment)) == 1
    assert one.wanted(CALM, 1, 60.0) == 0


def test_what_is_in_hand_starts_nobody_and_keeps_no_second_one() -> None:
    one, working = scaler(least=0), Load(0, 0.0, held=3)
    assert scaler(least=0).wanted(working, 0, 0.0) == 0
    assert one.wanted(working, 3, 0.0) == 3
    assert [one.wanted(working, 3, 10.0), one.wanted(working, 2, 20.0), one.wanted(working, 1, 30.0)] == [2, 1, 1]


def test_nobody_is_started_only_to_end_again() -> None:
    one = scaler(least=2)
    assert one.wanted(Load(0, 0.0, ends=True), 0, 0.0) == 0
    assert one.wanted(Load(1, 0.0, ends=True), 0, 0.0) == 2
    assert one.wanted(Load(0, 0.0, ends=False), 0, 0.0) == 2


def test_too_many_are_too_many_at_once() -> None:
    assert scaler(most=2).wanted(MUCH, 5, 0.0) == 2


@given(
    least=st.integers(0, 5),
    more=st.integers(0, 5),
    cooldown=st.floats(0, 20),
    steps=st.lists(st.tuples(loads, pauses, st.integers(0, 12)), max_size=40),
)
def test_never_outside_of_the_bounds(
    least: int, more: int, cooldown: float, steps: list[tuple[Load, float, int]]
) -> None:
    most = max(1, least + more)
    one, now = scaler(least=least, most=most, cooldown=cooldown), 0.0
    for load, pause, running in steps:
        now += pause
        wanted = one.wanted(load, running, now)
        assert (0 if load.ends and not load.depth else least) <= wanted <= most
        if load.depth:
            assert wanted >= 1


@given(steps=st.lists(st.tuples(loads, pauses), max_size=40))
def test_two_changes_are_a_cooldown_apart(steps: list[tuple[Load, float]]) -> None:
    one, now, running, changed = scaler(), 0.0, 1, None
    for load, pause in steps:
        now += pause
        wanted = one.wanted(load, running, now)
        if wanted != running and running >= 1:
            assert changed is None or now - changed >= 10.0
            changed = now
        running = max(1, wanted)


def changes(scalers: list[Scaler], load: Load, running: int, looks: int) -> list[tuple[float, int]]:
    """What becomes of a count that all of them see and change, each looking twice a second, one after the other."""
    found = []
    for look in range(looks):
        for place, one in enumerate(scalers):
            now = 0.5 * look + 0.1 * place
            if (wanted := one.wanted(load, running, now)) != running:
                running = wanted
                found.append((now, running))
    return found


def test_supervisors_share_the_cooldown_when_they_grow() -> None:
    grown = changes([scaler(most=100) for _ in range(3)], MUCH, 1, looks=70)
    assert [running for _, running in grown] == [2, 4, 8, 16]
    assert all(later[0] - sooner[0] >= 10.0 for sooner, later in pairwise(grown))


def test_supervisors_share_the_cooldown_when_they_shrink() -> None:
    """Each has been calm since another moment."""
    scalers = [scaler() for _ in range(3)]
    for place, one in enumerate(scalers):
        assert one.wanted(CALM, 4, -3.0 * place) == 4
    shrunk = changes(scalers, CALM, 4, looks=70)
    assert [running for _, running in shrunk] == [3, 2, 1]
    assert all(later[0] - sooner[0] >= 10.0 for sooner, later in pairwise(shrunk))


def test_a_consumer_that_is_gone_keeps_no_pool_from_growing() -> None:
    """Crashes are not decisions; otherwise a pool with much to do would dwindle crash by crash."""
    one = scaler()
    assert one.wanted(MUCH, 1, 0.0) == 2
    assert one.wanted(MUCH, 2, 10.0) == 4
    assert [one.wanted(MUCH, 3, 15.0), one.wanted(MUCH, 2, 19.0), one.wanted(MUCH, 2, 20.0)] == [3, 2, 4]


@pytest.mark.parametrize(
    ("seats", "wanted", "leaving"),
    [([1, 2, 3], 3, set()), ([1, 2, 3], 2, {3}), ([2, 5, 3], 1, {3, 5}), ([1], 0, {1}), ([], 0, set())],
)
def test_the_highest_seats_are_given_up(seats: list[int], wanted: int, leaving: set[int]) -> None:
    assert to_drain(seats, wanted) == leaving
