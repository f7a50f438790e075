"""`max_depth` of a topic: it holds as many messages as it may, whoever publishes, and not one more."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import Holdfast, QueueFull
from tests.clock import FakeClock
from tests.conformance.steps import OpenClient
from tests.conformance.test_conn import commit, of_the_driver, roll_back
from tests.conformance.topics import done, kept, retain, subscribed


def test_full_is_full_until_retention_has_made_room(hf: Holdfast) -> None:
    subscribed(hf, "a", "b", max_depth=3)
    hf.publish_many("t.x", [1, 2, 3])
    with pytest.raises(QueueFull, match=r"'t' holds 3 messages and may hold 3 .* 1 more do not fit"):
        hf.publish("t.y", 4)
    done(hf, "a")
    retain(hf)
    with pytest.raises(QueueFull):
        hf.publish("t", 4)
    hf.ack(hf.claim("t/b", n=2))
    assert retain(hf) == 2
    hf.publish_many("t", [4, 5])
    with pytest.raises(QueueFull):
        hf.publish("t", 6)
    assert kept(hf) == [3, 4, 5]


def test_many_fit_whole_or_not_at_all(hf: Holdfast) -> None:
    subscribed(hf, "a", max_depth=3)
    hf.publish("t", 1, priority=0)
    with pytest.raises(QueueFull, match="so 3 more do not fit"):
        hf.publish_many("t", [2, 3, 4])
    assert kept(hf) == [1]
    hf.publish_many("t", [2, 3])
    assert hf.stats("t/a").pending == 3


def test_it_counts_what_is_there_whoever_reads(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", max_depth=2, retention=60)
    hf.publish_many("t", [1, 2], ttl=1)
    hf.subscribe("t", "a", start="earliest")
    [claim] = hf.claim("t/a")
    claim.nack("no", delay=0)  # A copy of it is no message of the topic.
    with pytest.raises(QueueFull):
        hf.publish("t", 3)
    clock.advance(61)
    retain(hf)
    hf.publish_many("t", [3, 4])
    with pytest.raises(QueueFull):
        hf.publish("t", 5)


def test_a_duplicate_needs_no_room(hf: Holdfast) -> None:
    subscribed(hf, "a", max_depth=1)
    first = hf.publish("t", 1, idempotency_key="once")
    assert hf.publish("t", 1, idempotency_key="once").id == first.id
    with pytest.raises(QueueFull):
        hf.publish("t", 2, idempotency_key="twice")


def test_in_the_callers_transaction(hf: Holdfast, url: str) -> None:
    subscribed(hf, "a", max_depth=2)
    with of_the_driver(url) as conn:
        hf.publish_many("t", [1, 2], conn=conn)
        with pytest.raises(QueueFull):
            hf.publish("t", 3, conn=conn)
        roll_back(conn)
    with of_the_driver(url) as conn:
        hf.publish("t", 1, conn=conn)
        with pytest.raises(QueueFull):
            hf.publish_many("t", [2, 3], conn=conn)
        commit(conn)
    hf.publish("t", 2)
    assert kept(hf) == [1, 2]


def test_a_limit_can_be_set_changed_and_lifted(hf: Holdfast) -> None:
    subscribed(hf, "a")
    hf.publish_many("t", range(5))
    done(hf, "a")
    assert retain(hf) == 5
    hf.publish_many("t", range(3))
    hf.topic("t", max_depth=3)
    with pytest.raises(QueueFull, match="holds 3 messages"):
        hf.publish("t", 3)
    hf.topic("t", max_depth=4)
    hf.publish("t", 3)
    hf.topic("t", max_depth=2)
    with pytest.raises(QueueFull, match="holds 4 messages and may hold 2"):
        hf.publish("t", 4)
    hf.topic("t", max_depth=None)
    hf.publish("t", 4)
    assert kept(hf) == [0, 1, 2, 3, 4]


def test_twenty_publishers_fill_it_exactly(client: OpenClient) -> None:
    """280 messages want in, 101 fit; single ones fill the gaps that batches leave."""
    hf = client(clock=None)
    subscribed(hf, "a", max_depth=101)
    clients = [client(clock=None) for _ in range(4)]
    begin = threading.Barrier(20)

    def publish(number: int) -> int:
        mine, stored = clients[number % 4], 0
        begin.wait(30)
        for turn in range(8):
            try:
                batch = mine.publish_many("t", [0] * (1 + turn % 3)) if turn % 2 else [mine.publish("t", 0)]
                stored += len(batch)
            except QueueFull:
                pass
        return stored

    with ThreadPoolExecutor(20) as threads:
        stored = sum(threads.map(publish, range(20)))
    assert stored == len(kept(hf)) == hf.stats("t/a").pending == 101


def test_publishers_against_retention_never_go_beyond(client: OpenClient) -> None:
    hf = client(clock=None)
    subscribed(hf, "a", max_depth=20)
    rivals, over = [client(clock=None) for _ in range(3)], threading.Event()

    def publish(mine: Holdfast) -> int:
        stored = 0
        while not over.is_set():
            with contextlib.suppress(QueueFull):
                stored += len(mine.publish_many("t", [0] * 3))
        return stored

    with ThreadPoolExecutor(3) as threads:
        running = [threads.submit(publish, mine) for mine in rivals]
        read = 0
        try:
            while read < 200:
                claims = hf.claim("t/a", n=7)
                assert len(kept(hf)) <= 20
                hf.ack(claims)
                read += len(claims)
                retain(hf)
        finally:
            over.set()
        stored = sum(one.result(30) for one in running)
    assert read + hf.stats("t/a").pending == stored
