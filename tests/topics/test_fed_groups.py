"""Groups whose keys matter: in order per key over all members, one at a time per key, in the order of the log."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import Claim, Holdfast, LeaseLost
from holdfast.client.client import internals
from holdfast.topics.steps import feed
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, counts, drain
from tests.stores import TOPICS

pytestmark = pytest.mark.not_through_sqs(TOPICS)

KEYS, LENGTH, MEMBERS = 9, 20, 3
EMAIL = "orders/email"


@pytest.fixture
def keyed(hf: Holdfast) -> Holdfast:
    hf.topic("orders")
    hf.subscribe("orders", "email", ordering="per_key", max_attempts=3, backoff=None)
    return hf


def publish(hf: Holdfast, *bodies: str, topic: str = "orders", **options: object) -> list[str]:
    """The key of "a1" is a."""
    return [r.id for r in hf.publish_many(topic, bodies, key=lambda body: body[0], **options)]  # type: ignore[arg-type]


# --- order ------------------------------------------------------------------------------------------------------------


def test_a_claim_gets_the_head_of_every_key(keyed: Holdfast) -> None:
    publish(keyed, "a1", "a2", "b1", "a3", "b2", "c1")
    assert bodies(keyed.claim(EMAIL, n=10)) == ["a1", "b1", "c1"]
    assert keyed.claim(EMAIL, n=10) == []


def test_the_next_of_a_key_comes_after_the_end_of_its_head(keyed: Holdfast, rival: Holdfast) -> None:
    publish(keyed, "a1", "a2", "b1")
    a1, b1 = keyed.claim(EMAIL, n=10)
    keyed.ack(a1)
    assert bodies(rival.claim(EMAIL, n=10)) == ["a2"]
    keyed.ack(b1)
    assert rival.claim(EMAIL, n=10) == []


def test_what_comes_later_queues_behind_what_is_held(keyed: Holdfast) -> None:
    publish(keyed, "a1")
    [a1] = keyed.claim(EMAIL)
    publish(keyed, "a2", "b1")
    assert bodies(keyed.claim(EMAIL, n=10)) == ["b1"]
    keyed.ack(a1)
    assert bodies(keyed.claim(EMAIL, n=10)) == ["a2"]


def test_messages_without_a_key_have_no_order(keyed: Holdfast) -> None:
    keyed.publish_many("orders", [1, 2, 3])
    assert bodies(keyed.claim(EMAIL, n=10)) == [1, 2, 3]


def test_a_fifo_group_has_one_message_at_a_time(hf: Holdfast) -> None:
    hf.topic("orders")
    hf.subscribe("orders", "email", ordering="fifo")
    publish(hf, "a1", "b1", "c1")
    [first] = hf.claim(EMAIL, n=10)
    assert hf.claim(EMAIL, n=10) == []
    hf.ack(first)
    assert [first.message.body, *drain(hf, EMAIL)] == ["a1", "b1", "c1"]


def test_a_retry_blocks_its_own_key_only(keyed: Holdfast, clock: FakeClock) -> None:
    publish(keyed, "a1", "a2", "b1", "b2")
    a1, b1 = keyed.claim(EMAIL, n=10)
    keyed.nack(a1, delay=60)
    keyed.ack(b1)
    assert bodies(keyed.claim(EMAIL, n=10)) == ["b2"]
    clock.advance(61)
    [a1] = keyed.claim(EMAIL, n=10)
    assert (a1.message.body, a1.attempt) == ("a1", 2)


def test_a_lapsed_head_comes_again_before_the_next(keyed: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    publish(keyed, "a1", "a2")
    [lost] = keyed.claim(EMAIL, n=10)
    clock.advance(60)
    [again] = rival.claim(EMAIL, n=10)
    assert (again.message.body, again.attempt) == ("a1", 2)
    with pytest.raises(LeaseLost):
        keyed.ack(lost)
    rival.ack(again)
    assert drain(rival, EMAIL) == ["a2"]


def test_a_dead_head_makes_way(keyed: Holdfast) -> None:
    publish(keyed, "a1", "a2")
    for _ in range(3):
        [a1] = keyed.claim(EMAIL)
        keyed.nack(a1)
    assert drain(keyed, EMAIL) == ["a2"]
    assert [letter.message.body for letter in keyed.dead_letters.list(EMAIL)] == ["a1"]


def test_a_dead_head_blocks_its_key_if_the_group_says_so(hf: Holdfast) -> None:
    hf.topic("orders")
    hf.subscribe("orders", "email", ordering="per_key", on_dead="block", max_attempts=1)
    publish(hf, "a1", "b1")
    [a1] = hf.claim(EMAIL)
    hf.nack(a1)
    publish(hf, "a2", "b2")  # a2 is fed when its key is blocked already.
    assert drain(hf, EMAIL) == ["b1", "b2"]
    assert [blocked.key for blocked in hf.queues.blocked(EMAIL)] == ["a"]
    hf.queues.unblock(EMAIL, "a")
    assert drain(hf, EMAIL) == ["a2"]


def test_a_replay_of_a_head_goes_before_those_that_wait(hf: Holdfast) -> None:
    hf.topic("orders")
    hf.subscribe("orders", "email", ordering="per_key", on_dead="block", max_attempts=1)
    publish(hf, "a1", "a2")
    [a1] = hf.claim(EMAIL)
    hf.nack(a1)
    [letter] = hf.dead_letters.list(EMAIL)
    hf.dead_letters.replay(letter.id)
    assert drain(hf, EMAIL) == ["a1", "a2"]


@pytest.mark.parametrize("seed", [1, 2])
def test_no_attempt_begins_after_one_of_a_later_message_of_its_key(
    client: OpenClient, clock: FakeClock, seed: int
) -> None:
    """Members that ack, fail, hand back or fall silent at random, while others publish."""
    hf = client()
    hf.topic("orders")
    hf.subscribe("orders", "email", ordering="per_key", max_attempts=1_000, backoff=None)
    starts: dict[int, list[int]] = defaultdict(list)
    started, acked = threading.Lock(), list[str]()

    def write(first: int) -> None:
        for n in range(LENGTH):
            for key in range(first, KEYS, 3):
                hf.publish("orders", (key, n), key=str(key), priority=1)

    def work(number: int) -> None:
        chance, member = random.Random(f"{seed}/{number}"), client()
        while claims := member.claim(EMAIL, n=chance.randint(1, 5)):
            with started:
                for claim in claims:
                    key, place = claim.message.body
                    starts[key].append(place)
            acked.extend(claim.message.id for claim in claims if end(claim, chance.random()))

    with ThreadPoolExecutor(3 + MEMBERS) as workers:
        writing = [workers.submit(write, first) for first in range(3)]
        list(workers.map(work, range(MEMBERS)))
        for one in writing:
            one.result()
    rounds = 0
    while len(acked) < KEYS * LENGTH:
        clock.advance(60)
        with ThreadPoolExecutor(MEMBERS) as workers:
            list(workers.map(work, range(MEMBERS)))
        rounds += 1
        assert rounds < 100, "nothing moves any more"
    assert len(set(acked)) == KEYS * LENGTH
    assert {key: order == sorted(order) for key, order in starts.items()} == dict.fromkeys(range(KEYS), True)
    assert {key: set(order) for key, order in starts.items()} == {key: set(range(LENGTH)) for key in range(KEYS)}


def end(claim: Claim, chance: float) -> bool:
    """In some way, or none; whether it was done."""
    if chance < 0.7:
        claim.ack()
    elif chance < 0.85:
        claim.nack()
    elif chance < 0.95:
        claim.release()
    return chance < 0.7


# --- feeding ----------------------------------------------------------------------------------------------------------


def test_another_client_goes_on_where_the_first_one_was(keyed: Holdfast, client: OpenClient) -> None:
    publish(keyed, "a1", "a2", "b1", "b2")
    keyed.ack(keyed.claim(EMAIL, n=10))
    keyed.close()
    assert drain(client(), EMAIL) == ["a2", "b2"]


def test_only_the_wanted_names_are_fed(hf: Holdfast) -> None:
    hf.topic("orders")
    hf.subscribe("orders", "email", patterns="orders.*.created", ordering="per_key")
    publish(hf, "a1", topic="orders.eu.created")
    publish(hf, *["a-"] * (2 * feed.STEP), topic="orders.eu.paid")
    publish(hf, "a2", topic="orders.us.created")
    assert drain(hf, EMAIL) == ["a1", "a2"]


def test_an_ordered_group_and_another_one_get_the_same(keyed: Holdfast) -> None:
    keyed.subscribe("orders", "audit")
    publish(keyed, "a1", "a2", "b1")
    assert drain(keyed, EMAIL) == ["a1", "a2", "b1"]
    assert bodies(keyed.claim("orders/audit", n=10)) == ["a1", "a2", "b1"]


def test_each_priority_is_fed_by_itself(keyed: Holdfast) -> None:
    publish(keyed, "a1", "b1", priority="low")
    publish(keyed, "c1", "d1", priority="high")
    assert drain(keyed, EMAIL) == ["c1", "d1", "a1", "b1"]


def test_a_key_that_is_stuck_hides_no_other(keyed: Holdfast) -> None:
    publish(keyed, *["a"] * (feed.MOST_FED + feed.STEP), "b")
    [stuck] = keyed.claim(EMAIL)
    assert (stuck.message.body, drain(keyed, EMAIL)) == ("a", ["b"])


def test_however_much_of_a_stuck_key_is_in_front_another_comes_in_one_poll(keyed: Holdfast) -> None:
    publish(keyed, *["a"] * (6 * feed.MOST_FED), "b")
    [stuck] = keyed.claim(EMAIL)
    assert bodies(keyed.claim(EMAIL, n=10)) == ["b"]
    assert keyed.claim(EMAIL, n=10) == []
    keyed.ack(stuck)
    assert bodies(keyed.claim(EMAIL, n=10)) == ["a"]


def test_a_member_that_waits_comes_past_what_is_stuck(client: OpenClient) -> None:
    hf = client(clock=None)
    hf.topic("orders")
    hf.subscribe("orders", "email", ordering="per_key")
    publish(hf, *["a"] * (3 * feed.MOST_FED), "b")
    hf.claim(EMAIL)
    group = internals(hf).store.channels.find("default", EMAIL)
    assert group is not None
    assert internals(hf).store.reads.next_due([group]) == 0, "it does not wait for anyone to ring"
    assert bodies(hf.claim(EMAIL, wait=20)) == ["b"]
    assert internals(hf).store.reads.next_due([group]) > 1


def test_feeding_stops_when_too_much_waits(keyed: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    fed = 6 * feed.STEP
    monkeypatch.setattr("holdfast.topics.steps.feed.MOST_WAITING", fed - 1)
    publish(keyed, *["a"] * (fed + 2), "b")
    [stuck] = keyed.claim(EMAIL)
    assert keyed.claim(EMAIL) == []
    found = [stuck]
    while found[0].message.body == "a":
        found = keyed.claim(EMAIL, n=2, ack=found)[::-1]
    assert bodies(found) == ["b", "a"], "the others come as soon as there is room"


def test_a_new_message_wakes_a_sleeping_member(client: OpenClient) -> None:
    hf, member = client(clock=None), client(clock=None)
    hf.topic("orders")
    hf.subscribe("orders", "email", ordering="per_key")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(member.claim, EMAIL, wait=30)
        publish(hf, "a1")
        assert bodies(waiting.result(timeout=20)) == ["a1"]


def test_the_members_of_a_key_are_held_one_at_a_time(hf: Holdfast) -> None:
    hf.topic("orders")
    hf.subscribe("orders", "email", key_concurrency=1)
    hf.subscribe("orders", "audit")
    publish(hf, "a1", "a2", "b1")
    a1, b1 = hf.claim(EMAIL, n=10)
    assert (bodies([a1, b1]), hf.claim(EMAIL, n=10)) == (["a1", "b1"], [])
    hf.ack(a1)
    assert bodies(hf.claim(EMAIL, n=10)) == ["a2"]
    assert bodies(hf.claim("orders/audit", n=10)) == ["a1", "a2", "b1"], "what is limited here is not taken from others"


def test_a_full_key_hides_no_other(hf: Holdfast) -> None:
    hf.topic("orders")
    hf.subscribe("orders", "email", key_concurrency=1)
    publish(hf, *["a"] * (feed.MOST_FED + feed.STEP), "b")
    assert bodies(hf.claim(EMAIL)) == ["a"]
    assert drain(hf, EMAIL) == ["b"]


def test_a_key_is_claimed_no_more_often_than_its_rate(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("orders")
    hf.subscribe("orders", "email", key_rate="2/m")
    publish(hf, "a1", "a2", "a3", "b1")
    assert bodies(hf.claim(EMAIL, n=10)) == ["a1", "a2", "b1"]
    clock.advance(61)
    assert bodies(hf.claim(EMAIL, n=10)) == ["a3"]


def test_a_paused_group_is_owed_everything(keyed: Holdfast) -> None:
    keyed.queues.pause(EMAIL)
    publish(keyed, "a1", "a2")
    assert keyed.claim(EMAIL, n=10) == []
    keyed.queues.resume(EMAIL)
    assert drain(keyed, EMAIL) == ["a1", "a2"]


def test_a_group_may_become_ordered_and_back(hf: Holdfast) -> None:
    hf.topic("orders")
    hf.subscribe("orders", "email")
    publish(hf, "a1", "a2", "a3", "a4", "a5")
    hf.ack(hf.claim(EMAIL))
    hf.subscribe("orders", "email", ordering="per_key")
    assert bodies(hf.claim(EMAIL, n=2)) == ["a2"]
    hf.subscribe("orders", "email", ordering="unordered")
    publish(hf, "a6", "a7")
    assert bodies(hf.claim(EMAIL, n=10)) == ["a6", "a7"]


def test_what_waits_is_counted_wherever_it_is(keyed: Holdfast) -> None:
    publish(keyed, "a1", "a2", "b1")
    assert counts(keyed, EMAIL) == (3, 0, 0, 0)
    a1, _ = keyed.claim(EMAIL, n=10)
    assert counts(keyed, EMAIL) == (1, 0, 2, 0)
    a1.ack()
    publish(keyed, "b2")
    assert counts(keyed, EMAIL) == (2, 0, 1, 0)
    assert keyed.queues.purge(EMAIL) == 2
    assert counts(keyed, EMAIL) == (0, 0, 1, 0)
