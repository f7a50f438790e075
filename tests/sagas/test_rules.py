"""The rules of sagas: what runs is a prefix, what is undone is its exact reverse, every end is called what it is."""

from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast import Expression, InvalidInput
from holdfast.core.expressions import to_text
from holdfast.sagas.rules.declaration import Reference, Status, Step, StepState, Wait, saga_spec
from holdfast.sagas.rules.events import Begin, CancelSaga, MarkDone, MessageEnded, RetryStep, Signal, SkipStep, Tick
from holdfast.sagas.rules.step_messages import body_of
from tests.sagas.played import Letter, World
from tests.spec.expressions.trees import EXPRESSIONS, JSON

pytestmark = pytest.mark.unit

A, B, C = (Step(name, name, undo=f"un{name}") for name in "abc")


def test_steps_run_one_after_the_other_and_their_outputs_are_kept_under_their_names() -> None:
    world = World([A, B], data={"city": "Rome"}).start()
    world.succeed(world.only(), {"id": 1})
    assert world.states() == ["completed", "running"]
    assert body_of(world.spec, world.saga, 1, undo=False) == {"city": "Rome", "a": {"id": 1}}
    world.succeed(world.only())
    assert world.status is Status.COMPLETED
    assert world.saga.data == {"city": "Rome", "a": {"id": 1}, "b": None}


@pytest.mark.parametrize("fails", range(3))
def test_a_failure_undoes_what_was_completed_in_reverse(fails: int) -> None:
    world = World([A, B, C]).start()
    for _ in range(fails):
        world.succeed(world.only())
    world.fail(world.only())
    world.run()
    done = list(range(fails))
    assert world.ledger == [("do", n) for n in done] + [("undo", n) for n in reversed(done)]
    assert world.status is (Status.COMPENSATED if fails else Status.FAILED)


def test_a_step_without_undo_is_recorded_and_passed_by() -> None:
    world = World([A, Step("mail", "mail"), C]).start()
    world.succeed(world.only())
    world.succeed(world.only())
    world.fail(world.only())
    assert "not_undoable" in world.notes
    world.run()
    assert world.states() == ["compensated", "completed", "failed"]
    assert not world.saga.steps[1].undoable


def test_a_retry_keeps_what_other_steps_gave_back() -> None:
    world = World([A, Step("b", "b", retry=1)]).start()
    world.succeed(world.only(), 1)
    world.fail(world.only())
    assert world.states() == ["completed", "running"]
    world.succeed(world.only(), 2)
    assert world.saga.data == {"a": 1, "b": 2}
    assert world.saga.steps[1].tries == 2


def test_a_permanent_failure_is_not_tried_again() -> None:
    world = World([Step("a", "a", retry=5)]).start()
    world.fail(world.only(), final=True)
    assert world.status is Status.FAILED


def test_a_timeout_withdraws_what_nobody_has_begun() -> None:
    world = World([A, Step("b", "b", timeout=5)]).start()
    world.succeed(world.only())
    world.tick()
    assert (world.now, "timed_out" in world.notes) == (5_000_000, True)
    assert [letter.undo for letter in world.letters.values()] == [True]
    world.run()
    assert world.status is Status.COMPENSATED


def test_a_late_success_is_undone_and_the_saga_waits_for_it() -> None:
    world = World([A, Step("b", "b", undo="unb", timeout=5)]).start()
    world.succeed(world.only())
    late = world.only()
    late.held = True
    world.tick()
    assert (world.status, world.only()) == (Status.COMPENSATING, late)  # Nothing is undone while someone works on b.
    world.succeed(late)
    world.run()
    assert world.ledger == [("do", 0), ("do", 1), ("undo", 1), ("undo", 0)]
    assert world.status is Status.COMPENSATED


def test_a_late_failure_lets_the_saga_end() -> None:
    world = World([Step("b", "b", undo="unb", timeout=5)]).start()
    late = world.only()
    late.held = True
    world.tick()
    assert world.status is Status.COMPENSATING
    world.fail(late)
    assert world.status is Status.FAILED


