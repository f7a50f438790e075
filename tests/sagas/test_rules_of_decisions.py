"""The rules of sagas where something fails more than once, comes late, or waits for an operator."""

from typing import Any

import pytest

from holdfast import Expression
from holdfast.sagas.rules.declaration import Status, Step, Wait
from holdfast.sagas.rules.events import CancelSaga, MarkDone, MessageEnded, RetryStep, Signal, SkipStep
from tests.sagas.played import Letter, World

pytestmark = pytest.mark.unit

A, B, C = (Step(name, name, undo=f"un{name}") for name in "abc")
MAIL = Step("mail", "mail")


def begun(world: World, step: int) -> Letter:
    """Someone holds the message of a step."""
    [letter] = [letter for letter in world.letters.values() if letter.step == step]
    letter.held = True
    return letter


def stuck(*steps: Any) -> World:
    """The first step is done, the second has failed, and the undo of the first as well."""
    world = World([A, B, *steps]).start()
    world.succeed(world.only())
    world.fail(world.only())
    world.fail(world.only())
    assert world.status is Status.COMPENSATION_FAILED
    return world


# --- more than one try ------------------------------------------------------------------------------------------------


def test_a_try_waits_for_its_backoff_and_its_time_is_counted_from_then() -> None:
    world = World([Step("a", "a", retry=1, backoff=30, timeout=5)]).start()
    world.now = 1_000_000
    world.fail(world.only())
    assert (world.only().delay, world.saga.steps[0].due) == (30_000_000, 36_000_000)
    assert world.saga.steps[0].started_at == 0


def test_an_undo_is_tried_as_often_as_its_step() -> None:
    world = World([Step("a", "a", undo="una", retry=1, backoff=30), B]).start()
    world.succeed(world.only())
    world.fail(world.only())
    world.fail(world.only())
    assert (world.status, world.only().undo, world.only().delay) == (Status.COMPENSATING, True, 30_000_000)
    world.fail(world.only())
    assert world.status is Status.COMPENSATION_FAILED
    world.apply(RetryStep(0))
    assert (world.saga.steps[0].undo_tries, world.only().delay) == (1, 0)
    world.fail(world.only(), final=True)
    assert world.status is Status.COMPENSATION_FAILED


def test_a_step_that_is_retried_has_all_its_tries_again() -> None:
    world = World([Step("a", "a", retry=1)], on_failure="stop").start()
    for _ in range(2):
        world.fail(world.only())
    assert world.apply(RetryStep(0)).accepted
    world.fail(world.only())
    assert world.states() == ["running"]


def test_a_try_that_was_about_to_be_sent_is_not_when_the_saga_turns_round() -> None:
    """Both time out at the same moment."""
    world = World([[Step("a", "a", timeout=5, retry=1), Step("b", "b", timeout=5)]]).start()
    world.tick()
    assert (world.status, world.letters) == (Status.FAILED, {})


@pytest.mark.parametrize("succeeds", [True, False])
def test_of_a_replayed_undo_and_a_retried_one_the_first_success_counts(succeeds: bool) -> None:
    world = stuck()
    world.apply(RetryStep(0))
    world.apply(MessageEnded(0, True, "a replay", succeeds, error="no", attempt=1))
    assert world.status is (Status.COMPENSATED if succeeds else Status.COMPENSATING)
    assert len(world.letters) == int(not succeeds)


# --- what comes late --------------------------------------------------------------------------------------------------


def test_what_a_receipt_vouches_for_is_undone_if_the_saga_never_heard_of_it() -> None:
    """The first attempt did it and was killed before its ack; the next one finds the receipt, when time is over."""
    world = World([Step("a", "a", undo="una", timeout=5)]).start()
    late = begun(world, 0)
    world.tick()
    world.ledger.append(("do", 0))
    del world.letters[late.id]
    world.apply(MessageEnded(0, False, late.id, True, repeated=True))
    assert world.only().undo


def test_what_was_skipped_and_is_done_all_the_same_is_completed() -> None:
    world = World([A, B]).start()
    late = begun(world, 0)
    world.apply(SkipStep(0, "we walk"))
    world.succeed(late, 1)
    assert (world.states(), world.saga.data) == (["completed", "running"], {"a": 1})


def test_what_was_completed_late_waits_for_its_turn_and_comes_before_what_is_stuck() -> None:
    world = World([A, [B, C]]).start()
    world.succeed(world.only())
    late = begun(world, 1)
    world.fail(next(letter for letter in world.letters.values() if letter.step == 2))
    world.fail(late)
    world.fail(world.only())
    world.replay(1)
    assert (world.status, world.states()[1]) == (Status.COMPENSATION_FAILED, "completed")
    world.apply(RetryStep(0))
    assert world.only().step == 1
    world.run()
    assert world.ledger[-2:] == [("undo", 1), ("undo", 0)]


def test_what_was_done_again_is_done_until_its_next_turn() -> None:
    world = World([A, Step("b", "b", undo="unb", timeout=5, retry=1), C]).start()
    world.succeed(world.only())
    first = begun(world, 1)
    world.tick()
    world.succeed(next(letter for letter in world.letters.values() if letter is not first))
    world.fail(first)
    world.fail(world.only())
    world.succeed(world.only())
    world.replay(1)
    step = world.saga.steps[1]
    assert (step.state.value, step.undoing, world.only().step) == ("completed", False, 0)
    world.run()
    assert world.ledger[-2:] == [("undo", 0), ("undo", 1)]


