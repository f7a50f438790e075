"""What leaves a topic, and when: at its retention, or when its `min_retention` is over and no live group needs it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import Holdfast
from holdfast.topics.steps import retention
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, inbox
from tests.stores import TOPICS
from tests.topics.publishing import done, kept, retain, retain_once, subscribed, troubles

pytestmark = pytest.mark.not_through_sqs(TOPICS)

HOUR = 3_600
DAY = 86_400


def test_a_topic_keeps_everything_for_its_retention(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", retention="24h")
    hf.subscribe("t", "a")
    hf.publish_many("t", range(10))
    done(hf, "a")
    clock.advance(DAY - 1)
    assert retain(hf) == 0
    hf.subscribe("t", "late", start="earliest")
    claims = hf.claim("t", group="late", n=99)
    assert bodies(claims) == list(range(10))
    hf.ack(claims)
    hf.subscribe("t", "slow", start="earliest")
    hf.publish("t", 10)
    clock.advance(1)
    assert retain(hf) == 10
    assert kept(hf) == [10]
    [error] = troubles(hf, "out_of_range")
    assert "10 messages were removed by the topic's retention before 't/slow' got them" in error


def test_without_a_min_retention_it_follows_the_retention(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", retention=HOUR, min_retention=0)
    hf.subscribe("t", "a")
    hf.publish("t", 1)
    done(hf, "a")
    hf.topic("t", retention=DAY, min_retention=None)
    clock.advance(HOUR)
    assert retain(hf) == 0
    hf.topic("t", retention=HOUR, min_retention=None)
    assert retain(hf) == 1


def test_what_every_group_is_done_with_goes(hf: Holdfast) -> None:
    subscribed(hf, "a", "b")
    hf.publish_many("t", range(4))
    done(hf, "a")
    assert retain(hf) == 0
    hf.ack(hf.claim("t", group="b", n=3))
    assert retain(hf) == 3
    assert kept(hf) == [3]
    assert bodies(hf.claim("t", group="b", n=9)) == [3]


def test_every_priority_is_looked_at(hf: Holdfast) -> None:
    subscribed(hf, "a")
    for priority in range(4):
        hf.publish("t", priority, priority=priority)
    done(hf, "a")
    assert retain(hf) == 4
    assert kept(hf) == []


def test_nothing_goes_before_min_retention(hf: Holdfast, clock: FakeClock) -> None:
    subscribed(hf, "a", min_retention=60)
    hf.publish("t", 1)
    done(hf, "a")
    clock.advance(59)
    assert retain(hf) == 0
    hf.publish("t", 2)
    done(hf, "a")
    clock.advance(1)
    assert retain(hf) == 1
    assert kept(hf) == [2]


def test_a_group_that_has_not_claimed_holds_everything_until_retention(hf: Holdfast, clock: FakeClock) -> None:
    subscribed(hf, "a", "slow")
    hf.publish_many("t", range(3))
    done(hf, "a")
    clock.advance(DAY - 1)
    assert retain(hf) == 0
    done(hf, "slow")
    assert retain(hf) == 3


def test_at_retention_everything_goes_and_who_missed_it_is_told_how_much(hf: Holdfast, clock: FakeClock) -> None:
    hf.owner("mia")
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "a")
    hf.subscribe("t", "slow", owner="mia")
    hf.publish_many("t", range(3))
    done(hf, "a")
    hf.ack(hf.claim("t", group="slow"))
    clock.advance(HOUR)
    hf.publish("t", 3)
    clock.advance(DAY - HOUR)
    assert retain(hf) == 3
    assert kept(hf) == [3]
    [error] = troubles(hf, "out_of_range")
    assert "2 messages" in error
    assert [(body["notice_kind"], body["about"]) for body in inbox(hf)] == [("out_of_range", "t/slow")]
    assert bodies(hf.claim("t", group="slow", n=9)) == [3], "a live group goes on"
    assert retain(hf) == 0


def test_a_loss_adds_up(hf: Holdfast, clock: FakeClock) -> None:
    subscribed(hf, "slow")
    hf.publish_many("t", range(3))
    clock.advance(DAY)
    retain(hf)
    hf.publish_many("t", range(4))
    clock.advance(DAY)
    retain(hf)
    [error] = troubles(hf, "out_of_range")
    assert "7 messages" in error


def test_only_what_a_group_wanted_is_a_loss(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "eu", patterns=["t.eu.**"])
    hf.subscribe("t", "us", patterns=["t.us.**"])
    hf.publish_many("t.eu.created", range(3))
    hf.publish("t.eu.short", 1, ttl=60)
    hf.publish("t.asia", 1)
    clock.advance(DAY)
    assert retain(hf) == 5
    [error] = troubles(hf, "out_of_range")
    assert "3 messages" in error
    assert "t/eu" in error


def test_what_nobody_subscribed_to_is_kept_for_its_retention(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", retention=HOUR, min_retention=0)
    hf.publish_many("t", range(2))
    clock.advance(HOUR - 1)
    assert retain(hf) == 0
    assert kept(hf) == [0, 1]
    clock.advance(1)
    assert retain(hf) == 2
    assert kept(hf) == []
    assert hf.notices.list() == []


def test_a_group_that_was_ended_holds_nothing(hf: Holdfast) -> None:
    subscribed(hf, "a", "gone")
    hf.publish("t", 1)
    done(hf, "a")
    hf.groups.remove("t", "gone")
    assert retain(hf) == 1


def test_a_paused_group_is_still_owed(hf: Holdfast) -> None:
    subscribed(hf, "a", "paused")
    hf.queues.pause("t/paused")
    hf.publish_many("t", range(2))
    done(hf, "a")
    assert retain(hf) == 0
    hf.queues.resume("t/paused")
    assert bodies(hf.claim("t", group="paused", n=9)) == [0, 1]


@pytest.mark.parametrize("wait", [0, DAY], ids=["when done", "at retention"])
def test_what_is_in_someones_hands_stays(hf: Holdfast, clock: FakeClock, wait: int) -> None:
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "a", lease="30d")
    hf.publish_many("t", range(6))
    first, held = hf.claim("t", group="a", n=2), hf.claim("t", group="a", n=2)
    hf.ack(first)
    hf.ack(hf.claim("t", group="a", n=2))
    clock.advance(wait)
    assert retain(hf) == 4, "the others go, before and after"
    assert kept(hf) == [2, 3]
    hf.nack(held[:1], delay=0)
    hf.ack(held[1:])
    assert retain(hf) == 2
    assert bodies(hf.claim("t", group="a", n=9)) == [2], "what failed is a row, which needs no topic"


def test_what_is_left_around_a_held_message_is_counted_one_by_one(hf: Holdfast, clock: FakeClock) -> None:
    subscribed(hf, "a", "slow")
    hf.publish_many("t", range(5))
    hf.subscribe("t", "late", start="earliest")
    hf.ack(hf.claim("t", group="a", n=2))
    hf.claim("t", group="a", lease=2 * DAY)
    clock.advance(DAY)
    assert retain(hf) == 4
    hf.publish("t", 5)
    assert [one.lag for one in hf.groups.list("t")] == [1, 2, 2]
    assert [(one.behind, one.past) for one in hf.groups.list("t")] == [(0, 0), (1, 5), (0, 0)]
    assert hf.stats("t/late").pending == 2
    assert bodies(hf.claim("t", group="late", n=9)) == [2, 5]


def test_a_run_that_was_taken_back_is_whole(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", retention=HOUR, min_retention=0)
    hf.subscribe("t", "a", lease=2 * HOUR)
    hf.publish_many("t", range(3))
    hf.claim("t", group="a", n=3)
    clock.advance(HOUR)
    assert retain(hf) == 0
    clock.advance(HOUR)
    found = []
    while claims := hf.claim("t", group="a", n=3):
        found += bodies(claims)
        hf.ack(claims)
    assert sorted(found) == [0, 1, 2]
    assert retain(hf) == 3


def test_one_step_is_bounded(hf: Holdfast, clock: FakeClock) -> None:
    subscribed(hf, "a")
    hf.publish_many("t", range(3_000))
    hf.publish_many("t", range(1_500), priority="high")
    clock.advance(DAY)
    steps = []
    while found := retain_once(hf):
        steps.append(found)
    assert (max(steps), sum(steps)) == (retention.MOST_MESSAGES, 4_500)
    assert "4500 messages" in troubles(hf, "out_of_range")[0]


def test_the_more_groups_lose_the_less_goes_in_one_step(
    hf: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, few in {"MOST_MESSAGES": 6, "MOST_LOSERS": 1, "FEWEST_MESSAGES": 1}.items():
        monkeypatch.setattr(retention, name, few)
    subscribed(hf, "a", "b", "c")
    hf.publish_many("t", range(5))
    clock.advance(DAY)
    assert [retain_once(hf) for _ in range(4)] == [2, 2, 1, 0]
    assert [error.split(" were")[0] for error in troubles(hf, "out_of_range")] == ["5 messages"] * 3


def test_a_step_that_failed_has_removed_and_counted_nothing(
    hf: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As kill -9 would, in the middle."""
    subscribed(hf, "slow")
    hf.publish_many("t", range(3))
    clock.advance(DAY)
    with monkeypatch.context() as broken:
        broken.setattr("holdfast.notices.steps.report", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            retain(hf)
    assert kept(hf) == [0, 1, 2]
    assert retain(hf) == 3
    assert "3 messages" in troubles(hf, "out_of_range")[0]


def test_many_at_once_remove_everything_once(client: OpenClient, clock: FakeClock) -> None:
    clients = [client(worker=f"w{number}") for number in range(4)]
    subscribed(clients[0], "slow", "a")
    clients[0].publish_many("t", range(5_000))
    clock.advance(DAY)
    together = threading.Barrier(4)

    def work(hf: Holdfast) -> int:
        together.wait(30)
        return retain(hf)

    with ThreadPoolExecutor(4) as threads:
        gone = sum(threads.map(work, clients))
    assert gone + retain(clients[0]) == 5_000
    assert [error.split()[0] for error in troubles(clients[0], "out_of_range")] == ["5000", "5000"]


def test_nothing_is_removed_under_who_is_claiming(client: OpenClient, clock: FakeClock) -> None:
    """Everything is too old from the start: claims and retention race for each message, and one of them has it."""
    hf = client()
    subscribed(hf, "a", retention=0)
    consumers = [client(worker=f"w{number}") for number in range(3)]
    got: list[int] = []
    over = threading.Event()

    def consume(one: Holdfast) -> None:
        while claims := one.claim("t", group="a", n=7) or not over.is_set():
            if isinstance(claims, list):
                one.nack(claims[:1], delay=HOUR)
                one.ack(claims[1:])
                got.extend(bodies(claims))

    with ThreadPoolExecutor(4) as threads:
        running = [threads.submit(consume, one) for one in consumers]
        lost = 0
        for start in range(0, 2_000, 100):
            hf.publish_many("t", range(start, start + 100))
            lost += retain_once(hf)
        over.set()
        for one in running:
            one.result()
    retain(hf)
    assert len(got) == len(set(got))
    errors = troubles(hf, "out_of_range")
    counted = int(errors[0].split()[0]) if errors else 0
    assert len(got) + counted == 2_000
    assert kept(hf) == []


def test_keys_and_tallies_of_a_topic_go_too(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", idempotency_window=60, retention=100)
    first = hf.publish("t", 1, idempotency_key="k")
    assert hf.publish("t", 1, idempotency_key="k").id == first.id
    clock.advance(200)
    assert retain(hf) == 2, "a look at the key, and the message goes"
    clock.advance(50)
    assert retain(hf) == 1, "a look finds it gone"
    clock.advance(60)
    assert retain(hf) == 1, "the key goes"
    assert retain(hf) == 0


def test_what_was_to_be_skipped_is_no_loss(hf: Holdfast, clock: FakeClock) -> None:
    subscribed(hf, "a")
    receipts = hf.publish_many("t", range(3))
    assert hf.groups.skip("t", "a", receipts[1].id)
    clock.advance(DAY)
    assert retain(hf) == 3
    assert "2 messages" in troubles(hf, "out_of_range")[0]


def test_a_group_that_is_fed_needs_the_topic_no_more(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "a", ordering="per_key")
    hf.publish_many("t", range(3), key="k")
    [claim] = hf.claim("t", group="a", n=9)
    assert retain(hf) == 3, "all of them are rows"
    claim.ack()
    assert bodies(hf.claim("t", group="a", n=9)) == [1]
    assert troubles(hf, "out_of_range") == []


def test_one_who_goes_back_finds_what_is_kept(hf: Holdfast, clock: FakeClock) -> None:
    subscribed(hf, "a", min_retention=60)
    hf.publish("t", 0)
    clock.advance(30)
    hf.publish("t", 1)
    done(hf, "a")
    clock.advance(30)
    retain(hf)
    hf.groups.seek("a", "earliest")
    assert bodies(hf.claim("t", group="a", n=9)) == [1]
    clock.advance(30)
    assert retain(hf) == 0


def test_maintain_does_it_too(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "a")
    hf.subscribe("t", "b", timeout=60, misses=1)
    hf.publish_many("t", range(3))
    done(hf, "a")
    clock.advance(60)
    while hf.maintain():
        pass
    assert kept(hf) == []
    assert len(troubles(hf, "dead_group")) == 1
