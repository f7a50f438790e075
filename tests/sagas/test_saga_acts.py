"""Sagas and time, and what they are made of: timeouts, retries, cancels, stages, conditions, waits."""

from typing import Any

import pytest

from holdfast import Holdfast, LeaseLost, NotFound, Step, Wait
from holdfast.client.client import internals
from tests.clock import FakeClock
from tests.sagas.saga_steps import die, do, lines, shown, states, take, trip, undo, waiting
from tests.steps import OpenClient

pytestmark = pytest.mark.of_queues


def test_a_step_that_nobody_begins_in_time_has_failed(hf: Holdfast, clock: Any) -> None:
    hf.saga("trip", steps=[*trip("flight"), Step("card", "card.book", undo="card.cancel", timeout=60)])
    hf.start_saga("trip", id="t1")
    do(hf, "flight")
    clock.advance(59)
    assert hf.sagas.advance() == 0
    clock.advance(1)
    assert hf.sagas.advance() == 1
    assert waiting(hf) == ["flight.cancel"]  # The card's message is gone.
    undo(hf, "flight")
    assert (shown(hf, "t1").status, shown(hf, "t1").error) == ("compensated", "card: timed out after 60 s")
    assert hf.sagas.advance() == 0


def test_whoever_claims_looks_after_the_time_of_sagas(hf: Holdfast, clock: Any) -> None:
    """Nobody calls anything but claim: no consumers, no maintenance."""
    hf.saga("trip", steps=[Wait("a while", delay="1h"), *trip("flight")])
    hf.saga("short", steps=trip("car"), keep="2h")
    hf.start_saga("trip", id="t1")
    hf.start_saga("short", id="t2")
    do(hf, "car")
    clock.advance("1h")
    assert hf.claim("other") == []
    assert (waiting(hf), shown(hf, "t2").status) == (["flight.book"], "completed")
    clock.advance("1h")
    assert hf.claim("other") == []
    assert hf.sagas.get("t2") is None


