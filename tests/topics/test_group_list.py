"""The list of a topic's groups."""

import pytest

from holdfast import Holdfast, NotFound
from tests.clock import FakeClock
from tests.stores import TOPICS

pytestmark = pytest.mark.not_through_sqs(TOPICS)


def test_each_group_shows_how_far_it_is_and_who_reads(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("orders")
    hf.subscribe("orders", "all", max_attempts=1)
    hf.subscribe("orders", "created", patterns=["orders.*.created"])
    hf.publish("orders.eu.created", 1)
    clock.advance(5)
    hf.publish("orders.eu.gone", 2)
    hf.publish("orders.us.created", 3)
    [claim, held] = hf.claim("orders", group="all", n=1) + hf.claim("orders", group="all", n=1)
    claim.dead_letter("no")
    hf.queues.pause("orders/created")
    all_of_it, created = hf.groups.list("orders")
    assert (all_of_it.topic, all_of_it.group, all_of_it.patterns) == ("orders", "all", ["orders.**"])
    assert (all_of_it.lag, all_of_it.in_flight, all_of_it.dead_letters, all_of_it.state) == (1, 1, 1, "active")
    assert (all_of_it.members, all_of_it.oldest, all_of_it.lost) == ([hf.worker], 0, 0)
    assert (created.group, created.state, created.lag, created.members) == ("created", "paused", 2, [])
    assert created.oldest == pytest.approx(5)
    assert held.message.body == 2


def test_the_last_heartbeat_is_seen(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("orders")
    hf.subscribe("orders", "all")
    [before] = hf.groups.list("orders")
    clock.advance(20)
    hf.groups.heartbeat("orders", "all")
    [after] = hf.groups.list("orders")
    assert before.last_seen_us is not None
    assert after.last_seen_us == before.last_seen_us + 20_000_000


def test_only_a_topics_own_groups_are_listed(hf: Holdfast) -> None:
    hf.topic("orders")
    hf.topic("bills")
    hf.subscribe("orders", "a")
    hf.subscribe("bills", "b")
    hf.groups.remove("bills", "b")
    assert [one.group for one in hf.groups.list("orders")] == ["a"]
    assert hf.groups.list("bills") == []
    with pytest.raises(NotFound, match=r"hf\.topic\('others'\)"):
        hf.groups.list("others")


def test_a_thousand_groups_of_one_topic_work(hf: Holdfast) -> None:
    hf.topic("orders")
    for number in range(1000):
        hf.subscribe("orders", f"group-{number}")
    hf.publish_many("orders.new", range(3))
    for number in (0, 500, 999):
        assert [claim.message.body for claim in hf.claim("orders", group=f"group-{number}", n=10)] == [0, 1, 2]
    assert sum(one.lag for one in hf.groups.list("orders")) == 997 * 3
