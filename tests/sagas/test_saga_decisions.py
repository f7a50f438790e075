"""Sagas and operators: what cannot be undone waits for someone, who decides."""

from typing import Any

import pytest

from holdfast import Holdfast, InvalidInput, Step
from holdfast.client.client import internals
from holdfast.commands.rules import command_queue
from tests.sagas.saga_steps import die, do, shown, states, take, trip, undo, waiting

pytestmark = pytest.mark.of_queues


@pytest.fixture
def stuck(hf: Holdfast) -> Holdfast:
    """Two steps are done, and the second cannot be undone."""
    hf.owner("mia")
    hf.saga("trip", steps=trip(), owner="mia")
    hf.start_saga("trip", id="t1")
    do(hf, "flight", "hotel")
    die(hf, "car.book")
    die(hf, "hotel.cancel", "the hotel is gone")
    return hf


def test_an_undo_that_cannot_succeed_is_told_and_waits(stuck: Holdfast) -> None:
    hf, saga = stuck, shown(stuck, "t1")
    assert saga.status == "compensation_failed"
    assert saga.error == "hotel could not be undone: the hotel is gone"
    assert saga.ended_at_us is None
    assert [(step.status, step.undoing) for step in saga.steps] == [
        ("completed", False),
        ("failed", True),
        ("failed", False),
    ]
    assert waiting(hf) == []
    last = next(line for line in saga.timeline if line.what == "undo_attempt_failed")
    assert (last.step, last.who, last.attempt, last.error) == ("hotel", "anna", 1, "the hotel is gone")
    notice = next(one for one in hf.notices.list("mia") if one.kind == "saga")
    assert (notice.about, notice.error) == ("t1", saga.error)
    assert [one.id for one in hf.sagas.list("compensation_failed")] == ["t1"]


@pytest.mark.parametrize("how", ["retry", "mark_done", "skip", "replay"])
def test_who_has_decided_has_answered_the_notice(stuck: Holdfast, clock: Any, how: str) -> None:
    hf = stuck
    assert [one.kind for one in hf.notices.list() if one.about] == ["saga"]
    if how == "replay":
        hf.dead_letters.replay(hf.dead_letters.list("hotel.cancel")[0].id)
        take(hf, "hotel.cancel").ack()
    else:
        assert getattr(hf.sagas, how)("t1", "hotel", *(["we pay"] if how == "skip" else []))
    clock.advance("1d")
    hf.notices.escalate()
    assert [one for one in hf.notices.list() if one.about] == []
    [answered] = [one for one in hf.notices.list(acknowledged=True) if one.about]
    assert (answered.acknowledged_by, answered.level) == ("anna" if how == "replay" else hf.actor, 0)
    if how == "retry":
        die(hf, "hotel.cancel", "still gone")
        assert [one.error for one in hf.notices.list() if one.about] == ["hotel could not be undone: still gone"]


def test_a_saga_that_fails_without_a_dead_letter_is_told(hf: Holdfast, clock: Any) -> None:
    hf.saga("trip", steps=[Step("card", "card.book", timeout=20)], owner="mia")
    hf.start_saga("trip", id="t1")
    clock.advance(20)
    hf.sagas.advance()
    assert shown(hf, "t1").status == "failed"
    assert [(one.about, one.error) for one in hf.notices.list("mia")] == [("t1", "card: timed out after 20 s")]


def test_an_operator_retries_an_undo(stuck: Holdfast) -> None:
    hf = stuck
    assert not hf.sagas.retry("t1", "flight")
    with pytest.raises(InvalidInput, match="has no step 'boat'; it has flight, hotel, car"):
        hf.sagas.retry("t1", "boat")
    assert hf.sagas.retry("t1", "hotel")
    undo(hf, "hotel", "flight")
    assert shown(hf, "t1").status == "compensated"
    assert hf.audit.list()[0].about == {"saga": "t1", "step": "hotel", "reason": None}