def test_whoever_waits_for_a_claim_looks_after_them_too(
    client: OpenClient, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def soon() -> int:
        clock.advance(10)
        return clock()

    monkeypatch.setattr("holdfast.client.claim_loop.LONGEST_NAP", 0.01)
    hf = client(clock=soon)
    hf.saga("trip", steps=[Wait("a while", delay="10m"), *trip("flight")])
    hf.start_saga("trip", id="t1")
    assert len(hf.claim("flight.book", wait=30)) == 1


def test_a_late_success_is_undone_first(hf: Holdfast, clock: Any) -> None:
    hf.saga("trip", steps=[*trip("flight"), Step("card", "card.book", undo="card.cancel", timeout=20)])
    hf.start_saga("trip", id="t1")
    do(hf, "flight")
    slow = take(hf, "card.book")
    clock.advance(21)
    hf.sagas.advance()
    assert (shown(hf, "t1").status, waiting(hf)) == ("compensating", [])  # Someone still works on the card.
    slow.ack("paid")
    assert states(hf, "t1") == ["completed", "compensating"]
    undo(hf, "card", "flight")
    assert (shown(hf, "t1").status, states(hf, "t1")) == ("compensated", ["compensated", "compensated"])
    assert "completed_late card" in lines(hf, "t1")


def test_what_is_done_again_after_its_undo_is_undone_again(hf: Holdfast, clock: Any) -> None:
    hf.saga("trip", steps=[Step("card", "card.book", undo="card.cancel", retry=1), *trip("car")])
    hf.start_saga("trip", id="t1")
    hf.queue("card.book", max_attempts=1)
    take(hf, "card.book").nack("declined")
    do(hf, "card")
    die(hf, "car.book")
    undone = take(hf, "card.cancel")
    keys = [undone.message.headers["holdfast-step-key"]]
    undone.ack()
    assert shown(hf, "t1").status == "compensated"
    hf.dead_letters.replay(hf.dead_letters.list("card.book")[0].id)
    do(hf, "card")
    undone = take(hf, "card.cancel")
    keys.append(undone.message.headers["holdfast-step-key"])
    undone.ack()
    assert (shown(hf, "t1").status, waiting(hf)) == ("compensated", [])
    assert keys == ["t1/1/card/undo", "t1/1/card/undo/2"]


@pytest.mark.parametrize("how", ["nack before", "silence before", "nack", "silence", "release", "snooze"])
def test_a_step_that_was_claimed_is_not_done_again_once_the_saga_turns_round(
    hf: Holdfast, clock: Any, how: str
) -> None:
    """An attempt that ended in silence may have paid, so the card is undone."""
    hf.queue("card.book", lease=10)
    hf.saga("trip", steps=[Step("card", "card.book", undo="card.cancel", timeout=20)])
    hf.start_saga("trip", id="t1")
    slow = take(hf, "card.book")
    if how == "nack before":
        slow.nack("not yet", delay=0)
    elif how == "silence before":
        clock.advance(11)
        assert internals(hf).store.messages.sweep(slow.channel, 10)
    else:
        slow.extend(30)
    clock.advance(21 if how != "silence before" else 10)
    hf.sagas.advance()
    if how in ("nack", "release"):
        getattr(slow, how)(*["too late"] * (how == "nack"))
    elif how == "snooze":
        hf.snooze(slow, 5)
    clock.advance(30)
    hf.sagas.advance()
    assert hf.claim("card.book") == []
    if how.startswith("silence"):
        undo(hf, "card")
    assert shown(hf, "t1").status == ("compensated" if how.startswith("silence") else "failed")


def test_a_canceled_message_may_have_been_done(hf: Holdfast) -> None:
    hf.saga("trip", steps=trip("flight"))
    hf.start_saga("trip", id="t1")
    claim = take(hf, "flight.book")
    assert hf.cancel(claim.message.id)
    with pytest.raises(LeaseLost):
        claim.ack()
    undo(hf, "flight")
    assert shown(hf, "t1").status == "compensated"


def test_a_late_death_ends_the_saga(hf: Holdfast, clock: Any) -> None:
    hf.saga("trip", steps=[Step("card", "card.book", undo="card.cancel", timeout=20)])
    hf.start_saga("trip", id="t1")
    slow = take(hf, "card.book")
    clock.advance(21)
    hf.sagas.advance()
    slow.dead_letter("too late")
    assert (shown(hf, "t1").status, waiting(hf)) == ("failed", [])


def test_the_timeout_and_the_success_have_one_winner(hf: Holdfast, rival: Holdfast, clock: Any) -> None:
    hf.saga("trip", steps=[Step("card", "card.book", timeout=20)])
    hf.start_saga("trip", id="t1")
    claim = take(hf, "card.book")
    clock.advance(21)
    claim.ack()
    assert rival.sagas.advance() == 0
    assert shown(hf, "t1").status == "completed"


def test_a_retry_sends_the_step_again_and_keeps_what_others_gave_back(hf: Holdfast, clock: Any) -> None:
    hf.saga("trip", steps=[*trip("flight"), Step("hotel", "hotel.book", retry=1, backoff=30)])
    hf.queue("hotel.book", max_attempts=1)
    hf.start_saga("trip", id="t1")
    do(hf, "flight")
    take(hf, "hotel.book").nack("full")
    assert states(hf, "t1") == ["completed", "running"]
    assert hf.claim("hotel.book") == []
    clock.advance(30)
    assert take(hf, "hotel.book").message.body == {"flight": {"id": "flight"}}
    assert shown(hf, "t1").steps[1].tries == 2


def test_what_a_handler_gives_up_for_good_is_not_sent_again(hf: Holdfast) -> None:
    hf.saga("trip", steps=[Step("hotel", "hotel.book", retry=3)])
    hf.start_saga("trip", id="t1")
    die(hf, "hotel.book")
    assert shown(hf, "t1").status == "failed"


def test_a_retry_after_a_timeout_takes_the_first_success(hf: Holdfast, clock: Any) -> None:
    hf.saga("trip", steps=[Step("hotel", "hotel.book", retry=1, timeout=20), *trip("car")])
    hf.start_saga("trip", id="t1")
    first = take(hf, "hotel.book")
    clock.advance(21)
    hf.sagas.advance()
    assert hf.stats("hotel.book").pending == 1
    first.ack("slow")
    assert (states(hf, "t1"), waiting(hf)) == (["completed", "running"], ["car.book"])
    assert shown(hf, "t1").data["hotel"] == "slow"


def test_cancel_undoes_and_says_who_and_why(hf: Holdfast) -> None:
    hf.saga("trip", steps=trip())
    hf.start_saga("trip", id="t1")
    do(hf, "flight", "hotel")
    assert hf.sagas.cancel("t1", "ill")
    assert not hf.sagas.cancel("t1")
    undo(hf, "hotel", "flight")
    saga = shown(hf, "t1")
    assert (saga.status, saga.error) == ("canceled", "ill")
    line = next(line for line in saga.timeline if line.what == "canceled")
    assert (line.who, line.error) == (hf.actor, "ill")
    assert [record.act for record in hf.audit.list()] == ["cancel_saga", "cancel_saga"]
    with pytest.raises(NotFound):
        hf.sagas.cancel("t2")


def test_a_completed_saga_is_not_cancelled(hf: Holdfast, clock: Any) -> None:
    hf.saga("trip", steps=trip("flight"))
    hf.start_saga("trip", id="t1")
    do(hf, "flight")
    before = shown(hf, "t1")
    clock.advance(60)
    assert not hf.sagas.cancel("t1")
    assert not hf.signal("t1", "go")
    assert shown(hf, "t1") == before


def test_a_start_can_wait(hf: Holdfast, clock: Any) -> None:
    hf.saga("trip", steps=trip("flight"))
    hf.start_saga("trip", id="t1", delay="1h")
    assert (shown(hf, "t1").status, waiting(hf)) == ("pending", [])
    clock.advance("1h")
    assert hf.maintain() >= 1
    assert (shown(hf, "t1").status, waiting(hf)) == ("in_progress", ["flight.book"])


def test_what_has_ended_is_kept_for_a_while(hf: Holdfast, clock: Any) -> None:
    hf.saga("trip", steps=trip("flight"), keep="1d")
    hf.saga("kept", steps=trip("flight"), keep=None)
    for name in ("trip", "kept"):
        hf.start_saga(name, id=name)
        do(hf, "flight")
    hf.start_saga("trip", id="open")
    clock.advance("23h")
    assert hf.sagas.advance() == 0
    clock.advance("1h")
    assert hf.sagas.advance() == 1
    assert [saga.id for saga in hf.sagas.list()] == ["kept", "open"]
    assert hf.sagas.advance() == 0
    with internals(hf).store.lend() as conn:
        assert conn.execute("SELECT DISTINCT saga FROM holdfast_saga_event ORDER BY saga").fetchall() == [(2,), (3,)]
    hf.start_saga("trip", id="trip")
    assert shown(hf, "trip").status == "in_progress"


def test_what_has_not_ended_is_kept(hf: Holdfast, clock: Any) -> None:
    """Nobody works for any of them: two wait for a signal, one to begin, and two for someone who decides."""
    hf.saga("trip", steps=[*trip("flight"), Wait("paid", signal="payment")], keep="1m")
    hf.saga("stops", steps=trip("hotel"), on_failure="stop", keep="1m")
    for saga_id in ("waits", "waits too"):
        hf.start_saga("trip", id=saga_id)
    hf.ack(hf.claim("flight.book", n=2))
    hf.start_saga("trip", id="later", delay="1d")
    hf.start_saga("trip", id="stuck")
    do(hf, "flight")
    hf.sagas.cancel("stuck")
    die(hf, "flight.cancel")
    hf.start_saga("stops", id="stopped")
    die(hf, "hotel.book")
    clock.advance("1h")
    assert hf.sagas.advance() == 0
    there = [saga.status for saga in hf.sagas.list()]
    assert there == ["in_progress", "in_progress", "pending", "compensation_failed", "failed"]


def test_what_waits_for_someone_is_kept(hf: Holdfast, clock: Any) -> None:
    hf.queue("hotel.book", lease="2d")
    hf.saga("trip", steps=[trip("flight", "hotel")], on_failure="stop", keep="1m")
    hf.start_saga("trip", id="t1")
    slow = take(hf, "hotel.book")
    die(hf, "flight.book")
    for _ in range(2):
        clock.advance("1h")
        assert hf.sagas.advance() == 0
        assert (shown(hf, "t1").status, shown(hf, "t1").ended_at_us) == ("failed", None)
        hf.extend(slow, "2d")
    slow.ack()
    assert hf.sagas.retry("t1", "flight")
    do(hf, "flight")
    assert shown(hf, "t1").status == "completed"
    clock.advance("1m")
    assert hf.sagas.advance() == 1
    assert hf.sagas.list() == []


def test_what_someone_still_works_for_is_kept(hf: Holdfast, clock: Any) -> None:
    hf.queue("hotel.book", lease="1d")
    hf.saga("trip", steps=[Step("hotel", "hotel.book", retry=1, timeout=20)], keep="1m")
    hf.start_saga("trip", id="t1")
    slow = take(hf, "hotel.book")
    clock.advance(21)
    hf.sagas.advance()
    do(hf, "hotel")
    assert shown(hf, "t1").ended_at_us is not None
    clock.advance("1h")
    assert hf.sagas.advance() == 0
    slow.ack()
    clock.advance("1m")
    assert hf.sagas.advance() == 1


def test_steps_side_by_side(hf: Holdfast) -> None:
    hf.saga("trip", steps=[trip("flight", "hotel"), *trip("car")])
    hf.start_saga("trip", id="t1")
    assert waiting(hf) == ["flight.book", "hotel.book"]
    do(hf, "hotel")
    assert waiting(hf) == ["flight.book"]
    do(hf, "flight")
    die(hf, "car.book")
    undo(hf, "flight", "hotel")  # In the reverse order of their completion.
    assert shown(hf, "t1").status == "compensated"


def test_what_runs_beside_a_failure_is_withdrawn_or_undone(hf: Holdfast) -> None:
    hf.saga("trip", steps=[trip("flight", "hotel", "car")])
    hf.start_saga("trip", id="t1")
    slow = take(hf, "hotel.book")
    die(hf, "car.book")
    assert waiting(hf) == []  # The flight was withdrawn, the hotel is in someone's hands.
    assert (shown(hf, "t1").status, states(hf, "t1")) == ("compensating", ["skipped", "skipped", "failed"])
    slow.ack()
    undo(hf, "hotel")
    assert (shown(hf, "t1").status, states(hf, "t1")) == ("compensated", ["skipped", "compensated", "failed"])


def test_answers_of_steps_side_by_side_in_one_call(hf: Holdfast) -> None:
    hf.saga("trip", steps=[trip("flight", "hotel"), *trip("car")])
    for number in range(3):
        hf.start_saga("trip", id=f"t{number}")
    claims = []
    while found := hf.claim("hotel.book", "flight.book", n=10):
        claims += found
    hf.ack(claims)
    assert [states(hf, f"t{number}") for number in range(3)] == [["completed", "completed", "running"]] * 3


def test_conditions(hf: Holdfast) -> None:
    steps = [*trip("flight"), Step("hotel", "hotel.book", when=lambda data: data.flight.nights > 0), *trip("car")]
    hf.saga("trip", steps=steps)
    for saga_id, nights in (("t1", 0), ("t2", 2)):
        hf.start_saga("trip", id=saga_id)
        do(hf, "flight", output={"nights": nights})
    assert (states(hf, "t1"), states(hf, "t2")) == (
        ["completed", "skipped", "running"],
        ["completed", "running", "pending"],
    )


def test_a_step_gets_what_was_picked_for_it(hf: Holdfast) -> None:
    step = Step(
        "hotel",
        "hotel.book",
        undo="hotel.cancel",
        input=lambda data: {"to": data.city, "seat": data.flight["seat"], "nights": 3},
        undo_input=lambda data: data.hotel,
    )
    hf.saga("trip", steps=[*trip("flight"), step, *trip("car")])
    hf.start_saga("trip", {"city": "Rome"}, id="t1")
    do(hf, "flight", output={"seat": "12A"})
    claim = take(hf, "hotel.book")
    assert claim.message.body == {"to": "Rome", "seat": "12A", "nights": 3}
    claim.ack("room 7")
    die(hf, "car.book")
    assert take(hf, "hotel.cancel").message.body == "room 7"


@pytest.mark.parametrize("early", [True, False])
def test_a_signal_ends_a_wait(hf: Holdfast, rival: Holdfast, early: bool) -> None:
    hf.saga("trip", steps=[*trip("flight"), Wait("paid", signal="payment", timeout=60), *trip("car")])
    hf.start_saga("trip", id="t1")
    if early:
        assert rival.signal("t1", "payment", {"by": "card"})
        do(hf, "flight")
    else:
        do(hf, "flight")
        assert waiting(hf) == []
        assert rival.signal("t1", "payment", {"by": "card"})
    assert take(hf, "car.book").message.body["paid"] == {"by": "card"}
    with pytest.raises(NotFound):
        hf.signal("t2", "payment")


def test_a_signal_that_does_not_come_undoes_the_saga(hf: Holdfast, clock: Any) -> None:
    hf.saga("trip", steps=[*trip("flight"), Wait("paid", signal="payment", timeout=60)])
    hf.start_saga("trip", id="t1")
    do(hf, "flight")
    clock.advance(60)
    hf.sagas.advance()
    undo(hf, "flight")
    assert shown(hf, "t1").error == "paid: timed out after 60 s"
    assert not hf.signal("t1", "payment")


def test_a_signal_that_no_step_waits_for_is_of_no_use(hf: Holdfast) -> None:
    hf.saga("trip", steps=[*trip("flight"), Wait("paid", signal="payment")])
    hf.start_saga("trip", id="t1")
    assert [hf.signal("t1", name) for name in ("paiment", "payment", "payment")] == [False, True, False]
    do(hf, "flight")
    assert shown(hf, "t1").status == "completed"


def test_waiting_for_a_time(hf: Holdfast, clock: Any) -> None:
    hf.saga("trip", steps=[Wait("a while", delay="1h"), *trip("flight")])
    hf.start_saga("trip", id="t1")
    clock.advance("59m")
    assert hf.sagas.advance() == 0
    assert not internals(hf).store.sagas._tick(1)  # Someone else was faster.
    clock.advance("1m")
    assert hf.sagas.advance() == 1
    assert waiting(hf) == ["flight.book"]


def test_in_an_ordered_queue_what_is_withdrawn_lets_the_next_go(hf: Holdfast, clock: Any) -> None:
    hf.queue("card.book", ordering="fifo")
    hf.saga("trip", steps=[Step("card", "card.book", timeout=20)])
    hf.start_saga("trip", id="t1")
    clock.advance(10)
    hf.start_saga("trip", id="t2")
    clock.advance(11)
    hf.sagas.advance()
    assert shown(hf, "t1").status == "failed"
    assert take(hf, "card.book").message.correlation_id == "t2"
