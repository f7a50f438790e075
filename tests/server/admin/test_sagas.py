"""Sagas over HTTP: looking, turning one round, deciding about a step that is stuck."""

from typing import get_args

import pytest

from holdfast import Holdfast, Step, Wait
from holdfast.sagas import admin
from holdfast.sagas.rules import declaration as core
from tests.server.admin.conftest import Ask

pytestmark = pytest.mark.above_the_stores

TRIP = "/admin/sagas/trip-1"


@pytest.fixture
def trip(hf: Holdfast) -> str:
    for queue in ("flights", "flights.undo", "hotels"):
        hf.queue(queue, max_attempts=1)
    steps = [
        Step("flight", "flights", undo="flights.undo"),
        Wait("approval", signal="approved"),
        Step("hotel", "hotels"),
    ]
    hf.saga("trip", steps=steps)
    return hf.start_saga("trip", {"city": "Oslo"}, id="trip-1")


def test_a_saga_shows_its_steps_and_its_timeline(hf: Holdfast, trip: str, ask: Ask) -> None:
    hf.ack(hf.claim("flights"), {"seat": "1A"})
    [saga] = ask("GET", "/admin/sagas?status=in_progress&name=trip")["sagas"]
    assert (saga["id"], saga["name"], saga["status"]) == ("trip-1", "trip", "in_progress")
    assert ask("GET", "/admin/sagas?status=completed") == {"sagas": []}
    assert ask("GET", "/admin/sagas?after=trip-1") == {"sagas": []}
    assert ask("GET", "/admin/sagas?name=cruise") == {"sagas": []}
    hf.start_saga("trip", id="trip-2")
    assert [saga["id"] for saga in ask("GET", "/admin/sagas?n=1")["sagas"]] == ["trip-1"]
    detail = ask("GET", TRIP)
    assert (detail["steps"][0]["name"], detail["steps"][0]["status"]) == ("flight", "completed")
    assert detail["data"]["flight"] == {"seat": "1A"}
    assert [event["step"] for event in detail["timeline"]] == [None, "flight", "flight"]
    ask("GET", "/admin/sagas/nobody", 404)
    ask("GET", "/admin/sagas?status=odd", 422)
    ask("GET", "/admin/sagas?after=nobody", 404)


def test_a_signal_moves_it_on(hf: Holdfast, trip: str, ask: Ask) -> None:
    hf.ack(hf.claim("flights"))
    ask("POST", TRIP + "/signals/approved", json={"data": {"by": "mia"}})
    assert ask("GET", TRIP)["data"]["approval"] == {"by": "mia"}
    hf.ack(hf.claim("hotels"))
    assert ask("GET", TRIP)["status"] == "completed"
    ask("POST", TRIP + "/signals/approved", 409, json={})
    ask("POST", "/admin/sagas/nobody/signals/approved", 404, json={})


def test_it_is_turned_round_once(hf: Holdfast, trip: str, ask: Ask) -> None:
    hf.ack(hf.claim("flights"))
    ask("POST", TRIP + "/cancel", json={"reason": "it rains"})
    ask("POST", TRIP + "/cancel", 409, json={})
    hf.ack(hf.claim("flights.undo"))
    saga = ask("GET", TRIP)
    assert (saga["status"], saga["error"]) == ("canceled", "it rains")


def test_who_goes_on_without_a_step_says_why(trip: str, ask: Ask) -> None:
    ask("POST", TRIP + "/steps/flight/skip", json={"reason": "by train"})
    saga = ask("GET", TRIP)
    assert [(line["step"], line["error"]) for line in saga["timeline"] if line["what"] == "skipped"] == [
        ("flight", "by train")
    ]
    assert [step["status"] for step in saga["steps"]] == ["skipped", "running", "pending"]


def test_someone_decides_about_a_step_that_is_stuck(hf: Holdfast, trip: str, ask: Ask) -> None:
    hf.ack(hf.claim("flights"))
    ask("POST", TRIP + "/cancel", json={})
    hf.dead_letter(hf.claim("flights.undo"), "closed")
    assert ask("GET", TRIP)["status"] == "compensation_failed"
    ask("POST", TRIP + "/steps/nowhere/retry", 404)
    ask("POST", TRIP + "/steps/flight/skip", 422, json={"reason": " "})
    ask("POST", TRIP + "/steps/flight/retry")
    ask("POST", TRIP + "/steps/flight/retry", 409)
    hf.dead_letter(hf.claim("flights.undo"), "closed")
    ask("POST", TRIP + "/steps/flight/done", json={"data": {"by hand": True}})
    saga = ask("GET", TRIP)
    assert saga["status"] == "canceled"
    assert [line["output"] for line in saga["timeline"] if line["what"] == "marked_done"] == [{"by hand": True}]
    ask("POST", TRIP + "/steps/flight/skip", 409, json={"reason": "too late"})


def test_every_status_can_be_asked_for_and_shown() -> None:
    assert set(get_args(admin.Status)) == set(core.Status)
