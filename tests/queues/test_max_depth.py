"""`max_depth`: as many messages wait as may, however many producers there are, and not one more."""

import subprocess
import sys
from typing import Any

import pytest

from holdfast import Holdfast, QueueFull
from holdfast.errors import InvalidInput
from tests.client.test_conn import commit, of_the_driver
from tests.clock import FakeClock
from tests.steps import OpenClient, claim_one, drain, kill

pytestmark = pytest.mark.of_queues


def test_full_is_full_until_a_message_leaves(hf: Holdfast) -> None:
    hf.queue("q", max_depth=3)
    hf.enqueue_many("q", [1, 2, 3])
    with pytest.raises(QueueFull, match="3 messages waiting and may have 3"):
        hf.enqueue("q", 4)
    hf.ack(hf.claim("q"))
    hf.enqueue("q", 4)
    with pytest.raises(QueueFull):
        hf.enqueue("q", 5)
    assert drain(hf) == [2, 3, 4]


def test_a_batch_fits_whole_or_not_at_all(hf: Holdfast) -> None:
    hf.queue("q", max_depth=3)
    hf.enqueue("q", 1)
    with pytest.raises(QueueFull, match="so 3 more do not fit"):
        hf.enqueue_many("q", [2, 3, 4])
    assert hf.stats("q").pending == 1
    hf.enqueue_many("q", [2, 3])
    assert drain(hf) == [1, 2, 3]


@pytest.mark.parametrize("options", [{"delay": 60}, {"ttl": 60}, {"priority": 0}, {"key": "k"}], ids=str)
def test_whatever_waits_counts(hf: Holdfast, options: dict[str, Any]) -> None:
    hf.queue("q", max_depth=2, ordering="per_key")
    hf.enqueue("q", 1, **options)
    hf.enqueue("q", 2)
    with pytest.raises(QueueFull):
        hf.enqueue("q", 3, **options)


def test_what_comes_back_always_fits_and_counts(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_depth=2, backoff=[1], max_attempts=9)
    hf.enqueue_many("q", [1, 2])
    claims = hf.claim("q", n=2)
    hf.enqueue_many("q", [3, 4])
    claims[0].nack("again")
    claims[1].release()
    assert hf.stats("q").pending + hf.stats("q").waiting == 4
    for _ in range(3):
        with pytest.raises(QueueFull, match="4 messages waiting"):
            hf.enqueue("q", 5)
        [claim] = hf.claim("q")
        claim.snooze(1)
    assert sorted(_all(hf, clock)) == [1, 2, 3, 4]


def test_a_lapsed_run_comes_back_and_counts(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_depth=2)
    hf.enqueue_many("q", [1, 2])
    assert len(hf.claim("q", n=2)) == 2
    hf.enqueue("q", 3)
    clock.advance(31)
    hf.queues.sweep("q")
    with pytest.raises(QueueFull, match="3 messages waiting"):
        hf.enqueue("q", 4)


def test_a_replay_and_a_notice_always_fit_and_count(hf: Holdfast) -> None:
    hf.queue("q", dead_letter="graves", max_depth=1)
    hf.queue("graves", max_depth=1)
    dead = [kill(hf, n) for n in (1, 2)]
    assert hf.stats("graves").pending == 2
    with pytest.raises(QueueFull, match="2 messages waiting"):
        hf.enqueue("graves", "flowers")
    for one in dead:
        hf.dead_letters.replay(one)
    assert hf.stats("q").pending == 2
    with pytest.raises(QueueFull):
        hf.enqueue("q", 3)


@pytest.mark.parametrize("way", ["cancel", "purge", "expire"])
def test_whatever_leaves_makes_room(hf: Holdfast, clock: FakeClock, way: str) -> None:
    hf.queue("q", max_depth=2, max_age=10)
    ids = [receipt.id for receipt in hf.enqueue_many("q", [1, 2])]
    if way == "cancel":
        assert all(map(hf.cancel, ids))
    elif way == "purge":
        assert hf.queues.purge("q") == 2
    else:
        clock.advance(10)
        assert hf.queues.sweep("q") == 2
    hf.enqueue_many("q", [3, 4])
    assert drain(hf) == [3, 4]


def test_a_duplicate_needs_no_room(hf: Holdfast) -> None:
    hf.queue("q", max_depth=1)
    first = hf.enqueue("q", "work", idempotency_key="once")
    assert hf.enqueue("q", "work", idempotency_key="once").id == first.id
    with pytest.raises(QueueFull):
        hf.enqueue("q", "more", idempotency_key="other")
    claim_one(hf).ack()
    assert not hf.enqueue("q", "more", idempotency_key="other").duplicate


