"""What is claimed together: hundreds of quick messages, one slow one; and nothing waits long behind a slow one."""

import threading
import time
from collections.abc import Callable

import pytest

from holdfast import Claim, Holdfast, Message, State
from holdfast.events import MessageReleased
from holdfast.worker.context import Context
from tests.waiting import eventually, spend
from tests.worker.steps import PATIENCE, Calls, ended, let_time_pass

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]


@pytest.mark.not_through_sqs("is about the size of runs: what SQS delivers has a lease each, by tens")
def test_quick_handlers_get_runs_of_hundreds(hf: Holdfast) -> None:
    sizes = Calls()

    @hf.consumer("q")
    def handler(message: Message, context: Context) -> None:
        sizes.note(context.claim.lease.size)

    hf.enqueue_many("q", range(6000))
    with hf.running():
        seen = sizes.wait(6000)
    assert seen[0] == 1, "nothing is known yet"
    assert max(seen) >= 100
    assert sum(size >= 100 for size in seen) > 1000


def test_slow_handlers_get_one_at_a_time(hf: Holdfast) -> None:
    sizes = Calls()

    @hf.consumer("q")
    def handler(message: Message, context: Context) -> None:
        sizes.note(context.claim.lease.size)
        spend(0.15)
        assert hf.stats("q").processing == 1

    sent = hf.enqueue_many("q", range(5))
    with hf.running():
        assert {ended(hf, receipt.id) for receipt in sent} == {State.SUCCEEDED}
    assert sizes.seen == [1] * 5


@pytest.mark.not_through_sqs("is about the size of runs: what SQS delivers has a lease each, by tens")
def test_a_slow_one_beside_quick_ones_keeps_nothing_back(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other hands get through what lies ready: there is no reason to hand it back, or to claim one by one.

    The slow one has been at work for an hour. Who is only stopped by a busy machine has half a minute.
    """
    monkeypatch.setattr("holdfast.worker.worker.HOARDED", 30.0)
    sizes, released, slow, finish = Calls(), Calls(), threading.Event(), threading.Event()
    hf.on(MessageReleased, released.note)

    @hf.consumer("q", concurrency=2)
    def handler(message: Message, context: Context) -> None:
        if message.body == "slow":
            slow.set()
            finish.wait(PATIENCE)
        spend(0.001)
        sizes.note(context.claim.lease.size)

    hf.enqueue("q", "slow")
    with hf.running() as runner:
        assert slow.wait(PATIENCE)
        let_time_pass(runner, 3600)
        hf.enqueue_many("q", range(1000))
        seen = sizes.wait(1000)
        finish.set()
    assert released.seen == []
    assert max(seen) >= 5, "even if a millisecond takes twenty here"


def test_what_lies_behind_a_slow_one_is_handed_back_for_others(hf: Holdfast, connect: Callable[..., Holdfast]) -> None:
    other, quick, released, finish = connect(), Calls(), Calls(), threading.Event()
    hf.on(MessageReleased, released.note)

    @hf.consumer("q")
    def handler(message: Message) -> None:
        if message.body == "slow":
            finish.wait(PATIENCE)
        quick.note(message.body)

    hf.enqueue_many("q", range(2000))
    with hf.running() as runner:
        quick.wait(2000)
        [worker] = runner.workers
        eventually(lambda: not worker.ledger.unfinished and not worker.ledger.ended, "all are settled")
        pace = worker._fetching._pace
        pace.mean, pace._ahead = 1e-5, 1000  # They were quick, also on a machine that stopped one of them for a while.
        started = time.monotonic()
        sent = hf.enqueue_many("q", ["slow", *range(30)])
        released.wait(30)
        assert time.monotonic() - started > 0.5, "they lay ready behind it"
        claims: list[Claim] = []
        eventually(lambda: claims.extend(other.claim("q", n=100)) or len(claims) == 30)
        assert {claim.attempt for claim in claims} == {1}
        other.ack(claims)
        finish.set()
        assert {ended(hf, receipt.id) for receipt in sent} == {State.SUCCEEDED}
    assert len(quick.seen) == 2001
