"""Topics: who owns a name, what is published to it, and that every group gets all of it."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest

from holdfast import (
    Holdfast,
    IdempotencyConflict,
    InvalidInput,
    NoSubscribers,
    NotFound,
    State,
    TooLarge,
    UnknownTopic,
)
from holdfast.client.client import internals
from holdfast.core.queue import QueueSpec
from holdfast.topics.rules.declaration import TopicSpec
from tests.client.test_conn import commit, of_the_driver, roll_back
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, drain, sleepers, state
from tests.stores import TOPICS
from tests.topics.topic_steps import lag, read_all, told

pytestmark = [pytest.mark.both_engines, pytest.mark.not_through_sqs(TOPICS)]

# --- names ------------------------------------------------------------------------------------------------------------


def test_a_topic_owns_its_name_and_all_below(two: Holdfast) -> None:
    told(two, ("t", 0), ("t.x", 1), ("t.x.y", 2))
    claims = two.claim("t", group="a", n=3)
    assert [(claim.message.topic, claim.message.body) for claim in claims] == [("t", 0), ("t.x", 1), ("t.x.y", 2)]
    assert [claim.queue for claim in claims] == ["t/a"] * 3
    assert two.topics.list() == ["t"]
    assert two.queues.list() == []


def test_a_name_that_only_begins_alike_is_another(two: Holdfast) -> None:
    for name in ("tt.x", "T.x"):
        two.queue(name)
        two.publish(name, "queue")
    assert (read_all(two, "a"), two.queues.list()) == ([], ["T.x", "tt.x"])


@pytest.mark.parametrize("name", ["t", "t.x", "t.x.y"])
def test_no_queue_may_have_a_topics_name(two: Holdfast, name: str) -> None:
    for use in (two.queue, two.claim, two.stats, lambda bad: two.enqueue(bad, 1)):
        with pytest.raises(InvalidInput, match="topic"):
            use(name)
    assert two.queues.list() == []


@pytest.mark.parametrize("queue", ["t", "t.x", "t.x.y"])
@pytest.mark.parametrize("mode", ["pubsub", "queue"])
def test_no_topic_may_own_a_queues_name(hf: Holdfast, queue: str, mode: str) -> None:
    hf.enqueue(queue, "mine")
    if (queue, mode) == ("t", "queue"):
        hf.topic("t", mode=mode)
    else:
        with pytest.raises(InvalidInput):
            hf.topic("t", mode=mode)
        assert hf.topics.list() == []
    assert hf.queues.list() == [queue]
    assert drain(hf, queue) == ["mine"]


def test_no_topic_may_own_another_ones_name(two: Holdfast) -> None:
    two.topic("deep.down")
    for name in ("t.x", "deep", "deep.down.there"):
        for mode in ("pubsub", "queue"):
            with pytest.raises(InvalidInput):
                two.topic(name, mode=mode)
    assert two.topics.list() == ["deep.down", "t"]
    two.topic("deep.elsewhere")


def test_of_two_who_want_a_name_at_once_one_gets_it(client: OpenClient) -> None:
    """Declared at the same time by two clients: `n` as a topic, `n.b` as a queue or a topic."""
    clients = [client(), client()]
    for turn in range(12):
        start = threading.Barrier(2)

        def declare(who: int, start: threading.Barrier = start, turn: int = turn) -> bool:
            store = internals(clients[who]).store
            start.wait()
            try:
                if who:
                    store.topics.declare("default", f"n{turn}", lambda _: TopicSpec())
                elif turn % 2:
                    store.topics.declare("default", f"n{turn}.b", lambda _: TopicSpec())
                else:
                    store.channels.declare("default", f"n{turn}.b", lambda _: QueueSpec())
            except InvalidInput:
                return False
            return True

        clients[0].topics.list()
        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(declare, range(2))) == [False, True]


@pytest.mark.parametrize("end", [commit, roll_back])
def test_a_topic_waits_for_a_queue_below_that_is_not_committed(
    hf: Holdfast, rival: Holdfast, url: str, end: Callable[[Any], None]
) -> None:
    assert rival.topics.list() == []
    with of_the_driver(url) as conn, ThreadPoolExecutor(1) as pool:
        hf.enqueue("n.b", 1, conn=conn)
        declared = pool.submit(rival.topic, "n")
        wait([declared], timeout=0.3)
        end(conn)
        refused = declared.exception(timeout=30)
    assert (isinstance(refused, InvalidInput), rival.topics.list()) == ((True, []) if end is commit else (False, ["n"]))


def test_a_name_that_belongs_to_no_topic_may_be_that_of_a_queue(hf: Holdfast, rival: Holdfast) -> None:
    rival.queue("x.y")
    receipt = hf.publish("x.y", {"a": 1}, priority="high", key="k", headers={"h": 1}, correlation_id="c", reply_to="r")
    [claim] = hf.claim("x.y")
    message = claim.message
    assert (message.id, message.body, message.topic, message.priority, message.key) == (
        receipt.id,
        {"a": 1},
        "x.y",
        1,
        "k",
    )
    assert (message.headers, message.correlation_id, message.reply_to) == ({"h": 1}, "c", "r")
    assert (hf.queues.list(), hf.topics.list()) == (["x.y"], [])


def test_a_name_of_nobodys_is_refused_and_leaves_no_queue(hf: Holdfast, url: str) -> None:
    hf.topics.list()
    for publish in (lambda: hf.publish("x.y", 1), lambda: hf.publish_many("x.y", [1, 2])):
        with pytest.raises(UnknownTopic, match=r"'x\.y' belongs to no topic and is not a queue; .*hf\.topic\('x'\)"):
            publish()
    with of_the_driver(url) as conn:
        with pytest.raises(UnknownTopic):
            hf.publish("x.y", 1, conn=conn)
        commit(conn)
    assert (hf.queues.list(), hf.topics.list()) == ([], [])
    hf.enqueue("x.y", "enqueue still creates it")
    hf.publish("x.y", "then it is there")
    assert len(drain(hf, "x.y")) == 2


def test_a_queue_of_the_same_transaction_is_published_to(hf: Holdfast, url: str) -> None:
    hf.topics.list()
    with of_the_driver(url) as conn:
        hf.enqueue("x.y", 1, conn=conn)
        hf.publish("x.y", 2, conn=conn)
        commit(conn)
    assert drain(hf, "x.y") == [1, 2]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("order.eu.created", "orders.eu.created"),
        ("Orders", "orders"),
        ("sensor.heat.north", "sensors.heat.north"),
        ("email", "emails"),
        ("jbos.resize", "jobs.resize"),
        ("weather", None),
    ],
)
def test_a_name_that_is_spelt_wrong_says_what_was_meant(hf: Holdfast, name: str, meant: str | None) -> None:
    hf.topic("orders")
    hf.topic("sensors.heat")
    hf.topic("jobs", mode="queue")
    hf.queue("emails")
    with pytest.raises(UnknownTopic) as refused:
        hf.publish(name, 1)
    assert (f"did you mean {meant!r}?" if meant else "nothing was stored: declare") in str(refused.value)


def test_a_strict_client_publishes_to_what_was_declared(client: OpenClient) -> None:
    hf = client(strict=True)
    hf.topic("t")
    hf.subscribe("t", "a")
    hf.publish("t.x", 1)
    with pytest.raises(UnknownTopic):
        hf.publish("x", 1)
    assert read_all(hf, "a") == [1]


def test_a_topic_in_the_form_of_a_queue_is_one(hf: Holdfast) -> None:
    hf.topic("jobs", mode="queue", max_attempts=2, ordering="fifo")
    hf.publish("jobs.resize", 1)
    hf.publish_many("jobs", [2, 3])
    hf.enqueue("jobs", 4)
    assert (hf.topics.list(), hf.queues.list(), hf.stats("jobs").pending) == (["jobs"], ["jobs"], 4)
    assert drain(hf, "jobs") == [1, 2, 3, 4]
    with pytest.raises(InvalidInput, match="belongs to the topic 'jobs'"):
        hf.queue("jobs.resize")
    with pytest.raises(InvalidInput, match="is a queue"):
        hf.topic("jobs", mode="pubsub")


@pytest.mark.parametrize("options", [{}, {"ttl": 60}, {"key": "k"}], ids=str)
def test_what_is_published_to_a_queue_keeps_its_name(hf: Holdfast, url: str, options: dict[str, Any]) -> None:
    """In a lane or as a row, through a retry, as a dead letter, and from the caller's transaction."""
    hf.topic("jobs", mode="queue", max_attempts=2, ordering="per_key" if "key" in options else "unordered")
    hf.publish("jobs.resize", 1, **options)
    for _ in range(2):
        [claim] = hf.claim("jobs")
        assert claim.message.topic == "jobs.resize"
        claim.nack("no", delay=0)
    [letter] = hf.dead_letters.list("jobs")
    assert letter.message.topic == "jobs.resize"
    with of_the_driver(url) as conn:
        hf.publish("jobs.crop", 2, conn=conn, **options)
        commit(conn)
    assert [message.topic for message in hf.queues.peek("jobs")] == ["jobs.crop"]


