"""When a group counts as dead, what that means for it, and how it comes back."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from holdfast import AsyncHoldfast, CursorOutOfRange, Holdfast, InvalidInput, UnknownGroup
from holdfast.client.client import internals
from holdfast.store.engine import history
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, inbox
from tests.stores import TOPICS
from tests.topics.publishing import die, done, kept, retain, troubles, watch
from tests.waiting import eventually

pytestmark = pytest.mark.not_through_sqs(TOPICS)

DAY = 86_400


@pytest.fixture
def watched(hf: Holdfast) -> Holdfast:
    """The topic t with two groups that may be silent for a minute."""
    hf.owner("mia")
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "a", timeout=60)
    hf.subscribe("t", "b", timeout=60, owner="mia")
    return hf


def test_without_a_timeout_a_group_lives_for_ever(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", retention="1000d", min_retention=0)
    hf.subscribe("t", "a")
    hf.subscribe("t", "b")
    hf.publish("t", 1)
    done(hf, "a")
    for _ in range(5):
        clock.advance(100 * DAY)
        assert watch(hf) == 0
    assert retain(hf) == 0
    assert bodies(hf.claim("t", group="b")) == [1]


def test_a_group_dies_after_its_timeout_and_three_misses(watched: Holdfast, clock: FakeClock) -> None:
    clock.advance(59)
    assert watch(watched) == 0
    for wait in (1, 12):
        clock.advance(wait)
        watched.groups.heartbeat("t", "a")
        assert watch(watched) == 0
    clock.advance(12)
    assert watch(watched) == 1
    assert watch(watched) == 0
    [error] = troubles(watched, "dead_group")
    assert "'t/b'" in error
    assert "84 s" in error
    assert [body["about"] for body in inbox(watched)] == ["t/b"]


def test_as_many_misses_as_the_group_says(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "a", timeout="1m", misses=1)
    clock.advance(60)
    assert watch(hf) == 1


def test_a_dead_group_holds_nothing(watched: Holdfast, clock: FakeClock) -> None:
    watched.publish_many("t", range(3))
    done(watched, "a")
    assert retain(watched) == 0
    die(watched, clock, beating="a")
    assert retain(watched) == 3
    assert kept(watched) == []


def test_if_all_groups_are_dead_messages_are_kept_for_those_who_come(watched: Holdfast, clock: FakeClock) -> None:
    watched.publish_many("t", range(3))
    done(watched, "a", "b")
    die(watched, clock)
    assert retain(watched) == 0
    clock.advance(DAY)
    assert retain(watched) == 3
    assert troubles(watched, "out_of_range") == []


@pytest.mark.parametrize("sign", ["claim", "heartbeat", "subscribe"])
def test_any_sign_of_life_revives_and_it_goes_on_where_it_was(watched: Holdfast, clock: FakeClock, sign: str) -> None:
    watched.publish_many("t", range(3))
    watched.ack(watched.claim("t", group="b"))
    die(watched, clock, beating="a")
    if sign == "heartbeat":
        watched.groups.heartbeat("t", "b")
    elif sign == "subscribe":
        watched.subscribe("t", "b", timeout=60)
    assert bodies(watched.claim("t", group="b", n=9)) == [1, 2]
    done(watched, "a")
    watched.publish("t", 3)
    clock.advance(59)
    assert watch(watched) == 0
    done(watched, "a")
    assert 3 in kept(watched), "and messages are kept for it again"


def test_who_was_dead_for_too_long_is_told_exactly_what_it_lost(watched: Holdfast, clock: FakeClock) -> None:
    watched.publish_many("t", range(5))
    watched.ack(watched.claim("t", group="b", n=2))
    done(watched, "a")
    die(watched, clock, beating="a")
    retain(watched)
    watched.publish("t", 5)
    for _ in range(2):
        with pytest.raises(CursorOutOfRange, match="removed 3 messages that 't/b'"):
            watched.claim("t", group="b", n=9)
    with pytest.raises(CursorOutOfRange, match=r"accept_loss\('t', 'b'\)"):
        watched.groups.heartbeat("t", "b")
    assert "3 messages" in troubles(watched, "out_of_range")[0]
    assert "lost 3 messages" in troubles(watched, "revived_group")[0]
    assert bodies(watched.claim("t", group="a", n=9)) == [5], "others do not notice"
    assert watched.groups.accept_loss("t", "b") == 3
    assert watched.groups.accept_loss("t", "b") == 0
    assert bodies(watched.claim("t", group="b", n=9)) == [5]


def test_from_the_first_sign_of_life_nothing_more_is_lost(watched: Holdfast, clock: FakeClock) -> None:
    watched.publish("t", 1)
    done(watched, "a")
    die(watched, clock, beating="a")
    retain(watched)
    with pytest.raises(CursorOutOfRange, match="removed 1 messages"):
        watched.claim("t", group="b")
    watched.publish("t", 2)
    done(watched, "a")
    assert retain(watched) == 0
    watched.groups.accept_loss("t", "b")
    assert bodies(watched.claim("t", group="b")) == [2]


def test_what_goes_before_someone_has_decided_is_lost_as_well(watched: Holdfast, clock: FakeClock) -> None:
    watched.publish_many("t", range(3))
    done(watched, "a")
    die(watched, clock, beating="a")
    retain(watched)
    watched.publish_many("t", range(5))
    with pytest.raises(CursorOutOfRange, match="removed 3 messages"):
        watched.claim("t", group="b")
    clock.advance(DAY)
    assert retain(watched) == 5
    with pytest.raises(CursorOutOfRange, match="removed 8 messages"):
        watched.claim("t", group="b")
    [error] = [error for error in troubles(watched, "out_of_range") if "'t/b'" in error]
    assert error.startswith("8 messages")
    assert error.endswith("claims nothing until you decide")
    assert watched.groups.accept_loss("t", "b") == 8
    watched.publish("t", "next")
    assert bodies(watched.claim("t", group="b", n=9)) == ["next"]


def test_who_has_decided_goes_on_whatever_retention_takes_later(watched: Holdfast, clock: FakeClock) -> None:
    watched.publish("t", 1)
    done(watched, "a")
    die(watched, clock, beating="a")
    retain(watched)
    assert watched.groups.accept_loss("t", "b") == 1
    watched.groups.heartbeat("t", "b")
    watched.publish("t", 2)
    clock.advance(DAY)
    retain(watched)
    watched.publish("t", 3)
    assert bodies(watched.claim("t", group="b", n=9)) == [3]


def test_a_group_that_lost_something_does_not_stop_what_is_claimed_beside_it(
    watched: Holdfast, clock: FakeClock
) -> None:
    watched.publish("t", 1)
    done(watched, "a")
    die(watched, clock, beating="a")
    retain(watched)
    watched.enqueue("q", "other")
    assert bodies(watched.claim("t/b", "q", n=9)) == ["other"]
    with pytest.raises(CursorOutOfRange):
        watched.claim("t/b", "q", n=9)


def test_what_came_along_with_such_a_claim_is_settled(client: OpenClient, watched: Holdfast, clock: FakeClock) -> None:
    member = client(worker="ben", sweep_every=1_000)
    watched.publish_many("t", range(2))
    held = member.claim("t", group="b", lease=1)
    done(watched, "a")
    clock.advance(1)
    die(watched, clock, beating="a")
    retain(watched)
    with pytest.raises(CursorOutOfRange, match="removed 1 messages"):
        member.claim("t", group="b", ack=held)
    watched.groups.accept_loss("t", "b")
    assert watched.claim("t", group="b", n=9) == []


def test_who_holds_a_lease_is_alive(watched: Holdfast, clock: FakeClock) -> None:
    """A handler that takes an hour claims nothing meanwhile; its lease is renewed."""
    watched.publish_many("t", range(2))
    held = watched.claim("t", group="b", lease=90)
    die(watched, clock, beating="a")
    watched.extend(held, 90)
    die(watched, clock, beating="a")
    assert troubles(watched, "dead_group") == []
    die(watched, clock, beating="a")
    die(watched, clock, beating="a")
    assert len(troubles(watched, "dead_group")) == 1


def test_retries_of_a_dead_group_wait_for_it(watched: Holdfast, clock: FakeClock) -> None:
    watched.publish("t", 1)
    watched.nack(watched.claim("t", group="b"), delay=0)
    done(watched, "a")
    die(watched, clock, beating="a")
    retain(watched)
    assert bodies(watched.claim("t", group="b", n=9)) == [1], "a row is a copy: nothing is lost"


def test_a_paused_group_does_not_die_of_its_silence(watched: Holdfast, clock: FakeClock) -> None:
    watched.queues.pause("t/b")
    die(watched, clock, beating="a")
    clock.advance(DAY)
    assert watch(watched) == 0
    assert troubles(watched, "dead_group") == []
    watched.queues.resume("t/b")
    assert watch(watched) == 0
    die(watched, clock)
    assert len(troubles(watched, "dead_group")) == 2


def test_a_dead_group_that_is_paused_is_owed_everything_again(watched: Holdfast, clock: FakeClock) -> None:
    watched.publish_many("t", range(2))
    done(watched, "a")
    die(watched, clock, beating="a")
    retain(watched)
    watched.queues.pause("t/b")
    assert "lost 2 messages" in troubles(watched, "revived_group")[0]
    watched.publish_many("t", range(2, 5))
    done(watched, "a")
    die(watched, clock, beating="a")
    assert retain(watched) == 0
    assert watched.claim("t", group="b", n=9) == []
    watched.queues.resume("t/b")
    with pytest.raises(CursorOutOfRange, match="removed 2 messages"):
        watched.claim("t", group="b", n=9)
    watched.groups.accept_loss("t", "b")
    assert bodies(watched.claim("t", group="b", n=9)) == [2, 3, 4]


def test_whoever_asks_for_work_is_heard(client: OpenClient, watched: Holdfast, clock: FakeClock) -> None:
    for number, wait in enumerate((60, 12, 12)):
        clock.advance(wait)
        watched.groups.heartbeat("t", "a")
        client(worker=f"w{number}").claim("t", group="b")
        assert watch(watched) == 0


@pytest.mark.parametrize("timeout", [0.5, 2, 600])
def test_however_short_the_timeout_who_asks_for_work_is_heard(
    client: OpenClient, hf: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, timeout: float
) -> None:
    """A client notes by its own clock that it was heard; here both clocks go at the same pace."""
    monkeypatch.setattr("holdfast.client.last_seen.time", SimpleNamespace(monotonic=lambda: clock() / 1_000_000))
    member = client(worker="ben", sweep_every=1_000)
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "a", timeout=timeout, misses=1)
    for _ in range(60):
        clock.advance(timeout / 20)
        assert member.claim("t", group="a") == []
        assert watch(hf) == 0
    clock.advance(timeout)
    assert watch(hf) == 1


def test_who_waits_for_work_wakes_up_to_be_heard(client: OpenClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.client.claim_loop.LONGEST_NAP", 3_600.0)
    hf, member = client(clock=None), client(clock=None, worker="ben")
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "a", timeout=0.3)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(member.claim, "t", group="a", wait=3_600)
        moments: set[float | None] = set()
        try:
            eventually(lambda: moments.add(hf.groups.list("t")[0].last_seen_us) or len(moments) > 3)
        finally:
            hf.publish("t", 1)
        assert bodies(waiting.result(60)) == [1]


def test_a_consumer_that_was_forgotten_has_been_heard_all_the_same(
    client: OpenClient, hf: Holdfast, clock: FakeClock
) -> None:
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "a", timeout="2h", misses=1)
    clock.advance(3_600)
    client(worker="w").claim("t", group="a")
    watch(hf)
    clock.advance(3_600)
    channel = internals(hf).catalog.channel("t/a")
    internals(hf).store.database.write(lambda tx: history.prune(tx, channel, 100))  # type: ignore[attr-defined]
    assert hf.stats("t/a").consumer_count == 0
    assert watch(hf) == 0, "its row is gone, and two hours are not over"
    clock.advance(3_600)
    assert watch(hf) == 1


def test_one_who_begins_anew_has_lost_nothing(watched: Holdfast, clock: FakeClock) -> None:
    watched.publish("t", 1)
    done(watched, "a")
    die(watched, clock, beating="a")
    retain(watched)
    watched.groups.remove("t", "b")
    watched.subscribe("t", "b")
    watched.publish("t", 2)
    assert bodies(watched.claim("t", group="b", n=9)) == [2]


def test_there_has_to_be_such_a_group(hf: Holdfast) -> None:
    hf.topic("t", min_retention=0)
    with pytest.raises(UnknownGroup):
        hf.groups.heartbeat("t", "nobody")
    with pytest.raises(UnknownGroup):
        hf.groups.accept_loss("t", "nobody")


@pytest.mark.parametrize(
    "settings", [{"timeout": 0}, {"timeout": -1}, {"misses": 0}, {"misses": 1.5}, {"misses": True}]
)
def test_settings_that_make_no_sense_are_refused(hf: Holdfast, settings: dict[str, object]) -> None:
    hf.topic("t", min_retention=0)
    with pytest.raises(InvalidInput, match=next(iter(settings))):
        hf.subscribe("t", "a", **settings)  # type: ignore[arg-type]


def test_a_seek_decides_as_well(watched: Holdfast, clock: FakeClock) -> None:
    watched.publish("t", 1)
    done(watched, "a")
    die(watched, clock, beating="a")
    retain(watched)
    watched.publish("t", 2)
    with pytest.raises(CursorOutOfRange, match=r"hf.groups.seek\('b'"):
        watched.claim("t", group="b")
    watched.groups.seek("b", "earliest")
    assert bodies(watched.claim("t", group="b", n=9)) == [2]


async def beats_awaited(url: str, clock: FakeClock) -> int:
    async with AsyncHoldfast(url, clock=clock) as hf:
        await hf.groups.heartbeat("t", "a")
        with pytest.raises(CursorOutOfRange):
            await hf.groups.heartbeat("t", "b")
        return await hf.groups.accept_loss("t", "b")


def test_the_same_awaited(watched: Holdfast, clock: FakeClock, url: str) -> None:
    watched.publish("t", 1)
    done(watched, "a")
    die(watched, clock, beating="a")
    retain(watched)
    assert asyncio.run(beats_awaited(url, clock)) == 1