def test_an_operator_has_undone_it_by_hand(stuck: Holdfast) -> None:
    hf = stuck
    assert hf.sagas.mark_done("t1", "hotel", "by phone")
    undo(hf, "flight")
    assert (shown(hf, "t1").status, states(hf, "t1")[1]) == ("compensated", "compensated")


def test_a_skipped_undo_is_never_called_compensated(stuck: Holdfast) -> None:
    hf = stuck
    with pytest.raises(InvalidInput, match="reason"):
        hf.sagas.skip("t1", "hotel", "")
    assert hf.sagas.skip("t1", "hotel", "we pay")
    undo(hf, "flight")
    assert (shown(hf, "t1").status, states(hf, "t1")) == ("failed", ["compensated", "skipped", "failed"])
    [line] = [line for line in shown(hf, "t1").timeline if line.what == "skipped"]
    assert (line.step, line.who, line.error) == ("hotel", hf.actor, "we pay")
    assert not hf.sagas.retry("t1", "car")


def test_replaying_the_dead_undo_resumes_the_saga(stuck: Holdfast) -> None:
    hf = stuck
    [dead] = hf.dead_letters.list("hotel.cancel")
    hf.dead_letters.replay(dead.id)
    undo(hf, "hotel", "flight")
    assert shown(hf, "t1").status == "compensated"


@pytest.mark.parametrize("cancel", ["flight.cancel", command_queue("Flight.Cancel")])
def test_an_undo_that_nobody_can_do_keeps_the_saga_open(hf: Holdfast, clock: Any, cancel: str) -> None:
    """G3. There is no handler for it, be it of a queue or of a command: the saga says why it turned round, and what it
    is at; the doctor says that nobody is there for it."""
    hf.saga("trip", steps=[Step("flight", "flight.book", undo=cancel), *trip("hotel")])
    hf.start_saga("trip", id="t1")
    do(hf, "flight")
    die(hf, "hotel.book", "no seat")
    clock.advance("1d")
    hf.sagas.advance()
    saga = shown(hf, "t1")
    assert (saga.status, saga.error, saga.ended_at_us) == ("compensating", "hotel: no seat", None)
    assert states(hf, "t1") == ["compensating", "failed"]
    [waiting_there] = [one for one in internals(hf).store.health.look() if one.check == "waiting"]
    assert waiting_there.found == f"{cancel}: the oldest message for 24 h"
    assert waiting_there.advice == "Nobody claims from the queue: start a consumer."
    assert hf.sagas.mark_done("t1", "flight")
    assert (shown(hf, "t1").status, waiting(hf)) == ("compensated", [])


def test_where_a_failure_stops_someone_lets_it_go_on(hf: Holdfast) -> None:
    hf.saga("trip", steps=trip(), on_failure="stop")
    hf.start_saga("trip", id="t1")
    do(hf, "flight")
    die(hf, "hotel.book")
    assert (shown(hf, "t1").status, waiting(hf)) == ("failed", [])
    assert [one.kind for one in hf.notices.list() if one.about == "t1"] == ["saga"]
    assert hf.sagas.retry("t1", "hotel")
    do(hf, "hotel")
    assert hf.sagas.skip("t1", "car", "we walk")
    assert (shown(hf, "t1").status, states(hf, "t1")) == ("completed", ["completed", "completed", "skipped"])
    assert shown(hf, "t1").data["flight"] == {"id": "flight"}


def test_a_replay_lets_it_go_on_too(hf: Holdfast) -> None:
    hf.saga("trip", steps=trip("flight", "hotel"), on_failure="stop")
    hf.start_saga("trip", id="t1")
    die(hf, "flight.book")
    hf.dead_letters.replay(hf.dead_letters.list("flight.book")[0].id)
    do(hf, "flight", "hotel")
    assert shown(hf, "t1").status == "completed"


def test_an_undo_that_is_tried_again_keeps_its_key(stuck: Holdfast) -> None:
    hf = stuck
    hf.sagas.retry("t1", "hotel")
    assert take(hf, "hotel.cancel").message.headers["holdfast-step-key"] == "t1/1/hotel/undo"