def tried_twice(*following: Step) -> tuple[World, Letter, Letter]:
    """A step whose first message someone still holds after its timeout, and its second."""
    world = World([Step("b", "b", undo="unb", timeout=5, retry=1), *following]).start()
    first = world.only()
    first.held = True
    world.tick()
    [second] = [letter for letter in world.letters.values() if letter is not first]
    return world, first, second


def test_the_failure_of_an_older_try_does_not_count() -> None:
    world, first, second = tried_twice()
    world.fail(first)
    assert world.states() == ["running"]
    world.succeed(second)
    assert world.status is Status.COMPLETED


def test_what_was_done_once_more_while_it_was_undone_is_undone_once_more() -> None:
    world, first, second = tried_twice(C)
    world.fail(first)
    world.succeed(second)
    world.fail(world.only())
    undo = world.only()
    world.replay(0)
    world.succeed(undo)
    assert (world.status, world.only().undo_round) == (Status.COMPENSATING, 2)
    world.run()
    assert world.ledger == [("do", 0), ("do", 0), ("undo", 0), ("undo", 0)]
    assert world.status is Status.COMPENSATED


@pytest.mark.parametrize("has_receipt", [False, True])
def test_what_was_done_once_more_after_it_was_undone_is_undone_once_more(has_receipt: bool) -> None:
    world, first, second = tried_twice(C)
    world.fail(first)
    world.succeed(second)
    world.fail(world.only())
    world.succeed(world.only())
    world.replay(0, has_receipt=has_receipt)
    assert world.status is (Status.COMPENSATED if has_receipt else Status.COMPENSATING)
    world.run()
    assert world.ledger == [("do", 0), ("undo", 0)] * (1 if has_receipt else 2)
    assert not world.standing


def test_what_an_operator_has_left_done_is_never_called_compensated() -> None:
    world, first, second = tried_twice(C)
    world.fail(first)
    world.succeed(second)
    world.fail(world.only())
    world.apply(SkipStep(0, "it stays"))
    world.replay(0)
    world.run()
    assert world.status is Status.FAILED


def test_an_undo_that_cannot_succeed_stops_everything_and_is_told() -> None:
    world = World([A, B, C]).start()
    world.succeed(world.only())
    world.succeed(world.only())
    world.fail(world.only())
    world.fail(world.only(), "the airline is gone")
    assert world.status is Status.COMPENSATION_FAILED
    assert world.told == ["b could not be undone: the airline is gone"]
    assert not world.letters
    assert world.states() == ["completed", "failed", "failed"]


@pytest.mark.parametrize(
    ("act", "state", "status"),
    [
        (RetryStep(1), "compensated", Status.COMPENSATED),
        (MarkDone(1), "compensated", Status.COMPENSATED),
        (SkipStep(1, "paid by us"), "skipped", Status.FAILED),
    ],
)
def test_an_operator_resumes_a_failed_compensation(act: Any, state: str, status: Status) -> None:
    world = World([A, B, C]).start()
    world.succeed(world.only())
    world.succeed(world.only())
    world.fail(world.only())
    world.fail(world.only())
    assert world.apply(act).accepted
    assert world.status is Status.COMPENSATING
    world.run()
    assert (world.states()[1], world.status) == (state, status)
    assert world.states()[0] == "compensated"


def test_a_replayed_undo_resumes_it_too() -> None:
    world = World([A, B]).start()
    world.succeed(world.only())
    world.fail(world.only())
    world.fail(world.only())
    world.apply(MessageEnded(0, True, "a replay", True))
    assert world.status is Status.COMPENSATED


def test_where_it_stops_instead_an_operator_goes_on_forwards() -> None:
    world = World([A, B, C], on_failure="stop").start()
    world.succeed(world.only(), 1)
    world.fail(world.only())
    assert (world.status, world.told) == (Status.FAILED, ["b: no"])
    assert not world.apply(RetryStep(0)).accepted
    assert world.apply(RetryStep(1)).accepted
    assert (world.saga.data, world.saga.error) == ({"a": 1}, None)
    world.run()
    assert world.status is Status.COMPLETED


