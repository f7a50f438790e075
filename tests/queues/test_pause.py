"""Pausing a queue: nothing is handed out, nothing is lost, and everybody knows at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import Holdfast
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, claim_one, drain, sleepers

pytestmark = pytest.mark.of_queues

KINDS = pytest.mark.parametrize("options", [{}, {"delay": 1}], ids=["in a lane", "as a row"])


@KINDS
def test_a_paused_queue_hands_out_nothing(
    hf: Holdfast, rival: Holdfast, clock: FakeClock, options: dict[str, object]
) -> None:
    hf.enqueue_many("q", range(3), **options)
    clock.advance(1)
    rival.queues.peek("q")
    hf.queues.pause("q")
    assert [rival.claim("q", n=10) for _ in range(5)] == [[]] * 5
    assert (rival.queues.is_paused("q"), rival.stats("q").pending) == (True, 3)
    rival.queues.resume("q")
    assert bodies(hf.claim("q", n=10)) == [0, 1, 2]
    assert not hf.queues.is_paused("q")


def test_what_must_be_claimed_alone_waits_too(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue("q", "work")
    hf.claim("q")
    clock.advance(31)
    hf.queues.pause("q")
    assert [hf.claim("q") for _ in range(8)] == [[]] * 8
    hf.queues.resume("q")
    assert bodies(hf.claim("q")) == ["work"]


def test_who_works_already_may_finish(hf: Holdfast) -> None:
    hf.enqueue("q", "work")
    claim = claim_one(hf)
    hf.queues.pause("q")
    claim.extend(60)
    claim.ack()
    assert hf.stats("q").processing == 0


def test_enqueueing_goes_on_and_other_queues_too(hf: Holdfast) -> None:
    hf.queues.pause("q")
    hf.enqueue("q", "later")
    hf.enqueue("p", "now")
    assert bodies(hf.claim("q", "p", n=10)) == ["now"]
    hf.queues.resume("q")
    assert drain(hf) == ["later"]


def test_a_pause_survives_a_new_declaration_and_a_new_client(hf: Holdfast, client: OpenClient) -> None:
    hf.queues.pause("q")
    hf.queue("q", lease=60)
    assert client().queues.is_paused("q")


def test_resume_wakes_sleepers_and_they_sleep_soundly_until_then(client: OpenClient, hf: Holdfast) -> None:
    sleeper = client(clock=None)
    hf.enqueue("q", "row", delay=0.001)
    hf.queues.pause("q")
    asleep = sleepers(sleeper)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(sleeper.claim, "q", wait=60)
        asleep.acquire()
        kept_awake = all(asleep.acquire(timeout=0.1) for _ in range(30))
        hf.queues.resume("q")
        assert bodies(waiting.result(timeout=30)) == ["row"]
    assert not kept_awake  # Some looks are fine: once PostgreSQL can notify it, and for rings from before the pause.


def test_pausing_twice_is_pausing_once(hf: Holdfast) -> None:
    hf.queues.pause("q")
    hf.queues.pause("q")
    hf.queues.resume("q")
    hf.queues.resume("q")
    hf.enqueue("q", "work")
    assert drain(hf) == ["work"]
