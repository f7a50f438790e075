"""What is claimed together: hundreds of quick messages, one slow one; and nothing waits long behind a slow one."""

import threading
import time
from collections.abc import Callable

from holdfast import Claim, Holdfast, Message, State
from holdfast.events import MessageReleased
from holdfast.runtime.context import Context
from tests.runtime.steps import PATIENCE, Calls, ended, until


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
        time.sleep(0.15)
        assert hf.stats("q").processing == 1

    sent = hf.enqueue_many("q", range(5))
    with hf.running():
        assert {ended(hf, receipt.id) for receipt in sent} == {State.SUCCEEDED}
    assert sizes.seen == [1] * 5


def test_a_slow_one_beside_quick_ones_keeps_nothing_back(hf: Holdfast) -> None:
    """Other hands get through what lies ready: there is no reason to hand it back, or to claim one by one."""
    sizes, released, slow, finish = Calls(), Calls(), threading.Event(), threading.Event()
    hf.on(MessageReleased, released.note)

    @hf.consumer("q", concurrency=2)
    def handler(message: Message, context: Context) -> None:
        if message.body == "slow":
            slow.set()
            finish.wait(PATIENCE)
        time.sleep(0.001)
        sizes.note(context.claim.lease.size)

    hf.enqueue("q", "slow")
    with hf.running():
        assert slow.wait(PATIENCE)
        time.sleep(1.1)
        hf.enqueue_many("q", range(1000))
        seen = sizes.wait(1000)
        finish.set()
    assert released.seen == []
    assert max(seen) >= 20


def test_what_lies_behind_a_slow_one_is_handed_back_for_others(hf: Holdfast, connect: Callable[..., Holdfast]) -> None:
    other, quick, released, finish = connect(), Calls(), Calls(), threading.Event()
    hf.on(MessageReleased, released.note)

    @hf.consumer("q")
    def handler(message: Message) -> None:
        if message.body == "slow":
            finish.wait(PATIENCE)
        quick.note(message.body)

    hf.enqueue_many("q", range(2000))
    with hf.running():
        quick.wait(2000)
        started = time.monotonic()
        sent = hf.enqueue_many("q", ["slow", *range(30)])
        released.wait(30)
        assert time.monotonic() - started > 0.5, "they lay ready behind it"
        claims: list[Claim] = []
        until(lambda: claims.extend(other.claim("q", n=100)) or len(claims) == 30)
        assert {claim.attempt for claim in claims} == {1}
        other.ack(claims)
        finish.set()
        assert {ended(hf, receipt.id) for receipt in sent} == {State.SUCCEEDED}
    assert len(quick.seen) == 2001