def test_cancel_is_compensation() -> None:
    world = World([A, B, C]).start()
    world.succeed(world.only())
    assert world.apply(CancelSaga("nobody travels")).accepted
    world.run()
    assert (world.status, world.ledger) == (Status.CANCELED, [("do", 0), ("undo", 0)])
    assert not world.apply(CancelSaga()).accepted


def test_a_saga_that_waits_to_begin_can_be_cancelled() -> None:
    world = World([A])
    world.apply(Begin(delay=10))
    world.apply(Tick())
    assert world.status is Status.PENDING
    world.apply(CancelSaga())
    assert (world.status, world.ledger) == (Status.CANCELED, [])


def test_steps_side_by_side_end_before_the_next_begins() -> None:
    world = World([A, [B, C], Step("d", "d")]).start()
    world.succeed(world.only())
    b, c = world.letters.values()
    world.succeed(c, 3)
    assert world.states() == ["completed", "running", "completed", "pending"]
    world.succeed(b, 2)
    world.fail(world.only())
    assert world.only().step == 1  # The last completed comes first.
    world.run()
    assert world.ledger[-3:] == [("undo", 1), ("undo", 2), ("undo", 0)]


def test_a_condition_skips_a_step() -> None:
    steps = [A, Step("b", "b", when=lambda data: (data.amount > 10) & ~(data.a.free == True))]  # noqa: E712
    for amount, free, states in ((5, False, "skipped"), (20, True, "skipped"), (20, False, "completed")):
        world = World(steps, data={"amount": amount}).start()
        world.succeed(world.only(), {"free": free})
        world.run()
        assert (world.states(), "skipped" in world.notes) == (["completed", states], states == "skipped")


def test_a_signal_ends_a_wait_also_if_it_came_before() -> None:
    for early in (True, False):
        world = World([A, Wait("paid", signal="payment")]).start()
        if early:
            world.apply(Signal("payment", 7))
        world.succeed(world.only())
        if not early:
            assert world.states() == ["completed", "running"]
            assert not world.apply(Signal("other")).accepted
            world.apply(Signal("payment", 7))
        assert (world.status, world.saga.data["paid"]) == (Status.COMPLETED, 7)


def test_a_signal_that_no_step_needs_is_refused() -> None:
    world = World([A, Wait("one", signal="go"), Wait("two", signal="go")]).start()
    assert [world.apply(Signal("go", n)).accepted for n in range(4)] == [True, True, False, False]
    world.run()
    assert world.saga.data == {"a": None, "one": 0, "two": 1}
    assert (world.status, world.saga.signals) == (Status.COMPLETED, {"go": []})


def test_a_success_that_nobody_needs_any_more_is_a_line() -> None:
    world = World([A]).start()
    slow = world.only()
    slow.held = True
    world.apply(SkipStep(0, "we walk"))
    world.succeed(slow)
    assert (world.status, world.notes[-1]) == (Status.COMPLETED, "not_needed")


def test_a_signal_that_does_not_come_is_a_failure() -> None:
    world = World([A, Wait("paid", signal="payment", timeout=60)]).start()
    world.succeed(world.only())
    world.tick()
    assert world.only().undo


def test_waiting_for_a_time() -> None:
    world = World([Wait("an hour", delay=3600), Wait("then", until=lambda data: data.at)], data={"at": 7200}).start()
    world.tick()
    assert (world.now, world.states()) == (3_600_000_000, ["completed", "running"])
    world.tick()
    assert (world.now, world.status) == (7_200_000_000, Status.COMPLETED)


@pytest.mark.parametrize("at", [None, "tomorrow", "2030-01-01T00:00:00", True, [], {}])
def test_a_time_that_is_none_is_a_failure(at: Any) -> None:
    assert World([Wait("then", until=lambda data: data.at)], data={"at": at}).start().status is Status.FAILED


@pytest.mark.parametrize(
    ("at", "due"),
    [
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:01.5Z", 1_500_000),
        (1.5, 1_500_000),
        (-5, 0),
        (1e300, 10**18),
        (10**18, 10**18),
    ],
)
def test_a_time_is_a_number_or_a_text(at: Any, due: int) -> None:
    world = World([Wait("then", until=lambda data: data.at)], data={"at": at}).start()
    assert world.saga.steps[0].due == due