def test_what_was_withdrawn_and_done_all_the_same_is_not_done_again() -> None:
    world = World([[MAIL, B]]).start()
    late = begun(world, 0)
    world.fail(next(letter for letter in world.letters.values() if letter is not late))
    world.succeed(late)
    assert world.status is Status.FAILED
    assert world.apply(RetryStep(1)).accepted
    assert (world.only().step, world.states()) == (1, ["completed", "running"])


def test_an_attempt_is_a_line_if_there_was_one() -> None:
    world = World([[A, B, C]]).start()
    late = begun(world, 0)
    world.fail(next(letter for letter in world.letters.values() if letter.step == 1), attempt=1)
    assert world.notes.count("attempt_failed") == 1  # What nobody had begun was withdrawn.
    world.fail(late, attempt=1)
    assert world.notes.count("attempt_failed") == 2


# --- who decides ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", [SkipStep(0, "we walk"), MarkDone(0, "by hand")])
def test_who_decides_about_a_step_takes_its_message_away(act: Any) -> None:
    world = World([Step("a", "a", timeout=5), B]).start()
    world.apply(act)
    assert (world.only().step, world.saga.steps[0].due) == (1, None)
    assert world.saga.data == ({} if isinstance(act, SkipStep) else {"a": "by hand"})


@pytest.mark.parametrize("act", [RetryStep(1), SkipStep(1, "why"), MarkDone(1)])
def test_nobody_decides_about_a_step_whose_saga_is_being_undone(act: Any) -> None:
    world = World([A, B]).start()
    world.succeed(world.only())
    world.fail(world.only())
    assert not world.apply(act).accepted
    assert (world.status, world.only().undo) == (Status.COMPENSATING, True)


def test_a_saga_that_stopped_can_be_cancelled() -> None:
    world = World([A, B], on_failure="stop").start()
    world.succeed(world.only())
    world.fail(world.only())
    assert world.apply(CancelSaga()).accepted
    world.run()
    assert (world.status, world.ledger) == (Status.CANCELED, [("do", 0), ("undo", 0)])


def test_a_saga_that_stops_is_told_once() -> None:
    world = World([[A, B]], on_failure="stop").start()
    for letter in list(world.letters.values()):
        world.fail(letter)
    assert (world.told, world.notes.count("failed")) == (["a: no"], 3)


def test_what_was_withdrawn_is_wanted_again_when_someone_retries() -> None:
    world = World([[MAIL, Wait("paid", signal="payment"), B]]).start()
    world.fail(next(letter for letter in world.letters.values() if letter.step == 2))
    assert world.states() == ["skipped", "skipped", "failed"]
    assert world.apply(Signal("payment", 7)).accepted
    assert world.apply(RetryStep(2)).accepted
    assert (world.states(), world.saga.data) == (["running", "completed", "running"], {"paid": 7})


# --- waits and conditions ---------------------------------------------------------------------------------------------


def test_a_signal_is_for_those_who_wait_for_it() -> None:
    world = World([[Wait("one", signal="a"), Wait("two", signal="b")]]).start()
    assert world.apply(Signal("b", 2)).accepted
    assert world.states() == ["running", "completed"]


def test_a_wait_needs_no_undo_and_a_step_without_one_is_noted_each_time() -> None:
    world = World([MAIL, Wait("ok", signal="go"), B]).start()
    world.apply(Signal("go"))
    world.succeed(world.only())
    for times in (1, 2):
        world.fail(world.only())
        assert (world.status, world.notes.count("not_undoable")) == (Status.FAILED, times)
        world.apply(RetryStep(2))


def test_a_condition_that_cannot_be_worked_out_is_a_failure() -> None:
    huge = Expression("data.x + data.x + data.x + data.x == ''")
    world = World([A, Step("b", "b", when=huge)], data={"x": "x" * 400_000}).start()
    world.succeed(world.only())
    assert (world.states()[1], world.only().undo) == ("failed", True)
    assert str(world.saga.error).startswith("b: when: ")


# --- claims that have not ended when a saga turns round ---------------------------------------------------------------


@pytest.mark.parametrize("done", [False, True])
def test_a_lease_that_ends_without_an_answer_is_undone_first(done: bool) -> None:
    world = World([A, B]).start()
    world.succeed(world.only())
    held = begun(world, 1)
    world.apply(CancelSaga())
    assert world.only() is held
    world.lapse(held, done)
    assert (world.only().step, world.only().undo) == (1, True)
    assert "outcome_unknown" in world.notes
    world.run()
    assert (world.status, world.ledger[-2:], world.standing) == (Status.CANCELED, [("undo", 1), ("undo", 0)], set())


def test_a_step_that_died_in_silence_is_undone_too() -> None:
    world = World([A, B]).start()
    world.succeed(world.only())
    world.lapse(begun(world, 1), done=True)
    world.run()
    assert (world.status, world.standing) == (Status.COMPENSATED, set())


def test_what_is_unknown_and_has_no_undo_stays_failed() -> None:
    world = World([A, MAIL]).start()
    world.succeed(world.only())
    held = begun(world, 1)
    world.apply(CancelSaga())
    world.lapse(held)
    assert (world.only().step, "not_undoable" in world.notes) == (0, True)


def test_a_handler_that_gave_up_has_failed_and_the_rest_goes_with_the_one_that_failed_first() -> None:
    world = World([[MAIL, B]]).start()
    held = begun(world, 0)
    world.fail(next(letter for letter in world.letters.values() if letter is not held))
    world.fail(held, "told to stop", attempt=1)
    assert (world.states(), world.status) == (["failed", "failed"], Status.FAILED)
    assert not world.apply(RetryStep(0)).accepted
    assert not world.apply(SkipStep(0, "why")).accepted
    assert world.apply(RetryStep(1)).accepted
    assert world.states() == ["running", "running"]
