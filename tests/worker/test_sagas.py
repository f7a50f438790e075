"""Sagas where consumers run: handlers are the steps, and maintenance looks after their time."""

import threading
from typing import Any

import pytest

from holdfast import Cancel, Holdfast, SagaStatus, Step, Wait
from holdfast.events import HandlerStopped
from holdfast.worker import lease_renewal
from tests.waiting import eventually, until_interrupted
from tests.worker import cells

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]


def ended(hf: Holdfast, saga_id: str) -> SagaStatus:
    def is_over() -> bool:
        found = hf.sagas.get(saga_id)
        return found is not None and found.ended_at_us is not None

    eventually(is_over, f"{saga_id} has ended")
    found = hf.sagas.get(saga_id)
    assert found is not None
    return found


def test_handlers_are_the_steps(hf: Holdfast) -> None:
    hf.saga("sum", steps=[Step("one", "add", input=1), Step("two", "add", input=lambda data: data.one)])
    keys: list[str | None] = []

    @hf.consumer("add")
    def add(message: Any, context: Any) -> int:
        keys.append(context.step_key)
        return int(message.body) + 1

    with hf.running():
        hf.start_saga("sum", id="s")
        saga = ended(hf, "s")
    assert (saga.status, saga.data) == ("completed", {"one": 2, "two": 3})
    assert keys == ["s/1/one/do", "s/1/two/do"]


def test_a_handler_that_cancels_its_message_has_failed_for_good(hf: Holdfast) -> None:
    undone: list[str | None] = []
    tried: list[str] = []
    hf.saga("s", steps=[Step("a", "work", undo="undo"), Step("b", "never", retry=5)])

    @hf.consumer("work", name="work")
    def work(message: Any) -> None:
        pass

    @hf.consumer("never", name="never")
    def never(message: Any) -> None:
        tried.append(message.id)
        raise Cancel("nobody wants it")

    @hf.consumer("undo", name="undo")
    def undo(message: Any, context: Any) -> None:
        undone.append(context.step_key)

    with hf.running():
        hf.start_saga("s", id="s")
        assert ended(hf, "s").status == "compensated"
    assert (undone, len(tried)) == (["s/1/a/undo"], 1)


def test_maintenance_looks_after_timeouts_and_waits(hf: Holdfast) -> None:
    hf.saga("s", steps=[Wait("a moment", delay=0.05), Step("nobody's", "nobody", timeout=0.05)])

    @hf.consumer("other")
    def other(message: Any) -> None:
        pass

    with hf.running():
        hf.start_saga("s", id="s")
        saga = ended(hf, "s")
    assert (saga.status, saga.error) == ("failed", "nobody's: timed out after 0.05 s")
    assert saga.steps[0].status == "completed"


def test_a_message_of_no_saga_has_no_step_key(hf: Holdfast) -> None:
    seen: list[str | None] = []

    @hf.consumer("q")
    def look(message: Any, context: Any) -> None:
        seen.append(context.step_key)

    with hf.running():
        hf.enqueue("q", 1)
        eventually(lambda: bool(seen), "it was seen")
    assert seen == [None]


def counted_rounds(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Return a semaphore that is released after each round of the watch over handlers."""
    rounds = threading.Semaphore(0)
    look = lease_renewal.HandlerWatch.round

    def counted(watch: lease_renewal.HandlerWatch, now: float) -> float | None:
        shortest = look(watch, now)
        rounds.release()
        return shortest

    monkeypatch.setattr(lease_renewal.HandlerWatch, "round", counted)
    return rounds


@pytest.mark.parametrize("how", ["returns", "raises", "is interrupted"])
def test_the_handler_of_a_step_is_told_to_stop_and_nothing_is_undone_before_it_has(
    hf: Holdfast, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_renewal, "STUBBORN", 0.0)  # Nevertheless it has until the end of its lease.
    rounds = counted_rounds(monkeypatch)
    hf.queue("b", lease=60)
    hf.saga("s", steps=[Step("a", "a", undo="un"), Step("b", "b", undo="un")])
    begun, may_end, told = threading.Event(), threading.Event(), threading.Event()
    undone: list[str | None] = []
    reasons: list[str] = []

    @hf.consumer("a", name="a")
    def a(message: Any) -> None:
        pass

    @hf.consumer("b", name="b")
    def b(message: Any, context: Any) -> str:
        begun.set()
        try:
            until_interrupted()
        except BaseException:
            if how == "is interrupted":
                raise
        assert context.cancelled
        told.set()
        assert may_end.wait(60)
        if how == "raises":
            raise RuntimeError("rolled back")
        return "done"

    @hf.consumer("un", name="un")
    def un(message: Any, context: Any) -> None:
        undone.append(context.step_key)

    hf.on(HandlerStopped, lambda event: reasons.append(event.reason))
    with hf.running() as runner:
        hf.start_saga("s", id="s")
        assert begun.wait(60)
        hf.sagas.cancel("s")
        for worker in runner.workers:
            for held in worker.ledger.held():
                held.renewed -= 30  # The next renewal is due, which learns of it.
        if how != "is interrupted":
            assert told.wait(60)
            while rounds.acquire(blocking=False):
                pass
            assert all(rounds.acquire(timeout=60) for _ in range(3))
            assert undone == []
            may_end.set()
        saga = ended(hf, "s")
    b_is_undone = [] if how == "raises" else ["s/1/b/undo"]
    assert (saga.status, undone) == ("canceled", [*b_is_undone, "s/1/a/undo"])
    assert any("does not need this step any more" in reason for reason in reasons)
    assert saga.steps[1].status == ("failed" if how == "raises" else "compensated")


def test_a_step_whose_process_crashed_may_have_been_done(hf: Holdfast) -> None:
    hf.queue("b", max_attempts=1)
    hf.saga("s", steps=[Step("b", "b", undo="un", input="exit")])
    undone: list[str | None] = []
    hf.consumer("b", name="b", isolation="process")(cells.poison)

    @hf.consumer("un", name="un")
    def un(message: Any, context: Any) -> None:
        undone.append(context.step_key)

    with hf.running():
        hf.start_saga("s", id="s")
        saga = ended(hf, "s")
    assert (saga.status, undone) == ("compensated", ["s/1/b/undo"])
    assert "outcome_unknown" in [line.what for line in saga.timeline]