@pytest.mark.parametrize("step", [Wait("then", until=lambda data: data.at), Wait("then", signal="s", timeout=1)])
def test_a_wait_that_failed_can_be_tried_again(step: Wait) -> None:
    world = World([step], on_failure="stop", data={"at": None}).start()
    world.tick()
    assert world.status is Status.FAILED
    world.saga.data["at"] = 5
    world.apply(RetryStep(0))
    assert (world.status, world.states(), world.letters) == (Status.IN_PROGRESS, ["running"], {})


def test_expressions_say_what_picking_cannot() -> None:
    step = Step(
        "a",
        "a",
        input={"total": Expression("data.price * 2"), "names": [Expression('coalesce(data.name, "you")')]},
        when=Expression("data.price > 1 && !('x' in data)"),
    )
    world = World([step, Step("b", "b", input=Expression("steps.a.id"))], data={"price": 2}).start()
    assert body_of(world.spec, world.saga, 0, undo=False) == {"total": 4, "names": ["you"]}
    world.succeed(world.only(), {"id": 7})
    assert body_of(world.spec, world.saga, 1, undo=False) == 7
    assert World([step, B], data={"price": 1}).start().states() == ["skipped", "running"]


def test_expressions_are_stored_as_their_canonical_text() -> None:
    spec = saga_spec([Step("a", "a", input=Expression("(data.a)+ 1"), when=lambda data: data.x == 1)], "stop", None)
    stored = msgspec.json.decode(msgspec.json.encode(spec), type=type(spec))
    assert stored == spec
    assert stored.steps[0].input == {"expression": "data.a + 1"}


@pytest.mark.parametrize("bad", ["data.a +", "", "price + 1", "size()", 7, None, "data.a" * 1000])
def test_what_is_no_expression_is_refused_when_it_is_written(bad: Any) -> None:
    with pytest.raises(InvalidInput):
        Expression(bad)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["when", "until"]), EXPRESSIONS, JSON)
def test_whatever_an_expression_comes_to_the_saga_goes_on(where: str, node: Any, data: Any) -> None:
    world = World([A if where == "when" else Wait("a", until=0), B], data={"x": data})
    stored = msgspec.structs.replace(world.spec.steps[0], **{where: {"expression": to_text(node)}})
    world.spec = msgspec.structs.replace(world.spec, steps=(stored, world.spec.steps[1]))
    world.start()
    world.run()
    assert world.saga.has_ended


@pytest.mark.parametrize(
    ("target", "queue"),
    [
        ("Card.Charge", "holdfast.commands.Card.Charge"),
        ("holdfast.commands.card.charge", "holdfast.commands.card.charge"),
        ("cards.charge", "cards.charge"),
        ("Card.charge", "Card.charge"),
        ("A.B.C", "A.B.C"),
        ("Cards", "Cards"),
    ],
)
def test_a_capital_letter_tells_a_command_from_a_queue(target: str, queue: str) -> None:
    assert Step("a", target).queue == Step("a", "a", undo=target).undo == queue