def test_a_topic_in_the_form_of_a_queue_that_is_refused_leaves_no_queue(hf: Holdfast) -> None:
    hf.queue("jobs.resize")
    with pytest.raises(InvalidInput, match=r"jobs\.resize"):
        hf.topic("jobs", mode="queue")
    assert hf.queues.list() == ["jobs.resize"]


def test_settings_of_a_topic_change_and_its_messages_stay(two: Holdfast, rival: Holdfast) -> None:
    two.publish("t", "x" * 50)
    rival.topic("t", max_size=20)
    two.topic("t", max_size=20)
    with pytest.raises(TooLarge):
        two.publish("t", "x" * 50)
    assert read_all(two, "a") == ["x" * 50]


# --- publishing -------------------------------------------------------------------------------------------------------


def test_all_that_is_published_arrives(two: Holdfast, clock: FakeClock) -> None:
    options: dict[str, Any] = {"key": "k", "headers": {"h": "東"}, "correlation_id": "c", "reply_to": "r"}
    receipt = two.publish("t.x", {"a": [1]}, priority="urgent", ttl=60, **options)
    for group in ("a", "b"):
        [claim] = two.claim("t", group=group)
        message = claim.message
        assert (message.id, message.body, message.topic, message.priority) == (receipt.id, {"a": [1]}, "t.x", 0)
        assert (message.key, message.headers, message.correlation_id, message.reply_to) == tuple(options.values())
        assert (message.expires_at_us, message.enqueued_at_us) == (clock() + 60_000_000, clock())