def test_a_limit_can_be_set_changed_and_lifted(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("q", range(5))
    hf.queue("q", max_depth=6)
    clock.advance(3)
    hf.enqueue("q", 5)
    with pytest.raises(QueueFull):
        hf.enqueue("q", 6)
    hf.queue("q", max_depth=7)
    hf.enqueue("q", 6)
    hf.queue("q", max_depth=2)
    with pytest.raises(QueueFull, match="has 7 messages waiting and may have 2"):
        hf.enqueue("q", 7)
    hf.queue("q", max_depth=None)
    hf.enqueue("q", 7)
    assert drain(hf) == list(range(8))


def test_a_client_that_has_not_heard_of_the_limit_cannot_hide_messages(
    hf: Holdfast, rival: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings are remembered for a second: what arrives unnoticed meanwhile is counted all the same."""
    monkeypatch.setattr("holdfast.client.catalog.FRESH", 3600.0)  # However slow the machine is.
    rival.enqueue("q", 0)
    hf.queue("q", max_depth=3)
    hf.enqueue("q", 1)
    rival.enqueue_many("q", [2, 3, 4])
    with pytest.raises(QueueFull, match="5 messages waiting"):
        hf.enqueue("q", 5)


def test_refused_in_the_callers_transaction_leaves_it_as_it_was(hf: Holdfast, url: str) -> None:
    hf.queue("q", max_depth=1)
    with of_the_driver(url) as conn:
        hf.enqueue("q", 1, conn=conn)
        with pytest.raises(QueueFull):
            hf.enqueue("q", 2, idempotency_key="second", conn=conn)
        commit(conn)
    claim_one(hf).ack()
    assert not hf.enqueue("q", 2, idempotency_key="second").duplicate


def test_an_open_transaction_holds_up_no_consumer(hf: Holdfast, url: str, clock: FakeClock) -> None:
    """Whoever arrives waits for it; a nack and a sweep do not. (On SQLite everyone waits for the one write lock.)"""
    hf.queue("q", max_depth=10, backoff=None, lease=5)
    hf.enqueue_many("q", range(4))
    first, second, *others = hf.claim("q", n=2) + hf.claim("q", n=2)
    if url.startswith("sqlite"):
        return
    with of_the_driver(url) as conn:
        hf.enqueue("q", "not yet", conn=conn)
        first.nack("again")
        second.release()
        clock.advance(200)
        assert hf.queues.sweep("q") > 0
        commit(conn)
    assert hf.stats("q").queue_depth == 5
    assert len(others) == 2


@pytest.mark.parametrize("depth", [0, -1, 1.5, "3", True, 10**13])
def test_a_depth_that_makes_no_sense_is_refused(hf: Holdfast, depth: object) -> None:
    with pytest.raises(InvalidInput, match="max_depth"):
        hf.queue("q", max_depth=depth)  # type: ignore[arg-type]


PRODUCERS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from holdfast import Holdfast, QueueFull

hf = Holdfast(sys.argv[1])

def produce(worker):
    stored = 0
    for turn in range(8):
        try:
            stored += len(hf.enqueue_many("q", [0] * (1 + turn % 3))) if turn % 2 else bool(hf.enqueue("q", 0))
        except QueueFull:
            pass
    return stored

with ThreadPoolExecutor(10) as pool:
    print(sum(pool.map(produce, range(10))))
"""


def test_fifty_producers_in_five_processes_fill_it_exactly(client: OpenClient, url: str) -> None:
    """600 messages want in, 101 fit; single ones fill the gaps that batches leave."""
    hf = client(clock=None)
    hf.queue("q", max_depth=101)
    started = [
        subprocess.Popen([sys.executable, "-c", PRODUCERS, url], stdout=subprocess.PIPE, text=True) for _ in range(5)
    ]
    stored = [int(process.communicate(timeout=120)[0]) for process in started]
    assert [process.returncode for process in started] == [0] * 5
    assert hf.stats("q").pending == sum(stored) == 101


def test_fifty_producers_against_consumers_never_go_beyond(client: OpenClient, url: str) -> None:
    hf = client(clock=None)
    hf.queue("q", max_depth=20)
    started = [
        subprocess.Popen([sys.executable, "-c", PRODUCERS, url], stdout=subprocess.PIPE, text=True) for _ in range(5)
    ]
    taken = 0
    while any(process.poll() is None for process in started):
        claims = hf.claim("q", n=7)
        assert hf.stats("q").pending <= 20
        hf.ack(claims)
        taken += len(claims)
    stored = sum(int(process.communicate()[0]) for process in started)
    assert taken + hf.stats("q").pending == stored


def _all(hf: Holdfast, clock: FakeClock) -> list[Any]:
    clock.advance(60)
    return drain(hf)