@pytest.mark.parametrize(
    "bad",
    [
        lambda data: data.a + 1,
        lambda data: f"{data.a}" if data.a else 1,
        lambda data: list(data.a),
        lambda data: data.a and data.b,
        lambda data: open(data.a),  # noqa: SIM115
    ],
)
def test_a_function_may_only_pick_and_compare(bad: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^input"):
        Step("a", "a", input=bad)


def test_what_is_not_there_is_none() -> None:
    spec = saga_spec(
        [Step("a", "a", input=lambda data: {"x": data.no.way["at"], "y": [data.list[1], 2]})], "stop", None
    )
    world = World([A], data={"list": [1, 5]})
    assert body_of(spec, world.saga, 0, undo=False) == {"x": None, "y": [5, 2]}


def test_a_reference_is_read_as_it_was_written() -> None:
    assert Reference.read(str(Reference(7, 2, True, 3))) == Reference(7, 2, True, 3)


# --- whatever happens -------------------------------------------------------------------------------------------------


@st.composite
def definitions(draw: st.DrawFn) -> list[Any]:
    stages: list[Any] = []
    for stage in range(draw(st.integers(1, 4))):
        beside = []
        for place in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
            name = f"s{stage}{place}"
            if draw(st.integers(0, 7)) == 0:
                beside.append(Wait(name, signal="go", timeout=draw(st.sampled_from([None, 3]))))
                continue
            beside.append(
                Step(
                    name,
                    name,
                    undo=draw(st.sampled_from(["u", "u", "u", None])),
                    timeout=draw(st.sampled_from([None, 2])),
                    retry=draw(st.integers(0, 2)),
                    when=draw(st.sampled_from([None, None, False])),
                )
            )
        stages.append(beside if len(beside) > 1 else beside[0])
    return stages


def do_something(world: World, choice: int, which: int) -> None:
    letters = list(world.letters.values())
    letter = letters[which % len(letters)] if letters else None
    step = which % len(world.spec.steps)
    if letter and choice < 5:
        world.succeed(letter, which, has_receipt=which % 2 == 0)
    elif letter and choice < 7:
        world.fail(letter, final=choice == 6)
    elif letter and choice == 7:
        letter.held = True
    elif choice == 8:
        world.tick()
    elif choice == 9:
        world.apply(Signal("go", which))
    elif choice == 10:
        world.apply(CancelSaga())
    elif choice == 11:
        world.apply([RetryStep(step), SkipStep(step, "why"), MarkDone(step, 1)][which % 3])
    elif letter and choice == 12 and not letter.undo:
        world.lapse(letter, done=which % 2 == 0)


def resolve(world: World) -> None:
    """An operator retries what failed until nothing has."""
    for _ in range(100):
        world.run()
        world.apply(Signal("go"))
        stuck = [n for n, one in enumerate(world.saga.steps) if one.state is StepState.FAILED]
        if not any(world.apply(RetryStep(n)).accepted for n in stuck) and not world.letters and world.saga.has_ended:
            return
    raise AssertionError("an operator cannot resolve it")


@settings(max_examples=300, deadline=None)
@given(
    definitions(),
    st.sampled_from(["compensate", "compensate", "stop"]),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 20)), max_size=40),
)
@example([A, Step("b", "b", when=False)], "compensate", [(7, 0), (11, 16)])  # Skipped while someone is at it.
def test_it_ends_with_all_done_or_all_undone(steps: list[Any], on_failure: str, doings: list[tuple[int, int]]) -> None:
    """I21: what ran is a prefix, what is undone its exact reverse, each once effective."""
    world = World(steps, on_failure).start()
    for choice, which in doings:
        ended = world.status if world.saga.status in (Status.COMPENSATED, Status.CANCELED, Status.COMPLETED) else None
        do_something(world, choice, which)
        if ended:
            assert world.status is ended, "an end is an end"
    resolve(world)
    assert world.status in (Status.COMPLETED, Status.COMPENSATED, Status.CANCELED, Status.FAILED)
    if "marked_done" in world.notes:
        return  # Nobody knows what was done by hand.
    for number, (spec, step) in enumerate(zip(world.spec.steps, world.saga.steps, strict=True)):
        is_undone = step.state is StepState.COMPENSATED and not step.stays
        if is_undone or (world.status in (Status.COMPENSATED, Status.CANCELED) and spec.undo):
            assert number not in world.standing, f"{spec.name} is still done"
        was_begun = (
            step.state is StepState.SKIPPED and step.tries
        )  # Someone skipped it, and it may be done all the same.
        if world.status is Status.COMPLETED and spec.queue and not was_begun:
            assert (number in world.standing) == (step.state is StepState.COMPLETED), "done once, or skipped"


@settings(max_examples=100, deadline=None)
@given(definitions(), st.lists(st.tuples(st.integers(0, 12), st.integers(0, 20)), max_size=40))
def test_time_alone_changes_nothing_that_has_ended(steps: list[Any], doings: list[tuple[int, int]]) -> None:
    world = World(steps).start()
    for choice, which in doings:
        do_something(world, choice, which)
    if world.saga.has_ended:
        before = world.states(), world.status
        world.now += 10**12
        world.apply(Tick())
        assert (world.states(), world.status) == before
