"""What went wrong is told in one sentence wherever it is told; the traceback stands beside it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import Holdfast, Notice, RequestDied, SagaStatus, Step
from holdfast.testing import FakeClock
from tests.steps import claim_one

pytestmark = pytest.mark.of_queues

SENTENCE = "RuntimeError: guard rejected"


def guarded() -> None:
    raise RuntimeError("guard rejected")


@pytest.fixture
def problem() -> BaseException:
    with pytest.raises(RuntimeError) as caught:
        guarded()
    return caught.value


def assert_apart(error: str | None, traceback: str | None, sentence: str = SENTENCE) -> None:
    assert error == sentence
    assert traceback is not None
    assert traceback.startswith("Traceback (most recent call last):")
    assert "in guarded" in traceback
    assert traceback.endswith(SENTENCE)


@pytest.mark.parametrize("delay", [0, 1], ids=["lane", "row"])
def test_a_message_that_failed(hf: Holdfast, clock: FakeClock, problem: BaseException, delay: int) -> None:
    hf.queue("q", max_attempts=2, backoff=0)
    sent = hf.enqueue("q", 1, delay=delay)
    clock.advance(1)
    claim_one(hf).nack(problem)
    status = hf.status(sent.id)
    assert status is not None
    assert_apart(status.history[0].error, status.history[0].traceback)
    claim_one(hf).nack("too late")
    [letter] = hf.dead_letters.list()
    assert (letter.error, letter.traceback) == ("too late", None), "the first attempt's is in the history"
    assert_apart(letter.history[0].error, letter.history[0].traceback)


def test_a_dead_letter_and_its_notice(hf: Holdfast, problem: BaseException) -> None:
    hf.owner("mia")
    hf.queue("q", owner="mia", dead_letter="graves")
    hf.enqueue("q", 1)
    claim_one(hf).nack(problem, permanent=True)
    [letter] = hf.dead_letters.list()
    assert_apart(letter.error, letter.traceback)
    [found] = hf.dead_letters.list(error="guard rejected")
    assert found.id == letter.id
    [notice] = hf.notices.list()
    assert_apart(notice.error, notice.traceback)
    body = claim_one(hf, "mia.inbox").message.body
    assert_apart(body["error"], body["traceback"])
    assert claim_one(hf, "graves").message.body["error"] == SENTENCE


def test_a_callback_is_told_the_same(hf: Holdfast, problem: BaseException) -> None:
    told: list[Notice] = []
    hf.on_notice(told.extend)
    hf.enqueue("q", 1)
    claim_one(hf).nack(problem, permanent=True)
    hf.maintain()
    [notice] = told
    assert_apart(notice.error, notice.traceback)


def test_a_long_sentence_keeps_its_beginning(hf: Holdfast) -> None:
    hf.enqueue("q", 1)
    claim_one(hf).nack(RuntimeError("guard rejected " + "x" * 20_000 + " at last"), permanent=True)
    [letter], [notice] = hf.dead_letters.list(), hf.notices.list()
    for error in (letter.error, letter.history[0].error, notice.error):
        assert error.startswith(SENTENCE)
        assert error.endswith("at last")


def test_a_saga_and_its_step(hf: Holdfast, problem: BaseException) -> None:
    hf.queue("charge", max_attempts=2, backoff=0)
    hf.saga("order", steps=[Step("charge", "charge")], on_failure="stop", owner="mia")
    hf.start_saga("order", {}, id="s1")
    claim_one(hf, "charge").nack(problem)
    claim_one(hf, "charge").nack(problem)
    found = hf.sagas.get("s1")
    assert isinstance(found, SagaStatus)
    assert_apart(found.error, found.traceback, f"charge: {SENTENCE}")
    [listed] = hf.sagas.list()
    assert_apart(listed.error, listed.traceback, f"charge: {SENTENCE}")
    assert_apart(found.steps[0].error, found.steps[0].traceback)
    failed = [event for event in found.timeline if event.what == "attempt_failed"]
    assert [event.attempt for event in failed] == [1, 2]
    for event in failed:
        assert_apart(event.error, event.traceback)
    [notice] = [one for one in hf.notices.list() if one.kind == "saga"]
    assert_apart(notice.error, notice.traceback, f"charge: {SENTENCE}")


def test_an_undo_that_failed(hf: Holdfast, problem: BaseException) -> None:
    hf.saga("order", steps=[Step("charge", "charge", undo="refund"), Step("ship", "ship")])
    hf.start_saga("order", {}, id="s1")
    claim_one(hf, "charge").ack()
    claim_one(hf, "ship").nack("no truck", permanent=True)
    claim_one(hf, "refund").nack(problem, permanent=True)
    found = hf.sagas.get("s1")
    assert found is not None
    assert_apart(found.error, found.traceback, f"charge could not be undone: {SENTENCE}")
    assert_apart(found.steps[0].error, found.steps[0].traceback)
    assert (found.steps[1].error, found.steps[1].traceback) == ("no truck", None)


def test_whoever_asked_gets_the_sentence(hf: Holdfast, rival: Holdfast) -> None:
    with ThreadPoolExecutor(1) as meanwhile:
        question = meanwhile.submit(hf.ask, "q", 1)
        claim_one(rival, wait=30).nack(RuntimeError("guard rejected\nsee the log"), permanent=True)
        with pytest.raises(RequestDied, match=f"is a dead letter now: {SENTENCE}$"):
            question.result(30)
