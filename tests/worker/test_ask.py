"""`context.reply()`: answers that arrive with the ack, from handlers of every kind."""

from typing import Any

import pytest

from holdfast import Holdfast, NoAnswer, RequestDied, State
from holdfast.client.client import internals
from holdfast.replies.rules import REPLIES
from tests.waiting import eventually
from tests.worker import cells
from tests.worker.steps import ended, let_time_pass

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]


@pytest.fixture(params=["def", "async def", "process"])
def answering(request: pytest.FixtureRequest, hf: Holdfast) -> Holdfast:
    """A client with a consumer of `q` that answers as it is asked to."""
    handler: Any = cells.await_reply if request.param == "async def" else cells.reply
    options = {"isolation": "process"} if request.param == "process" else {}
    hf.queue("q", max_attempts=3, backoff=None)
    hf.consumer("q", **options)(handler)
    return hf


def result_of(hf: Holdfast, body: Any) -> Any:
    """What became of the only request with this body."""
    sent = next(one for one in everything(hf) if one.message.body == body)
    assert ended(hf, sent.id) is State.SUCCEEDED
    return hf.status(sent.id).result  # type: ignore[union-attr]


def everything(hf: Holdfast) -> list[Any]:
    return hf.messages.search("q", headers={"test": 1}, n=100)


def ask(hf: Holdfast, *body: Any, timeout: float = 30) -> Any:
    return hf.ask("q", list(body), timeout=timeout, headers={"test": 1})


def test_a_handler_answers(answering: Holdfast) -> None:
    with answering.running():
        assert ask(answering, "echo", 1, None, "ä") == {"echo": [1, None, "ä"]}


def test_an_attempt_that_fails_has_not_answered(answering: Holdfast) -> None:
    with answering.running():
        assert ask(answering, "fail first") == {"attempt": 3}


def test_a_message_is_answered_once(answering: Holdfast) -> None:
    with answering.running():
        assert ask(answering, "twice") == "once"
        assert "answered once" in result_of(answering, ["twice"])


def test_what_cannot_be_sent_is_no_answer(answering: Holdfast) -> None:
    with answering.running():
        assert ask(answering, "badly") == "then well"
        body, headers = result_of(answering, ["badly"])
    assert "body" in body
    assert "headers" in headers


def test_who_returns_without_an_answer_has_not_answered(answering: Holdfast) -> None:
    with answering.running():
        with pytest.raises(NoAnswer):
            ask(answering, "not", timeout=2)
        assert result_of(answering, ["not"]) == "a result is no answer"


def test_what_was_not_asked_is_not_answered(answering: Holdfast) -> None:
    sent = answering.enqueue("q", ["unasked"])
    with answering.running():
        assert ended(answering, sent.id) is State.SUCCEEDED
    assert "has no reply_to" in answering.status(sent.id).result  # type: ignore[union-attr]


def test_an_answer_goes_wherever_reply_to_says(answering: Holdfast) -> None:
    sent = answering.enqueue("q", ["echo", 1], reply_to="answers", correlation_id="mine")
    with answering.running():
        [claim] = answering.claim("answers", wait=30)
    assert claim.message.body == {"echo": [1]}
    assert (claim.message.correlation_id, claim.message.headers) == ("mine", {"by": sent.id})


def test_a_handler_that_gives_up_is_heard_of(answering: Holdfast) -> None:
    with answering.running(), pytest.raises(RequestDied, match=r"dead letter now: TypeError: "):
        answering.ask("q", 5)  # Not a list: the handler breaks, three times.


def test_handlers_may_ask(hf: Holdfast) -> None:
    """Of another consumer in the same process, through the same client."""

    @hf.consumer("sums", concurrency=4)
    def add(message: Any, context: Any) -> None:
        context.reply(sum(hf.ask("squares", number) for number in message.body))

    @hf.consumer("squares", concurrency=2)
    def square(message: Any, context: Any) -> None:
        context.reply(message.body**2)

    with hf.running():
        assert hf.ask("sums", [1, 2, 3], timeout=30) == 14


def test_a_handler_that_is_stopped_while_it_asks_lets_others_listen(hf: Holdfast) -> None:
    """Its timeout interrupts it in the middle of `ask`, when it was the one who listened."""
    hf.queue("stuck", max_attempts=1)

    @hf.consumer("stuck", timeout=3600)
    def stuck(message: Any) -> None:
        hf.ask("nobody", 1, timeout=60)

    @hf.consumer("echo")
    def echo(message: Any, context: Any) -> None:
        context.reply(message.body)

    with hf.running() as runner:
        sent = hf.enqueue("stuck", 1)
        eventually(lambda: internals(hf).desk._listener, "the stuck one listens")
        assert hf.ask("echo", "hello", timeout=30) == "hello"
        let_time_pass(runner)
        assert ended(hf, sent.id) is State.DEAD
        assert hf.ask("echo", "again", timeout=30) == "again"
    assert internals(hf).desk._waiting == {}
    assert internals(hf).desk._listener is None


def test_the_leader_forgets_reply_queues(hf: Holdfast) -> None:
    """Not those of today."""
    from holdfast.worker.maintenance.duties import DUTIES, replies

    assert replies in DUTIES
    with pytest.raises(NoAnswer):
        hf.ask("q", 1, timeout=0.01)
    assert replies.turn(hf) == 0
    assert internals(hf).store.channels.find("default", internals(hf).desk.name) is not None
    assert internals(hf).desk.name.startswith(REPLIES)
