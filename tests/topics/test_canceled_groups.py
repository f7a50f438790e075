"""Groups that were canceled: ended, and still to be seen; nobody comes back under their names by mistake."""

import asyncio
import threading

import pytest

from holdfast import AsyncHoldfast, GroupCanceled, Holdfast, LeaseLost, NoSubscribers
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies
from tests.stores import TOPICS
from tests.topics.publishing import done, kept, retain, subscribed

pytestmark = pytest.mark.not_through_sqs(TOPICS)


@pytest.fixture
def two(hf: Holdfast) -> Holdfast:
    subscribed(hf, "a", "b")
    return hf


@pytest.fixture
def rival(client: OpenClient) -> Holdfast:
    return client()


def states(hf: Holdfast) -> dict[str, str]:
    return {group.group: group.state for group in hf.groups.list("t")}


def test_it_is_owed_nothing_and_stays_to_be_seen(two: Holdfast) -> None:
    two.subscribe("t", "a", backoff=None)
    two.publish_many("t", range(4))
    held, failed, dead = two.claim("t/a", n=3)
    failed.nack("no")
    dead.dead_letter("no")
    assert two.groups.cancel("t", "a") is True
    assert two.groups.cancel("t", "a") is False
    for ending in (held.ack, held.extend, held.release, held.nack):
        with pytest.raises(LeaseLost):
            ending()
    assert states(two) == {"a": "canceled", "b": "active"}
    [canceled, _] = two.groups.list("t")
    assert (canceled.lag, canceled.in_flight, canceled.oldest, canceled.dead_letters) == (0, 0, None, 1)
    assert [letter.queue for letter in two.dead_letters.list("t/a")] == ["t/a"]
    assert two.dead_letters.replay_many() == 0
    assert bodies(two.claim("t/b", n=9)) == [0, 1, 2, 3]


def test_it_holds_no_messages(two: Holdfast) -> None:
    two.publish_many("t", range(4))
    two.claim("t/a", n=2)
    done(two, "b")
    assert retain(two) == 0
    two.groups.cancel("t", "a")
    assert retain(two) == 4
    assert kept(two) == []


def test_it_is_no_subscriber(hf: Holdfast) -> None:
    subscribed(hf, "a", no_subscribers="refuse")
    hf.groups.cancel("t", "a")
    with pytest.raises(NoSubscribers):
        hf.publish("t", 1)


def test_whoever_belongs_to_it_is_told(two: Holdfast, rival: Holdfast) -> None:
    rival.stats("t/a")
    [claim] = [two.publish("t", 1), rival.claim("t/a")][1]
    two.groups.cancel("t", "a")
    for hf in (rival, two):  # One of them knows the group still, the other does not.
        for act in (
            lambda hf=hf: hf.claim("t", group="a"),
            lambda hf=hf: hf.groups.heartbeat("t", "a"),
            lambda hf=hf: hf.groups.seek("a", "earliest", topic="t"),
            lambda hf=hf: hf.queues.purge("t/a"),
            lambda hf=hf: hf.subscribe("t", "a"),
        ):
            with pytest.raises(GroupCanceled, match="'t/a' was canceled"):
                act()
    with pytest.raises(LeaseLost):
        claim.ack()
    assert states(two)["a"] == "canceled"


def test_who_waits_for_its_messages_is_woken_and_told(
    two: Holdfast, rival: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.client.claim_loop.LONGEST_NAP", 3600.0)  # Only a ring wakes it.
    found: list[BaseException] = []
    waits = threading.Event()

    def wait() -> None:
        rival.stats("t/a")
        waits.set()
        try:
            rival.claim("t/a", wait=600)
        except GroupCanceled as problem:
            found.append(problem)

    thread = threading.Thread(target=wait)
    thread.start()
    waits.wait(60)
    two.groups.cancel("t", "a")
    thread.join(100)
    assert (thread.is_alive(), len(found)) == (False, 1)


def test_a_beat_revives_the_dead_and_not_the_canceled(two: Holdfast, clock: FakeClock) -> None:
    two.subscribe("t", "a", timeout=60)
    for wait in (60, 12, 12):
        clock.advance(wait)
        two.maintain()
    assert states(two)["a"] == "dead"
    two.groups.cancel("t", "a")
    with pytest.raises(GroupCanceled):
        two.groups.heartbeat("t", "a")
    clock.advance(600)
    two.maintain()
    assert states(two)["a"] == "canceled"


def test_a_paused_one_is_canceled_all_the_same(two: Holdfast, rival: Holdfast) -> None:
    rival.queues.pause("t/a")
    two.groups.cancel("t", "a")
    with pytest.raises(GroupCanceled):
        rival.claim("t/a")
    assert states(two)["a"] == "canceled"


@pytest.mark.parametrize("ordering", ["unordered", "per_key", "fifo"])
def test_removed_its_name_is_free_for_a_new_one(hf: Holdfast, ordering: str) -> None:
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "a", ordering=ordering)
    hf.publish_many("t", range(3), key="k")
    hf.claim("t/a", n=1)
    hf.groups.cancel("t", "a")
    assert hf.groups.remove("t", "a") is True
    assert (hf.groups.remove("t", "a"), states(hf)) == (False, {})
    hf.subscribe("t", "a", start="earliest")
    assert (states(hf), hf.stats("t/a").pending) == ({"a": "active"}, 3)


def test_what_it_has_claimed_is_not_settled_with_the_next_claim_either(two: Holdfast, rival: Holdfast) -> None:
    two.publish_many("t", range(2))
    held = rival.claim("t/a", n=2)
    two.groups.cancel("t", "a")
    with pytest.raises((LeaseLost, GroupCanceled)):
        rival.claim("t/a", ack=held)
    with pytest.raises(LeaseLost):
        held[0].ack()


def test_who_did_it_stands_in_the_audit(client: OpenClient, hf: Holdfast) -> None:
    subscribed(hf, "a")
    assert (hf.groups.cancel("t", "nobody"), hf.groups.cancel("u", "a")) == (False, False)
    mia = client(actor="mia")
    mia.groups.cancel("t", "a")
    [record] = hf.audit.list()
    assert (record.actor, record.act, record.queue, record.count) == ("mia", "cancel_group", "t/a", 1)


def test_on_asyncio(hf: Holdfast, url: str) -> None:
    subscribed(hf, "a")

    async def work() -> None:
        async with AsyncHoldfast(url) as awaited:
            assert await awaited.groups.cancel("t", "a") is True
            with pytest.raises(GroupCanceled):
                await awaited.claim("t/a")

    asyncio.run(work())
