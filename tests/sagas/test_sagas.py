"""Sagas: steps are messages, whoever settles one moves the saga on, and what was done is undone in reverse."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import (
    Holdfast,
    IdempotencyConflict,
    InvalidInput,
    LeaseLost,
    NotFound,
    QueueFull,
    Step,
    StoreError,
    UnknownQueue,
)
from holdfast.client import settlements
from holdfast.client.client import internals
from holdfast.sagas.rules.declaration import saga_spec
from holdfast.sagas.steps.effects import LockedSaga, SagaWork
from tests.client.test_conn import commit, of_the_driver, roll_back
from tests.sagas.saga_steps import NAMES, die, do, lines, shown, states, take, trip, undo, waiting
from tests.steps import OpenClient, sleepers

pytestmark = pytest.mark.of_queues


@pytest.fixture
def started(hf: Holdfast) -> Holdfast:
    hf.saga("trip", steps=trip())
    hf.start_saga("trip", {"city": "Rome"}, id="t1")
    return hf


def test_steps_run_one_after_the_other(started: Holdfast) -> None:
    hf = started
    assert waiting(hf) == ["flight.book"]
    assert take(hf, "flight.book").message.body == {"city": "Rome"}
    assert (shown(hf, "t1").status, states(hf, "t1")) == ("in_progress", ["running", "pending", "pending"])


def test_what_a_worker_gives_back_is_the_steps_output(started: Holdfast) -> None:
    hf = started
    do(hf, "flight")
    assert states(hf, "t1") == ["completed", "running", "pending"]
    hotel = take(hf, "hotel.book")
    assert hotel.message.body == {"city": "Rome", "flight": {"id": "flight"}}
    hotel.ack()
    do(hf, "car", output=[1, 2])
    saga = shown(hf, "t1")
    assert (saga.status, waiting(hf)) == ("completed", [])
    assert saga.data == {"city": "Rome", "flight": {"id": "flight"}, "hotel": None, "car": [1, 2]}
    assert [step.output for step in saga.steps] == [{"id": "flight"}, None, [1, 2]]
    assert saga.ended_at_us == saga.updated_at_us


def test_the_history_says_who_when_and_what_came_of_it(started: Holdfast, clock: Any) -> None:
    hf = started
    clock.advance(5)
    do(hf, *NAMES)
    steps = [f"{what} {name}" for name in NAMES for what in ("sent", "completed")]
    assert lines(hf, "t1") == ["started", *steps, "completed"]
    first, sent, line, *_ = shown(hf, "t1").timeline
    assert (first.who, sent.at_us, sent.attempt) == (hf.actor, first.at_us, 1)
    assert (line.who, line.attempt, line.output) == ("anna", 1, {"id": "flight"})
    assert line.at_us - first.at_us == 5_000_000


def test_every_failed_attempt_is_a_line_with_who_and_why(started: Holdfast, clock: Any) -> None:
    hf = started
    take(hf, "flight.book").nack("no seat", delay=0)
    take(hf, "flight.book").release()  # No attempt.
    take(hf, "flight.book")
    clock.advance(31)
    do(hf, "flight")
    take(hf, "hotel.book").dead_letter("full")
    take(hf, "flight.cancel").nack("closed", delay=0)
    undo(hf, "flight")
    told = [(line.what, line.step, line.attempt, line.who) for line in shown(hf, "t1").timeline[1:]]
    assert told == [
        ("sent", "flight", 1, None),
        ("attempt_failed", "flight", 1, "anna"),
        ("attempt_failed", "flight", 2, "anna"),
        ("completed", "flight", 3, "anna"),
        ("sent", "hotel", 1, None),
        ("attempt_failed", "hotel", 1, "anna"),
        ("failed", "hotel", None, None),
        ("compensating", None, None, None),
        ("undo_sent", "flight", 1, None),
        ("undo_attempt_failed", "flight", 1, "anna"),
        ("compensated", "flight", 2, "anna"),
        ("compensated", None, None, None),
    ]
    errors = [line.error for line in shown(hf, "t1").timeline if line.what.endswith("attempt_failed")]
    assert (errors[0], errors[2:]) == ("no seat", ["full", "closed"])
    assert "ended without an answer" in str(errors[1])


@pytest.mark.parametrize("fails", range(3))
def test_a_death_undoes_what_was_completed_in_reverse(started: Holdfast, fails: int) -> None:
    hf, done = started, NAMES[:fails]
    do(hf, *done)
    die(hf, f"{NAMES[fails]}.book")
    assert shown(hf, "t1").status == ("compensating" if fails else "failed")
    undo(hf, *reversed(done))
    saga = shown(hf, "t1")
    assert saga.status == ("compensated" if fails else "failed")
    assert states(hf, "t1") == ["compensated"] * fails + ["failed"] + ["pending"] * (2 - fails)
    assert saga.error == f"{NAMES[fails]}: no seat"
    assert waiting(hf) == []


def test_an_undo_knows_what_was_done(started: Holdfast) -> None:
    hf = started
    do(hf, "flight")
    die(hf, "hotel.book")
    message = take(hf, "flight.cancel").message
    assert message.body["flight"] == {"id": "flight"}
    assert message.correlation_id == "t1"


def test_every_attempt_at_a_step_has_the_same_key_and_its_undo_another(started: Holdfast) -> None:
    hf, keys = started, []
    for _ in range(2):
        claim = take(hf, "flight.book")
        keys.append(claim.message.headers["holdfast-step-key"])
        claim.nack("again", delay=0)
    do(hf, "flight")
    die(hf, "hotel.book")
    keys.append(take(hf, "flight.cancel").message.headers["holdfast-step-key"])
    assert keys == ["t1/1/flight/do", "t1/1/flight/do", "t1/1/flight/undo"]


def test_attempts_that_are_used_up_are_a_failure(hf: Holdfast) -> None:
    hf.queue("flight.book", max_attempts=2, backoff=None)
    hf.saga("trip", steps=trip("flight"))
    hf.start_saga("trip", id="t1")
    take(hf, "flight.book").nack("one")
    assert shown(hf, "t1").status == "in_progress"
    take(hf, "flight.book").nack("two")
    assert shown(hf, "t1").error == "flight: two"


def test_silence_is_a_failure_too(hf: Holdfast, clock: Any) -> None:
    hf.queue("flight.book", max_attempts=1, lease=10)
    hf.saga("trip", steps=trip("flight"))
    hf.start_saga("trip", id="t1")
    take(hf, "flight.book")
    clock.advance(11)
    assert hf.claim("flight.book") == []
    assert "ended without an answer" in str(shown(hf, "t1").error)


@pytest.mark.parametrize("how", ["cancel", "purge", "outcome"])
def test_a_message_that_is_taken_away_is_a_failure(started: Holdfast, how: str) -> None:
    hf = started
    [message_id] = shown(hf, "t1").steps[0].messages
    if how == "cancel":
        assert hf.cancel(message_id)
    elif how == "purge":
        assert hf.queues.purge("flight.book") == 1
    else:
        internals(hf).settlements.call(settlements.canceled([take(hf, "flight.book")], "nobody flies"))
    assert shown(hf, "t1").status == "failed"


def test_a_message_that_expires_is_a_failure(hf: Holdfast, clock: Any) -> None:
    hf.queue("flight.book", max_age=60)
    hf.saga("trip", steps=trip("flight"))
    hf.start_saga("trip", id="t1")
    clock.advance(61)
    assert hf.claim("flight.book") == []
    assert shown(hf, "t1").error == "flight: its message was expired"


def test_what_expires_is_sent_again_and_what_was_cancelled_is_not(hf: Holdfast, clock: Any) -> None:
    hf.queue("flight.book", max_age=60)
    hf.saga("trip", steps=trip("flight", retry=2))
    hf.start_saga("trip", id="t1")
    clock.advance(61)
    hf.claim("flight.book")
    [step] = shown(hf, "t1").steps
    assert (step.status, step.tries) == ("running", 2)
    assert hf.cancel(step.messages[0])
    assert shown(hf, "t1").error == "flight: its message was canceled"


def test_a_step_counts_in_its_queue(hf: Holdfast, clock: Any) -> None:
    hf.queue("flight.book", max_depth=2)
    hf.saga("trip", steps=trip())
    clock.advance(3)  # All clients know the limit.
    hf.enqueue("flight.book", 1)
    hf.start_saga("trip", id="t1")
    with pytest.raises(QueueFull):
        hf.enqueue("flight.book", 2)


def test_a_step_wakes_who_waits_in_its_queue(client: OpenClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.client.claim_loop.LONGEST_NAP", 3600.0)  # Only a ring wakes it.
    hf = client(clock=None)
    hf.saga("trip", steps=trip())
    asleep = sleepers(hf)
    with ThreadPoolExecutor() as pool:
        found = pool.submit(hf.claim, "hotel.book", wait=60)
        assert asleep.acquire(timeout=20)
        hf.start_saga("trip", id="t1")
        do(hf, "flight")
        assert len(found.result(timeout=50)) == 1


def test_a_long_error_is_cut_where_it_begins(started: Holdfast) -> None:
    hf = started
    die(hf, "flight.book", "x" * 5000 + "the end")
    line = next(line for line in shown(hf, "t1").timeline if line.what == "failed")
    assert (len(str(line.error)), str(line.error)[-8:]) == (4000, "xthe end")


def test_a_step_without_undo_is_recorded_as_such(hf: Holdfast) -> None:
    hf.saga("trip", steps=[*trip("flight"), Step("mail", "mail.book"), *trip("car")])
    hf.start_saga("trip", id="t1")
    do(hf, "flight", "mail")
    die(hf, "car.book")
    undo(hf, "flight")
    assert (shown(hf, "t1").status, states(hf, "t1")) == ("compensated", ["compensated", "completed", "failed"])
    assert "not_undoable mail" in lines(hf, "t1")
    assert [step.undoable for step in shown(hf, "t1").steps] == [True, False, True]


def test_the_same_id_is_started_once(started: Holdfast, rival: Holdfast) -> None:
    assert rival.start_saga("trip", {"city": "Rome"}, id="t1") == "t1"
    assert started.stats("flight.book").pending == 1
    for data in ({"to": {"a": 1, "b": 2}, "n": 1}, {"n": 1, "to": {"b": 2, "a": 1}}):
        assert rival.start_saga("trip", data, id="t2") == "t2"
    with pytest.raises(IdempotencyConflict, match="other data"):
        rival.start_saga("trip", {"city": "Paris"}, id="t1")
    rival.saga("cruise", steps=trip())
    with pytest.raises(IdempotencyConflict, match="another name"):
        rival.start_saga("cruise", {"city": "Rome"}, id="t1")
    assert [saga.id for saga in rival.sagas.list()] == ["t1", "t2"]


def test_data_that_a_step_would_replace_is_refused(started: Holdfast) -> None:
    hf = started
    with pytest.raises(InvalidInput, match="data has 'hotel', which is the name of a step"):
        hf.start_saga("trip", {"city": "Rome", "hotel": "Ritz"}, id="t2")
    assert hf.sagas.get("t2") is None
    hf.saga("trip", steps=trip("city"))
    assert hf.start_saga("trip", {"city": "Rome"}, id="t1") == "t1"  # It was started before.


def test_without_an_id_each_is_another(started: Holdfast) -> None:
    assert started.start_saga("trip") != started.start_saga("trip")
    assert started.stats("flight.book").pending == 3


def test_what_was_never_declared_cannot_be_started(hf: Holdfast) -> None:
    with pytest.raises(NotFound, match=r"hf\.saga\('trip'"):
        hf.start_saga("trip")


def test_running_sagas_keep_their_definition(started: Holdfast, rival: Holdfast) -> None:
    hf = started
    assert rival.saga("trip", steps=trip("flight", "boat")) == 2
    hf.start_saga("trip", id="t2")
    hf.ack([*hf.claim("flight.book"), *hf.claim("flight.book")])
    assert waiting(hf) == ["boat.book", "hotel.book"]
    assert [saga.version for saga in hf.sagas.list()] == [1, 2]


def test_declaring_the_same_again_is_the_same_version(started: Holdfast, rival: Holdfast) -> None:
    assert rival.saga("trip", steps=trip()) == 1
    assert rival.saga("trip", steps=trip("boat")) == 2
    assert rival.saga("trip", steps=trip()) == 1
    started.start_saga("trip", id="t2")
    assert shown(started, "t2").version == 1


def test_a_strict_client_wants_the_queues_declared(client: OpenClient) -> None:
    with pytest.raises(UnknownQueue):
        client(strict=True).saga("trip", steps=trip())


def test_steps_go_to_queues_only(hf: Holdfast) -> None:
    hf.topic("orders")
    with pytest.raises(InvalidInput):
        hf.saga("trip", steps=[Step("a", "orders")])


def test_a_step_that_cannot_be_sent_fails_and_the_ack_before_it_does_not(hf: Holdfast) -> None:
    hf.topic("hotels")
    spec = saga_spec([*trip("flight"), Step("hotel", "hotels.book", undo="hotels.cancel")], "compensate", None)
    internals(hf).store.sagas.declare("default", "trip", spec)
    hf.start_saga("trip", id="t1")
    do(hf, "flight")
    assert shown(hf, "t1").status == "compensating"
    assert "belongs to the topic" in str(shown(hf, "t1").steps[1].error)
    undo(hf, "flight")


def test_it_is_part_of_a_callers_transaction(started: Holdfast, url: str) -> None:
    hf = started
    claim = take(hf, "flight.book")
    with of_the_driver(url) as conn:
        hf.start_saga("trip", id="t2", conn=conn)
        hf.ack(claim, "rolled back", conn=conn)
        roll_back(conn)
    assert states(hf, "t1")[0] == "running"
    assert hf.sagas.get("t2") is None
    with of_the_driver(url) as conn:
        hf.start_saga("trip", id="t2", conn=conn)
        hf.ack(claim, conn=conn)
        commit(conn)
    assert states(hf, "t1")[:2] == ["completed", "running"]
    assert states(hf, "t2")[0] == "running"


def test_a_start_that_fails_leaves_the_callers_transaction_as_it_was(
    started: Holdfast, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hf = started

    def fail(work: SagaWork) -> None:
        raise StoreError("the disk is full")

    with of_the_driver(url) as conn:
        with pytest.raises(IdempotencyConflict):
            hf.start_saga("trip", id="t1", conn=conn)
        with monkeypatch.context() as broken:
            broken.setattr(SagaWork, "write", fail)
            with pytest.raises(StoreError):
                hf.start_saga("trip", id="t2", conn=conn)
        hf.start_saga("trip", id="t3", conn=conn)
        commit(conn)
    assert [saga.id for saga in hf.sagas.list()] == ["t1", "t3"]


def test_sagas_are_listed_by_status_and_page_by_page(started: Holdfast) -> None:
    hf = started
    for number in range(2, 6):
        hf.start_saga("trip", id=f"t{number}")
    [claim, *_] = hf.claim("flight.book", n=2)
    claim.dead_letter("no")
    assert [saga.id for saga in hf.sagas.list("failed")] == ["t1"]
    assert [saga.id for saga in hf.sagas.list("in_progress", n=2)] == ["t2", "t3"]
    assert [saga.id for saga in hf.sagas.list("in_progress", after="t3")] == ["t4", "t5"]
    assert [saga.id for saga in hf.sagas.list(name="trip", n=3, after="t2")] == ["t3", "t4", "t5"]
    assert hf.sagas.list(name="other") == hf.sagas.list("in_progress", name="other") == []
    with pytest.raises(NotFound, match="no saga 't9'"):
        hf.sagas.list(after="t9")


@pytest.mark.parametrize("others", [0, 2])
def test_a_saga_that_someone_else_has_moved_is_not_moved(
    started: Holdfast, others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot happen, since it is locked; if it did, nothing of the transaction may stay."""
    hf, read = started, LockedSaga.of
    for number in range(others):
        hf.start_saga("trip", id=f"other{number}")
    claims = hf.claim("flight.book", n=10)
    monkeypatch.setattr(LockedSaga, "of", lambda row: replace(read(row), version=77) if row[2] == "t1" else read(row))
    with pytest.raises(StoreError, match="moved by someone else"):
        hf.ack(claims)
    monkeypatch.undo()
    assert [states(hf, saga.id) for saga in hf.sagas.list()] == [["running", "pending", "pending"]] * (others + 1)
    hf.ack(claims)
    for queue in ("hotel.book", "car.book"):
        hf.ack(hf.claim(queue, n=10))
    assert {saga.status for saga in hf.sagas.list()} == {"completed"}


def test_a_lost_claim_moves_nothing(started: Holdfast, clock: Any) -> None:
    hf = started
    late = take(hf, "flight.book")
    clock.advance(31)
    take(hf, "flight.book").ack("second")
    with pytest.raises(LeaseLost):
        late.ack("first")
    assert shown(hf, "t1").data["flight"] == "second"
    assert lines(hf, "t1").count("completed flight") == 1


def test_a_replayed_dead_letter_still_belongs_to_its_step(started: Holdfast) -> None:
    hf = started
    do(hf, "flight")
    die(hf, "hotel.book")
    undo(hf, "flight")
    assert shown(hf, "t1").status == "compensated"
    [dead] = hf.dead_letters.list("hotel.book")
    hf.dead_letters.replay(dead.id)
    do(hf, "hotel")
    undo(hf, "hotel")
    assert states(hf, "t1") == ["compensated", "compensated", "pending"]
    assert shown(hf, "t1").status == "compensated"


def test_tallies_agree(started: Holdfast) -> None:
    hf = started
    do(hf, *NAMES)
    stats = hf.stats("flight.book")
    assert (stats.pending, stats.processing) == (0, 0)
