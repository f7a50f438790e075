"""`max_depth` of a topic: so many messages that a group still needs, whoever publishes, and not one more."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import Holdfast, QueueFull
from tests.client.test_conn import commit, of_the_driver, roll_back
from tests.clock import FakeClock
from tests.steps import OpenClient
from tests.stores import TOPICS
from tests.topics.publishing import die, done, kept, retain, subscribed

pytestmark = pytest.mark.not_through_sqs(TOPICS)


def test_full_is_full_until_every_group_is_done(hf: Holdfast) -> None:
    subscribed(hf, "a", "b", max_depth=3)
    hf.publish_many("t.x", [1, 2, 3])
    with pytest.raises(QueueFull, match=r"'t' has 3 messages that groups still need and may have 3 .* 1 more do not"):
        hf.publish("t.y", 4)
    done(hf, "a")
    with pytest.raises(QueueFull):
        hf.publish("t", 4)
    hf.ack(hf.claim("t/b", n=2))
    hf.publish_many("t", [4, 5])
    with pytest.raises(QueueFull):
        hf.publish("t", 6)
    assert kept(hf) == [1, 2, 3, 4, 5]


def test_messages_that_are_only_retained_take_no_room(hf: Holdfast) -> None:
    hf.topic("t", max_depth=2)
    hf.subscribe("t", "a")
    for number in range(10):
        hf.publish_many("t", [number, number])
        with pytest.raises(QueueFull):
            hf.publish("t", "more")
        done(hf, "a")
    assert len(kept(hf)) == 20


def test_without_a_group_nothing_is_needed(hf: Holdfast) -> None:
    hf.topic("t", max_depth=2)
    hf.publish_many("t", range(5))
    hf.publish_many("t", range(5))
    hf.subscribe("t", "late", start="earliest")
    with pytest.raises(QueueFull, match="has 10 messages"):
        hf.publish("t", "more")
    hf.ack(hf.claim("t/late", n=9))
    hf.publish("t", "more")


def test_a_dead_group_needs_nothing_until_it_is_alive_again(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", max_depth=2)
    hf.subscribe("t", "a", timeout=60)
    hf.publish_many("t", [1, 2])
    with pytest.raises(QueueFull):
        hf.publish("t", 3)
    die(hf, clock)
    hf.publish_many("t", [3, 4, 5])
    hf.groups.heartbeat("t", "a")
    with pytest.raises(QueueFull, match="has 5 messages"):
        hf.publish("t", 6)


def test_a_paused_group_needs_what_it_is_owed(hf: Holdfast) -> None:
    subscribed(hf, "a", "paused", max_depth=2)
    hf.queues.pause("t/paused")
    hf.publish_many("t", [1, 2])
    done(hf, "a")
    with pytest.raises(QueueFull):
        hf.publish("t", 3)
    hf.groups.remove("t", "paused")
    hf.publish("t", 3)


def test_only_what_a_group_wants_counts(hf: Holdfast) -> None:
    hf.topic("t", max_depth=2)
    hf.subscribe("t", "eu", patterns=["t.eu.**"])
    hf.subscribe("t", "new", patterns=["t.*.new"])
    hf.publish_many("t.us.old", range(5))
    hf.publish("t.eu.new", 1)
    hf.publish("t.us.new", 2)
    with pytest.raises(QueueFull, match="has 2 messages"):
        hf.publish("t.eu.old", 3)
    hf.publish_many("t.us.old", range(5))
    hf.ack(hf.claim("t/eu"))
    with pytest.raises(QueueFull, match="has 2 messages"):
        hf.publish("t.eu.old", 3)
    hf.ack(hf.claim("t/new"))
    hf.publish("t.eu.old", 3)
    hf.subscribe("t", "eu", patterns=["t.**"])
    with pytest.raises(QueueFull):
        hf.publish("t.eu.old", 4)


def test_what_is_held_or_tried_again_is_needed_once(hf: Holdfast) -> None:
    subscribed(hf, "a", "b", max_depth=4)
    hf.publish_many("t", range(4))
    ends = [hf.claim("t/a", n=4), hf.claim("t/b", n=4)]
    with pytest.raises(QueueFull, match="has 4 messages"):
        hf.publish("t", "more")
    for claims in ends:
        hf.ack([claims[1], claims[3]])
    with pytest.raises(QueueFull, match="has 2 messages"):
        hf.publish_many("t", range(3))
    ends[0][0].nack("no", delay=60)
    ends[1][0].nack("no", permanent=True)
    with pytest.raises(QueueFull, match="has 2 messages"):
        hf.publish_many("t", range(3))
    hf.ack([ends[0][2], ends[1][2]])
    hf.publish_many("t", range(3))
    with pytest.raises(QueueFull, match="has 4 messages"):
        hf.publish("t", "more")


@pytest.mark.parametrize("ordering", ["per_key", "fifo"])
def test_copies_of_a_group_that_is_fed_are_needed(hf: Holdfast, ordering: str) -> None:
    hf.topic("t", max_depth=3, min_retention=0)
    hf.subscribe("t", "a", ordering=ordering)
    hf.publish_many("t", range(3), key=str)
    [claim] = hf.claim("t/a")
    assert retain(hf) >= 1, "copied into rows, they need no topic"
    with pytest.raises(QueueFull, match="has 3 messages"):
        hf.publish("t", "more", key="k")
    claim.ack()
    hf.publish("t", "more", key="k")
    with pytest.raises(QueueFull, match="has 3 messages"):
        hf.publish("t", "more", key="k")


def test_what_a_group_skips_and_what_has_expired_is_not_needed(hf: Holdfast, clock: FakeClock) -> None:
    subscribed(hf, "a", max_depth=4)
    first, _ = hf.publish_many("t", [1, 2])
    hf.publish_many("t", [3, 4], ttl=10)
    with pytest.raises(QueueFull):
        hf.publish("t", 5)
    hf.groups.skip("t", "a", first.id)
    with pytest.raises(QueueFull, match="has 3 messages"):
        hf.publish_many("t", [5, 6])
    clock.advance(11)
    with pytest.raises(QueueFull, match="has 1 messages"):
        hf.publish_many("t", range(4))
    hf.publish_many("t", range(3))


def test_what_is_to_be_read_again_is_needed_again(hf: Holdfast) -> None:
    hf.topic("t", max_depth=5)
    hf.subscribe("t", "a")
    hf.publish_many("t", range(5), priority="high")
    done(hf, "a")
    hf.publish_many("t", range(3))
    hf.groups.seek("a", "earliest", topic="t")
    with pytest.raises(QueueFull, match="has 8 messages"):
        hf.publish("t", "more")


def test_many_fit_whole_or_not_at_all(hf: Holdfast) -> None:
    subscribed(hf, "a", max_depth=3)
    hf.publish("t", 1, priority=0)
    with pytest.raises(QueueFull, match="so 3 more do not fit"):
        hf.publish_many("t", [2, 3, 4])
    assert kept(hf) == [1]
    hf.publish_many("t", [2, 3])
    assert hf.stats("t/a").pending == 3


def test_what_retention_takes_from_a_group_makes_room(hf: Holdfast, clock: FakeClock) -> None:
    subscribed(hf, "slow", max_depth=2, retention=60)
    hf.publish_many("t", [1, 2])
    clock.advance(61)
    with pytest.raises(QueueFull):
        hf.publish("t", 3)
    assert retain(hf) == 2
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


def test_in_the_callers_transaction_with_patterns(hf: Holdfast, url: str) -> None:
    hf.topic("t", max_depth=1)
    hf.subscribe("t", "eu", patterns=["t.eu.**"])
    hf.publish_many("t.us", range(3))
    with of_the_driver(url) as conn:
        hf.publish("t.eu", 1, conn=conn)
        with pytest.raises(QueueFull, match="has 1 messages"):
            hf.publish("t.eu", 2, conn=conn)
        hf.publish("t.us", 3, conn=conn)
        commit(conn)
    assert hf.stats("t/eu").pending == 1


def test_a_limit_can_be_set_changed_and_lifted(hf: Holdfast) -> None:
    subscribed(hf, "a")
    hf.publish_many("t", range(5))
    done(hf, "a")
    assert retain(hf) == 5
    hf.publish_many("t", range(3))
    hf.topic("t", max_depth=3)
    with pytest.raises(QueueFull, match="has 3 messages"):
        hf.publish("t", 3)
    hf.topic("t", max_depth=4)
    hf.publish("t", 3)
    hf.topic("t", max_depth=2)
    with pytest.raises(QueueFull, match="has 4 messages that groups still need and may have 2"):
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
                assert hf.stats("t/a").pending + len(claims) <= 20
                hf.ack(claims)
                read += len(claims)
                retain(hf)
        finally:
            over.set()
        stored = sum(one.result(30) for one in running)
    assert read + hf.stats("t/a").pending == stored
