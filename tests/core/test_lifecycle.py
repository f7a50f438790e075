"""The table of legal moves."""

import pytest

from holdfast.core.lifecycle import (
    FINAL,
    GIVES_ATTEMPT_BACK,
    TABLE,
    IllegalMove,
    LifecycleEvent,
    State,
    after_failure,
    after_lapse,
    attempts_after,
    next_state,
)
from holdfast.core.queue import QueueSpec, queue_spec

pytestmark = pytest.mark.unit

LEGAL = {
    ("pending", "handed over", "enqueued"),
    ("enqueued", "claimed", "processing"),
    ("enqueued", "returned", "pending"),
    ("enqueued", "canceled", "canceled"),
    ("enqueued", "expired", "expired"),
    ("pending", "claimed", "processing"),
    ("pending", "canceled", "canceled"),
    ("processing", "acked", "succeeded"),
    ("processing", "failed", "pending"),
    ("processing", "lapsed", "pending"),
    ("processing", "expired", "expired"),
    ("pending", "expired", "expired"),
    ("processing", "released", "pending"),
    ("processing", "snoozed", "pending"),
    ("processing", "died", "dead"),
    ("processing", "canceled", "canceled"),
}

EVERY_PAIR = [(state, event) for state in State for event in LifecycleEvent]


def test_the_table_holds_exactly_the_moves_of_the_design() -> None:
    assert {(state.value, event.value, after.value) for (state, event), after in TABLE.items()} == LEGAL


@pytest.mark.parametrize(("state", "event"), [pair for pair in EVERY_PAIR if pair in TABLE])
def test_a_legal_move_leads_where_the_table_says(state: State, event: LifecycleEvent) -> None:
    assert next_state(state, event) is TABLE[state, event]


@pytest.mark.parametrize(("state", "event"), [pair for pair in EVERY_PAIR if pair not in TABLE])
def test_every_other_move_is_refused(state: State, event: LifecycleEvent) -> None:
    with pytest.raises(IllegalMove, match=f"{state} cannot be {event}"):
        next_state(state, event)


def test_every_state_can_be_reached_from_pending() -> None:
    reached, frontier = {State.PENDING}, {State.PENDING}
    while frontier:
        frontier = {after for (state, _), after in TABLE.items() if state in frontier} - reached
        reached |= frontier
    assert reached == set(State)


def test_every_event_moves_something() -> None:
    assert {event for _, event in TABLE} == set(LifecycleEvent)


def test_final_states_are_those_without_an_exit() -> None:
    assert set(State) - {state for state, _ in TABLE} == FINAL


def test_a_failure_waits_for_the_backoff_of_its_attempt() -> None:
    spec = queue_spec({"backoff": [5, 7]})
    assert after_failure(spec, 1, chance=0.5).event is LifecycleEvent.FAILED
    assert after_failure(spec, 1, chance=0.5).wait == 5
    assert after_failure(spec, 2, chance=0.5).wait == 7


def test_the_delay_of_the_handler_wins_over_the_backoff() -> None:
    assert after_failure(QueueSpec(), 1, chance=0.5, delay=123.0).wait == 123.0
    assert after_failure(QueueSpec(), 1, chance=0.5, delay=0.0).wait == 0.0


def test_five_attempts_are_five_runs() -> None:
    spec = queue_spec({"max_attempts": 5})
    events = [after_failure(spec, attempt, chance=0.5).event for attempt in range(1, 6)]
    assert events == [LifecycleEvent.FAILED] * 4 + [LifecycleEvent.DIED]


def test_an_attempt_beyond_the_last_one_dies_too() -> None:
    spec = queue_spec({"max_attempts": 3})
    assert after_failure(spec, 9, chance=0.5).event is LifecycleEvent.DIED
    assert after_lapse(spec, 9).event is LifecycleEvent.DIED


def test_a_permanent_failure_dies_at_once() -> None:
    verdict = after_failure(QueueSpec(), 1, chance=0.5, delay=9.0, permanent=True)
    assert (verdict.event, verdict.wait) == (LifecycleEvent.DIED, 0.0)


def test_an_expired_lease_comes_back_at_once_until_the_attempts_are_used_up() -> None:
    spec = queue_spec({"max_attempts": 2})
    assert (after_lapse(spec, 1).event, after_lapse(spec, 1).wait) == (LifecycleEvent.LAPSED, 0.0)
    assert after_lapse(spec, 2).event is LifecycleEvent.DIED


@pytest.mark.parametrize("event", list(LifecycleEvent))
def test_only_what_never_began_gives_the_attempt_back(event: LifecycleEvent) -> None:
    spent = 2 if event in {LifecycleEvent.RELEASED, LifecycleEvent.SNOOZED, LifecycleEvent.EXPIRED} else 3
    assert attempts_after(3, event) == spent
    assert (event in GIVES_ATTEMPT_BACK) == (spent == 2)
