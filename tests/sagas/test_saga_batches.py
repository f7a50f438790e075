"""Many sagas in one transaction: started together, moved on together, each judged by itself."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import Holdfast, IdempotencyConflict, NotFound, Step
from holdfast.client.client import internals
from holdfast.sagas.client import ADVANCE_LIMIT
from holdfast.sagas.steps.values import NewSaga
from tests.clock import FakeClock
from tests.sagas.saga_steps import NAMES, shown, trip

pytestmark = pytest.mark.of_queues

MANY = 30


def new(saga_id: str, data: bytes = b"{}", name: str = "trip") -> NewSaga:
    return NewSaga("default", name, saga_id, data, 0, "anna")


def test_of_those_that_are_started_together_each_has_its_own_answer(hf: Holdfast) -> None:
    hf.saga("trip", steps=trip())
    hf.start_saga("trip", {"n": 1}, id="before")
    refused = internals(hf).store.sagas.start(
        [
            new("b"),
            new("a"),
            new("b"),
            new("b", b'{"n":2}'),
            new("unknown", name="cruise"),
            new("before", b'{"n":1}'),
            new("before"),
        ]
    )
    conflict, unknown = IdempotencyConflict, NotFound
    nothing = type(None)
    assert [type(one) for one in refused] == [nothing, nothing, nothing, conflict, unknown, nothing, conflict]
    assert {saga.id for saga in hf.sagas.list()} == {"before", "a", "b"}
    assert hf.stats("flight.book").pending == 3


def test_those_who_start_at_once_get_what_is_theirs(hf: Holdfast) -> None:
    hf.saga("trip", steps=trip())
    gate = threading.Barrier(MANY)

    def start(number: int) -> str:
        gate.wait(30)
        try:
            return hf.start_saga("cruise" if number % 5 == 0 else "trip", {"n": number}, id=f"s{number}")
        except NotFound:
            return "no cruises"

    with ThreadPoolExecutor(MANY) as threads:
        found = list(threads.map(start, range(MANY)))
    assert found == ["no cruises" if number % 5 == 0 else f"s{number}" for number in range(MANY)]
    assert {saga.data["n"] for saga in hf.sagas.list()} == {number for number in range(MANY) if number % 5}


def test_one_settle_moves_on_every_saga_it_is_about(hf: Holdfast) -> None:
    hf.saga("trip", steps=trip())
    for number in range(MANY):
        hf.start_saga("trip", {"n": number}, id=f"s{number}")
    for step in NAMES:
        claims = hf.claim(f"{step}.book", n=MANY)
        assert sorted(claim.message.body["n"] for claim in claims) == list(range(MANY))
        hf.ack(claims, {"by": step})
    for number in range(MANY):
        saga = hf.sagas.get(f"s{number}")
        assert saga is not None
        assert (saga.status, saga.data) == ("completed", {"n": number, **{step: {"by": step} for step in NAMES}})
        whats = [line.what for line in saga.timeline]
        assert whats == ["started", "sent", "completed", "sent", "completed", "sent", "completed", "completed"]


def test_those_that_fail_turn_round_beside_those_that_go_on(hf: Holdfast) -> None:
    hf.saga("trip", steps=trip())
    for number in range(MANY):
        hf.start_saga("trip", {"n": number}, id=f"s{number}")
    hf.ack(hf.claim("flight.book", n=MANY))
    claims = hf.claim("hotel.book", n=MANY)
    hf.dead_letter([claim for claim in claims if claim.message.body["n"] % 3 == 0], "no room")
    hf.ack([claim for claim in claims if claim.message.body["n"] % 3])
    hf.ack(hf.claim("flight.cancel", n=MANY))
    hf.ack(hf.claim("car.book", n=MANY))
    for saga in hf.sagas.list():
        assert saga.status == ("completed" if saga.data["n"] % 3 else "compensated")


def test_steps_side_by_side_that_end_together_are_two_events_of_one_saga(hf: Holdfast) -> None:
    hf.saga("trip", steps=[[Step("a", "a"), Step("b", "b")], Step("last", "last")])
    hf.start_saga("trip", id="x")
    hf.ack(hf.claim("a", "b", n=2), 1)
    saga = hf.sagas.get("x")
    assert saga is not None
    assert [step.status for step in saga.steps] == ["completed", "completed", "running"]
    assert saga.data == {"a": 1, "b": 1}
    assert hf.stats("last").pending == 1


def test_two_groups_may_end_the_same_message_together(hf: Holdfast) -> None:
    hf.topic("orders")
    for group in ("email", "audit"):
        hf.subscribe("orders", group=group)
    for number in range(3):
        hf.publish("orders.created", number)
    claims = [claim for group in ("email", "audit") for claim in hf.claim("orders", group=group, n=3)]
    assert len(claims) == 6
    hf.ack(claims, "done")
    assert [hf.claim("orders", group=group) for group in ("email", "audit")] == [[], []]


@pytest.mark.parametrize("ordering", ["per_key", "fifo"])
def test_of_those_that_arrive_together_the_first_of_each_key_is_first(hf: Holdfast, ordering: str) -> None:
    hf.queue("q", ordering=ordering)
    hf.enqueue_many("q", [1, 2, 3], key="a")
    [claim] = hf.claim("q", n=10)
    assert claim.message.body == 1
    claim.ack()
    assert [claim.message.body for claim in hf.claim("q", n=10)] == [2]


def test_sagas_with_much_to_tell_are_forgotten_in_turns(
    hf: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    hf.saga("trip", steps=trip("flight"), keep="1m")
    for number in range(5):
        hf.start_saga("trip", id=str(number))
    hf.ack(hf.claim("flight.book", n=5))
    monkeypatch.setattr("holdfast.sagas.steps.instances.MOST_LINES", 2 * len(shown(hf, "0").timeline))
    clock.advance(60)
    for left in (3, 1):
        assert hf.sagas.advance() == ADVANCE_LIMIT, "there are more"
        assert len(hf.sagas.list()) == left
    monkeypatch.setattr("holdfast.sagas.steps.instances.MOST_LINES", 1)
    assert hf.sagas.advance() == 1
    assert hf.sagas.list() == []
