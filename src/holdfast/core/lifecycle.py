"""The life of a queue message: the table of legal moves.

The keys are (state, what happened); the value is the next state. `after_failure` and `after_lapse` say what happened:
a failure becomes DIED when the attempts are used up or the error is permanent. A lease lapses; a message expires. The
chart in docs/explanation/lifecycle.md is generated from this table.

Code that ends a claim or a message asks the table for the state to store (`next_state`). SQL statements that change
state by themselves, such as a claim, name the new state in their text; the table cannot be asked there without a round
trip. Those are held to it by tests/store/test_moves.py, in which the database records every change of a state.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from holdfast.core.queue import QueueSpec
from holdfast.errors import IllegalMove


class State(StrEnum):
    """Where a message is."""

    PENDING = "pending"
    ENQUEUED = "enqueued"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELED = "canceled"
    EXPIRED = "expired"


class LifecycleEvent(StrEnum):
    """What can happen to a message."""

    HANDED_OVER = "handed over"
    CLAIMED = "claimed"
    RETURNED = "returned"
    ACKED = "acked"
    FAILED = "failed"
    LAPSED = "lapsed"
    RELEASED = "released"
    SNOOZED = "snoozed"
    DIED = "died"
    CANCELED = "canceled"
    EXPIRED = "expired"


TABLE: dict[tuple[State, LifecycleEvent], State] = {
    (State.PENDING, LifecycleEvent.HANDED_OVER): State.ENQUEUED,
    (State.PENDING, LifecycleEvent.CLAIMED): State.PROCESSING,
    (State.PENDING, LifecycleEvent.CANCELED): State.CANCELED,
    (State.PENDING, LifecycleEvent.EXPIRED): State.EXPIRED,
    (State.ENQUEUED, LifecycleEvent.CLAIMED): State.PROCESSING,
    (State.ENQUEUED, LifecycleEvent.RETURNED): State.PENDING,
    (State.ENQUEUED, LifecycleEvent.CANCELED): State.CANCELED,
    (State.ENQUEUED, LifecycleEvent.EXPIRED): State.EXPIRED,
    (State.PROCESSING, LifecycleEvent.ACKED): State.SUCCEEDED,
    (State.PROCESSING, LifecycleEvent.FAILED): State.PENDING,
    (State.PROCESSING, LifecycleEvent.LAPSED): State.PENDING,
    (State.PROCESSING, LifecycleEvent.RELEASED): State.PENDING,
    (State.PROCESSING, LifecycleEvent.SNOOZED): State.PENDING,
    (State.PROCESSING, LifecycleEvent.DIED): State.DEAD,
    (State.PROCESSING, LifecycleEvent.CANCELED): State.CANCELED,
    (State.PROCESSING, LifecycleEvent.EXPIRED): State.EXPIRED,
}

FINAL = frozenset({State.SUCCEEDED, State.DEAD, State.CANCELED, State.EXPIRED})
WAITING = frozenset({State.PENDING, State.ENQUEUED})
GIVES_ATTEMPT_BACK = frozenset({LifecycleEvent.RELEASED, LifecycleEvent.SNOOZED, LifecycleEvent.EXPIRED})


def next_state(state: State, event: LifecycleEvent) -> State:
    """Return the state that a message is in after an event; raise `IllegalMove` if the table has no such move."""
    try:
        return TABLE[state, event]
    except KeyError:
        raise IllegalMove(f"a message that is {state} cannot be {event}") from None


class FailureVerdict(msgspec.Struct, frozen=True):
    """What a failed attempt leads to."""

    event: LifecycleEvent
    wait: float = 0.0


def after_failure(
    spec: QueueSpec, attempt: int, *, chance: float, delay: float | None = None, permanent: bool = False
) -> FailureVerdict:
    """A handler failed: try again after the backoff (or the delay it asked for), or dead."""
    if permanent or attempt >= spec.max_attempts:
        return FailureVerdict(LifecycleEvent.DIED)
    return FailureVerdict(LifecycleEvent.FAILED, spec.backoff.wait(attempt, chance) if delay is None else delay)


def after_lapse(spec: QueueSpec, attempt: int) -> FailureVerdict:
    """A lease ended without a word: the attempt counts, and whoever asks next may have it at once."""
    return FailureVerdict(LifecycleEvent.DIED if attempt >= spec.max_attempts else LifecycleEvent.LAPSED)


def must_be_alone(spec: QueueSpec, attempts: int) -> bool:
    """Whether the next attempt is the last: then it shares no claim, so that one crash ends at most one message."""
    return attempts + 1 >= spec.max_attempts


def attempts_after(attempt: int, event: LifecycleEvent) -> int:
    """How many attempts are spent once attempt number `attempt` has ended this way."""
    return attempt - 1 if event in GIVES_ATTEMPT_BACK else attempt