def test_priorities_hold_in_a_group(two: Holdfast) -> None:
    for priority in ("low", "normal", "urgent", "high"):
        two.publish("t", priority, priority=priority)
    assert read_all(two, "a", n=1) == ["urgent", "high", "normal", "low"]


def test_many_are_published_in_order_and_at_once(two: Holdfast) -> None:
    receipts = two.publish_many("t.x", range(250), key=str)
    assert len({receipt.id for receipt in receipts}) == 250
    assert (two.publish_many("t.x", []), lag(two, "a")) == ([], 250)
    claims = two.claim("t/a", n=300)
    assert [(one.message.body, one.message.key) for one in claims] == [(n, str(n)) for n in range(250)]
    with pytest.raises(InvalidInput):
        two.publish_many("t.x", [1, object()])
    assert lag(two, "b") == 250


def test_the_same_key_is_published_once(two: Holdfast, clock: FakeClock) -> None:
    first = two.publish("t.x", "news", idempotency_key="k")
    again = two.publish("t.y", "news", idempotency_key="k")
    assert (again.id, again.duplicate) == (first.id, True)
    with pytest.raises(IdempotencyConflict):
        two.publish("t.x", "other", idempotency_key="k")
    both = two.publish_many("t.x", ["news", "olds"], idempotency_key=lambda body: body[0])
    assert [receipt.duplicate for receipt in both] == [False, False]
    assert read_all(two, "a") == ["news", "news", "olds"]
    clock.advance(90_000)
    two.maintain()  # The topic forgets the message.
    clock.advance(30_000)
    assert two.publish("t.x", "news", idempotency_key="k").duplicate, "its window begins when someone looks"
    clock.advance(90_000)
    assert not two.publish("t.x", "news", idempotency_key="k").duplicate


def test_keys_that_are_over_are_swept_with_a_group(two: Holdfast, clock: FakeClock) -> None:
    two.publish("t", 1, idempotency_key="k")
    clock.advance(90_000)
    assert two.maintain() > 0
    while two.maintain():
        pass


@pytest.mark.parametrize("name", ["t.x", "fresh"], ids=["a topic", "a queue"])
def test_what_is_published_in_a_transaction_comes_with_it(two: Holdfast, url: str, name: str) -> None:
    if name == "fresh":
        two.queue(name)
    with of_the_driver(url) as conn:
        two.publish(name, "kept", conn=conn)
        two.publish_many(name, ["also"], conn=conn)
        assert lag(two, "a") == 0
        commit(conn)
    with of_the_driver(url) as conn:
        two.publish(name, "lost", conn=conn)
        roll_back(conn)
    assert (read_all(two, "a") if name == "t.x" else drain(two, "fresh")) == ["kept", "also"]


def test_middleware_sees_what_is_published(two: Holdfast) -> None:
    @two.around_enqueue
    def stamp(outgoing: Any, proceed: Any) -> Any:
        outgoing.headers = {"to": outgoing.queue}
        return proceed()

    two.publish("t.x", 1)
    [claim] = two.claim("t/a")
    assert (claim.message.headers, claim.message.topic) == ({"to": "t.x"}, "t.x")


def test_a_sleeping_member_wakes_up(two: Holdfast, rival: Holdfast) -> None:
    asleep = sleepers(two)
    with ThreadPoolExecutor(1) as pool:
        claims = pool.submit(two.claim, "t/a", wait=30)
        assert asleep.acquire(timeout=10)
        rival.publish("t.x", "good morning")
        assert bodies(claims.result(timeout=10)) == ["good morning"]


