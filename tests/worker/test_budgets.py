"""What a message may spend, over all of its attempts."""

from contextlib import suppress

import pytest

from holdfast import Holdfast, Message, State
from holdfast.worker.context import Context
from holdfast.worker.outcomes import GaveUp, Snooze
from tests.worker.steps import Calls, ended

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]


@pytest.mark.parametrize("whose", ["the queue's", "its own"])
def test_who_has_spent_too_much_does_not_begin_again(hf: Holdfast, whose: str) -> None:
    """The first attempt does not end of it, and hands the message back."""
    hf.queue("q", message_budget=10 if whose == "the queue's" else None)
    calls = Calls()

    @hf.consumer("q")
    def handler(message: Message, context: Context) -> None:
        calls.note(context.attempt)
        if len(calls.seen) == 1:
            with suppress(GaveUp):
                context.spend(11)
            raise Snooze(0)

    sent = hf.enqueue("q", 1, budget=10 if whose == "its own" else None)
    with hf.running():
        assert ended(hf, sent.id) is State.DEAD
    assert calls.seen == [1]
    assert hf.dead_letters.list("q")[0].error == "gave up (message_budget): spent 11 of 10"
