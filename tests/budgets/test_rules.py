"""When to give up: budgets, time, going round in circles."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.budgets.rules import (
    ACTION_SHOWN,
    Effort,
    GiveUp,
    SpendLimits,
    Trigger,
    fingerprint,
    own_budget,
    spending,
    time_left,
    verdict,
)
from holdfast.core.queue import QueueSpec
from holdfast.errors import InvalidInput

pytestmark = pytest.mark.unit

SECOND = 1_000_000

amounts = st.floats(0, 1e6)
moments = st.integers(0, 10**9)
efforts = st.builds(
    Effort, st.integers(0, 10**9), amounts, st.sampled_from([None, "look", "read page #"]), st.integers(0, 20)
)
limits = st.builds(
    SpendLimits,
    st.none() | st.floats(1, 1e6),
    st.none() | st.floats(1, 1e6),
    st.none() | st.floats(1, 1000),
    st.none() | st.integers(2, 20),
)


def trigger(found: GiveUp | None) -> Trigger | None:
    return None if found is None else found.trigger


def test_without_limits_nothing_is_too_much() -> None:
    assert verdict(Effort(0, 1e15, "look", 1000), 1e15, SpendLimits(), 10**18) is None


@pytest.mark.parametrize(
    ("effort", "queue_spent", "given", "now", "says"),
    [
        (Effort(0, 1200), 0, SpendLimits(message_budget=1000), 0, "spent 1200 of 1000"),
        (Effort(0, 0.5), 0, SpendLimits(message_budget=0.25), 0, "spent 0.5 of 0.25"),
        (Effort(0), 50.5, SpendLimits(queue_budget=50), 0, "the queue spent 50.5 of 50"),
        (
            Effort(100 * SECOND),
            0,
            SpendLimits(max_time=3600),
            3800 * SECOND,
            "not done 3700 s after its first claim; 3600 s are allowed in all",
        ),
        (Effort(0, 0, "look", 5), 0, SpendLimits(max_repeats=5), 0, "did the same thing 5 times in a row: look"),
    ],
)
def test_each_reason_says_how_much_it_was(
    effort: Effort, queue_spent: float, given: SpendLimits, now: int, says: str
) -> None:
    found = verdict(effort, queue_spent, given, now)
    assert found is not None
    assert found.reason == says


@pytest.mark.parametrize(
    ("effort", "given", "now"),
    [
        (Effort(0, 1000), SpendLimits(message_budget=1000, queue_budget=1000), 0),
        (Effort(0), SpendLimits(max_time=10), 10 * SECOND - 1),
        (Effort(0, 0, "look", 4), SpendLimits(max_repeats=5), 0),
    ],
)
def test_up_to_the_limit_is_allowed(effort: Effort, given: SpendLimits, now: int) -> None:
    assert verdict(effort, effort.spent, given, now) is None


def test_the_queue_goes_first_for_its_messages_are_not_to_blame() -> None:
    found = verdict(Effort(0, 9, "look", 9), 9, SpendLimits(1, 1, 1, 2), 9 * SECOND)
    assert trigger(found) is Trigger.QUEUE_BUDGET


@given(efforts, amounts, limits, moments, amounts, st.integers(0, 10**9))
def test_what_was_too_much_stays_too_much(
    effort: Effort, queue_spent: float, given: SpendLimits, now: int, more: float, later: int
) -> None:
    """More spent, or more time, never makes it good again."""
    if verdict(effort, queue_spent, given, now) is not None:
        assert verdict(effort.spending(more), queue_spent + more, given, now + later) is not None


@given(
    efforts, amounts, limits, moments, st.sampled_from(["message_budget", "queue_budget", "max_time", "max_repeats"])
)
def test_who_may_do_more_does_not_stop_earlier(
    effort: Effort, queue_spent: float, given: SpendLimits, now: int, name: str
) -> None:
    """Taking a limit away can only help, and does not change what the others say."""
    values = {field: getattr(given, field) for field in given.__struct_fields__}
    freer = verdict(effort, queue_spent, SpendLimits(**{**values, name: None}), now)
    if verdict(effort, queue_spent, given, now) is None:
        assert freer is None


@given(efforts, st.none() | st.floats(1e-6, 1000), moments)
def test_the_time_that_is_left_ends_when_the_verdict_falls(effort: Effort, max_time: float | None, now: int) -> None:
    left = time_left(effort, max_time, now)
    over = trigger(verdict(effort, 0, SpendLimits(max_time=max_time), now)) is Trigger.TIME
    assert (left is None) == (max_time is None)
    assert over == (left == 0)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=20))
def test_repeats_count_how_long_the_last_streak_of_one_holder_is(steps: list[tuple[str, bool]]) -> None:
    effort, streak, last = Effort(0), 0, None
    for action, same_holder in steps:
        streak = streak + 1 if action == last and same_holder else 1
        last = action
        effort = effort.doing(action, same_holder)
        assert (effort.action, effort.repeats) == (last, streak)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Read page 1", "read   page 27"),
        ("GET /users/8", "get /users/9\n"),
        ("a\tb", " A b "),
        ("x" * 1000 + " 1", "X" * 1000 + " 22"),
    ],
)
def test_near_identical_actions_are_one(one: str, other: str) -> None:
    assert fingerprint(one) == fingerprint(other)


@pytest.mark.parametrize(("one", "other"), [("read", "write"), ("x" * 1000 + "y", "x" * 1000 + "z"), ("", "a")])
def test_different_actions_are_two(one: str, other: str) -> None:
    assert fingerprint(one) != fingerprint(other)


@given(st.text())
def test_every_text_has_a_fingerprint_that_can_be_stored(text: str) -> None:
    found = fingerprint(text)
    assert fingerprint(found) == found or len(found) > ACTION_SHOWN
    assert len(found) < ACTION_SHOWN + 30
    assert "\0" not in found
    found.encode()


@pytest.mark.parametrize("bad", [None, 7, b"look", ["look"]])
def test_what_is_no_action_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidInput, match="an action must be text"):
        fingerprint(bad)


@pytest.mark.parametrize("bad", [-1, -0.1, float("nan"), float("inf"), 1e16, "5", None, True, [1]])
def test_what_cannot_be_spent_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidInput, match="must be a number from 0 to 1e15"):
        spending(bad)


def test_nothing_and_fractions_can_be_spent() -> None:
    assert [spending(0), spending(0.25), spending(10**15)] == [0, 0.25, 1e15]


@pytest.mark.parametrize("value", [None, "5", True, 0, -1, [5], {"a": 5}, 1e16])
def test_a_header_that_is_no_budget_is_none(value: Any) -> None:
    assert own_budget({"holdfast-budget": value}) is None


def test_of_two_budgets_the_smaller_one_counts() -> None:
    queue = SpendLimits.of(QueueSpec(message_budget=10, budget=100, max_time=5, max_repeats=3))
    assert queue == SpendLimits(10, 100, 5, 3)
    assert [queue.with_own_budget(own).message_budget for own in (None, 5, 20)] == [10, 5, 10]
    assert [SpendLimits().with_own_budget(own).message_budget for own in (None, 5)] == [None, 5]
