"""The nine pitfalls of cleaning up after dead groups, each as a test; the ninth is why a claim is a heartbeat too."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import Holdfast, LeaseLost, UnknownGroup
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies
from tests.stores import TOPICS
from tests.topics.publishing import die, done, kept, retain, troubles, watch

pytestmark = pytest.mark.not_through_sqs(TOPICS)

FOUR = ("a", "b", "c", "d")


@pytest.fixture
def four(hf: Holdfast) -> Holdfast:
    """The topic t with four groups that may be silent for a minute."""
    hf.topic("t", min_retention=0)
    for group in FOUR:
        hf.subscribe("t", group, timeout=60)
    return hf


def test_1_a_message_that_comes_while_a_group_is_found_dead_is_owed_to_the_others(
    four: Holdfast, clock: FakeClock
) -> None:
    for number, wait in enumerate((60, 12, 12)):
        clock.advance(wait)
        for group in "abc":
            four.groups.heartbeat("t", group)
        four.publish("t", number)
        watch(four)
    four.publish("t", 3)
    retain(four)
    for group in "abc":
        assert bodies(four.claim("t", group=group, n=9)) == [0, 1, 2, 3]
    assert bodies(four.claim("t", group="d", n=9)) == [0, 1, 2, 3], "nothing was lost, as the others were not done"


def test_2_a_flapping_group_does_not_die(four: Holdfast, clock: FakeClock) -> None:
    for _ in range(20):
        clock.advance(60)
        watch(four)
        clock.advance(12)
        watch(four)
        for group in FOUR:
            four.groups.heartbeat("t", group)
        watch(four)
    assert troubles(four, "dead_group") == []


def test_2_a_claim_now_and_then_is_enough(client: OpenClient, four: Holdfast, clock: FakeClock) -> None:
    for number in range(4):
        clock.advance(60)
        watch(four)
        clock.advance(12)
        watch(four)
        for group in FOUR:
            client(worker=f"w{number}").claim("t", group=group)
        watch(four)
    assert troubles(four, "dead_group") == []


def test_2_looking_often_is_not_missing_often(four: Holdfast, clock: FakeClock) -> None:
    clock.advance(60)
    assert [watch(four) for _ in range(10)] == [0] * 10


def test_3_who_was_only_cut_off_goes_on_where_it_was(four: Holdfast, clock: FakeClock) -> None:
    four.publish_many("t", range(5))
    four.ack(four.claim("t", group="d", n=2))
    die(four, clock, beating="abc")
    retain(four)
    four.groups.heartbeat("t", "d")
    clock.advance(59)
    assert watch(four) == 0, "its misses are forgotten"
    assert bodies(four.claim("t", group="d", n=9)) == [2, 3, 4]


def test_4_only_the_clock_of_the_database_counts(
    four: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    four.publish("t", 1)
    monkeypatch.setattr("time.time", lambda: 4e9)
    monkeypatch.setattr("time.time_ns", lambda: int(4e18))
    assert [watch(four) for _ in range(5)] == [0] * 5
    assert retain(four) == 0


def test_5_cleaning_up_again_and_again_takes_nothing_from_the_living(four: Holdfast, clock: FakeClock) -> None:
    """Two of four die one after the other: a counter of how many are still owed would be lowered twice."""
    four.publish_many("t", range(3))
    die(four, clock, beating="abc")
    for _ in range(3):
        assert retain(four) == 0
    die(four, clock, beating="ab")
    for _ in range(3):
        assert retain(four) == 0
    done(four, "a")
    for _ in range(3):
        assert retain(four) == 0
    assert bodies(four.claim("t", group="b", n=9)) == [0, 1, 2]


def test_5_what_died_half_way_is_done_by_the_next(
    four: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("holdfast.notices.steps.report", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            die(four, clock)
    assert troubles(four, "dead_group") == []
    assert watch(four) == 4
    assert len(troubles(four, "dead_group")) == 4


@pytest.mark.parametrize("end", [Holdfast.ack, Holdfast.nack, Holdfast.release], ids=["ack", "nack", "release"])
def test_6_work_that_a_dead_group_still_has_is_whole_and_may_end(
    client: OpenClient, four: Holdfast, clock: FakeClock, end: Callable[..., None]
) -> None:
    member = client(worker="ben", sweep_every=1_000)
    four.publish_many("t", range(4))
    held = member.claim("t", group="d", n=2, lease=1)
    done(four, *"abc")
    clock.advance(1)
    die(four, clock, beating="abc")
    assert retain(four) == 2, "and not what it holds"
    end(member, held)
    assert retain(four) == 2
    assert four.groups.accept_loss("t", "d") == 2
    clock.advance(60)
    found = []
    while claims := four.claim("t", group="d", n=9):
        found += bodies(claims)
        four.ack(claims)
    assert sorted(found) == ([] if end is Holdfast.ack else [0, 1])


def test_7_all_members_coming_back_at_once_revive_it_once(client: OpenClient, four: Holdfast, clock: FakeClock) -> None:
    four.publish_many("t", range(40))
    die(four, clock, beating="abc")
    members = [client(worker=f"w{number}") for number in range(8)]
    together = threading.Barrier(len(members))

    def claim(member: Holdfast) -> list[int]:
        together.wait(30)
        return bodies(member.claim("t", group="d", n=5))

    with ThreadPoolExecutor(len(members)) as threads:
        got = [body for found in threads.map(claim, members) for body in found]
    got += bodies(four.claim("t", group="d", n=40))  # Who came in the middle of the revival may have found nothing.
    assert sorted(got) == list(range(40))
    assert [notice.repeats for notice in four.notices.list() if notice.kind == "revived_group"] == [0]


def test_8_a_member_of_a_group_that_was_ended_is_told(
    client: OpenClient, four: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.client.catalog.FRESH", 3600.0)  # However slow the machine is.
    member = client(worker="ben")
    four.publish_many("t", range(2))
    held = member.claim("t", group="d")
    four.groups.remove("t", "d")
    with pytest.raises(LeaseLost):
        member.ack(held)
    with pytest.raises(UnknownGroup, match="has ended"):
        member.groups.heartbeat("t", "d")
    assert member.claim("t", group="d") == []
    done(four, *"abc")
    assert retain(four) == 2
    assert kept(four) == []


def test_9_claiming_is_enough_of_a_heartbeat(client: OpenClient, four: Holdfast, clock: FakeClock) -> None:
    """No thread, no connection and no call of its own that could starve."""
    for number, wait in enumerate((60, 12, 12, 12)):
        clock.advance(wait)
        for group in FOUR:
            client(worker=f"w{number}").claim("t", group=group)
        assert watch(four) == 0