def test_a_topic_may_want_subscribers(hf: Holdfast, url: str) -> None:
    hf.topic("t", no_subscribers="refuse")
    for publish in (lambda: hf.publish("t.x", 1), lambda: hf.publish_many("t", [1, 2])):
        with pytest.raises(NoSubscribers, match=r"no group of the topic 't' is live, .* hf.subscribe\('t', …\)"):
            publish()
    with of_the_driver(url) as conn, pytest.raises(NoSubscribers):
        hf.publish("t", 1, conn=conn)
    hf.subscribe("t", "a", start="earliest")
    hf.publish("t.x", "heard")
    assert read_all(hf, "a") == ["heard"]
    hf.groups.remove("t", "a")
    with pytest.raises(NoSubscribers):
        hf.publish("t.x", 1)


def test_a_name_that_no_group_wants_has_no_subscribers(hf: Holdfast, url: str) -> None:
    hf.topic("t", no_subscribers="refuse")
    hf.subscribe("t", "eu", patterns=["t.eu.**"], start="earliest")
    hf.publish("t.eu.created", "heard")
    for publish in (lambda: hf.publish("t.us.created", 1), lambda: hf.publish_many("t", [1, 2])):
        with pytest.raises(NoSubscribers, match=r"no group of the topic 't' has a pattern that matches 't"):
            publish()
    with of_the_driver(url) as conn, pytest.raises(NoSubscribers):
        hf.publish("t.us.created", 1, conn=conn)
    hf.subscribe("t", "all", start="earliest")
    hf.publish("t.us.created", "heard by all")
    assert (read_all(hf, "eu"), read_all(hf, "all")) == (["heard"], ["heard", "heard by all"])


def test_a_dead_group_is_no_subscriber_and_a_paused_one_is(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", no_subscribers="refuse")
    hf.subscribe("t", "a", timeout=60, misses=1, start="earliest")
    hf.queues.pause("t/a")
    hf.publish("t", "for the paused one")
    hf.queues.resume("t/a")
    clock.advance(61)
    while hf.maintain():
        pass
    [found] = hf.groups.list("t")
    assert found.state == "dead"
    with pytest.raises(NoSubscribers, match="is live"):
        hf.publish("t", "nobody is owed this")
    hf.groups.heartbeat("t", "a")
    hf.publish("t", "alive again")
    assert read_all(hf, "a") == ["for the paused one", "alive again"]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("nobody", r"there is no topic 'nobody': declare it with hf.topic\('nobody'\)"),
        ("t.x", r"a name below 't', .* hf.subscribe\('t', …, patterns=\['t.x'\]\)"),
        ("j", r"no topic 'j': it is a queue, .*hf.claim\('j'\)"),
        ("j.x", r"no topic 'j.x': it belongs to the queue 'j', .*hf.claim\('j'\)"),
        ("q", r"no topic 'q': it is a queue, .*hf.claim\('q'\)"),
    ],
)
def test_what_is_no_topic_says_what_it_is(hf: Holdfast, name: str, advice: str) -> None:
    hf.topic("t")
    hf.topic("j", mode="queue")
    hf.queue("q")
    with pytest.raises(NotFound, match=advice):
        hf.subscribe(name, "a")
    with pytest.raises(NotFound, match=advice):
        hf.groups.list(name)


def test_without_subscribers_messages_are_kept(hf: Holdfast) -> None:
    hf.topic("t")
    hf.publish_many("t", range(3))
    hf.subscribe("t", "late", start="earliest")
    assert read_all(hf, "late") == [0, 1, 2]


# --- looking ----------------------------------------------------------------------------------------------------------


def test_the_state_of_what_was_published_is_the_topics(two: Holdfast) -> None:
    receipt = two.publish("t.x", 1, key="k")
    for ending in (lambda claim: claim.nack("no"), lambda claim: claim.ack()):
        assert state(two, receipt.id) is State.PENDING
        ending(two.claim("t/a" if two.stats("t/a").pending else "t/b")[0])
    found = two.status(receipt.id)
    assert (found.queue, found.state, found.message.topic) == ("t", State.PENDING, "t.x")
    assert [one.id for one in two.messages.search("t", key="k")] == [receipt.id]


def test_what_was_published_cannot_be_cancelled(two: Holdfast) -> None:
    receipt = two.publish("t", 1)
    with pytest.raises(InvalidInput, match="published to the topic 't'"):
        two.cancel(receipt.id)
    assert (read_all(two, "a"), read_all(two, "b")) == ([1], [1])


def test_nothing_is_enqueued_for_a_group(two: Holdfast, rival: Holdfast) -> None:
    two.stats("t/a")
    for hf in (two, rival):
        with pytest.raises(InvalidInput):
            hf.enqueue("t/a", 1)
    assert (lag(two, "a"), lag(two, "b")) == (0, 0)
