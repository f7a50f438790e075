"""Sagas where consumers run: handlers are the steps, and maintenance looks after their time."""

from typing import Any

from holdfast import Cancel, Holdfast, SagaStatus, Step, Wait
from tests.acceptance.children import eventually


def ended(hf: Holdfast, saga_id: str) -> SagaStatus:
    def is_over() -> bool:
        found = hf.saga_status(saga_id)
        return found is not None and found.ended_at_us is not None

    eventually(is_over, f"{saga_id} has ended")
    found = hf.saga_status(saga_id)
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
