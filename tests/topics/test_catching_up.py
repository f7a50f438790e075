"""Late joiners: what was published before a group is claimed at its `catch_up_rate`, what comes after it at once."""

from __future__ import annotations

import time

import pytest

from holdfast import Holdfast, InvalidInput
from holdfast.client.client import internals
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies
from tests.stores import TOPICS

pytestmark = pytest.mark.not_through_sqs(TOPICS)

PAST = list(range(10))
LATE = "t/late"


@pytest.fixture(params=["unordered", "per_key"])
def ordering(request: pytest.FixtureRequest) -> str:
    """A group reads the log, or is fed from it."""
    return str(request.param)


@pytest.fixture
def late(hf: Holdfast, ordering: str) -> Holdfast:
    """A group that comes when there are ten messages, each with a key of its own, and may have three in ten seconds."""
    hf.topic("t")
    hf.publish_many("t", PAST, key=str)
    hf.subscribe("t", "late", start="earliest", catch_up_rate="3/10s", ordering=ordering, backoff=None, max_attempts=3)
    return hf


def progress(hf: Holdfast, group: str = LATE) -> tuple[int, int]:
    [status] = [one for one in hf.groups.list("t") if f"t/{one.group}" == group]
    return status.behind, status.past


def take(*members: Holdfast, group: str = LATE, n: int = 100) -> list[object]:
    """All that these members get now."""
    found: list[object] = []
    for member in members:
        while claims := member.claim(group, n=n):
            found += bodies(claims)
            member.ack(claims)
    return found


# --- the rate ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 100])
def test_the_past_comes_at_its_rate_over_all_members(late: Holdfast, rival: Holdfast, clock: FakeClock, n: int) -> None:
    found = take(late, rival, n=n)
    assert found == [0, 1, 2]
    clock.advance(9.999)
    assert take(rival, late, n=n) == []
    for _ in range(3):
        clock.advance(10.2)
        part = take(rival, late, n=n)
        assert len(part) <= 3
        found += part
    assert found == PAST


def test_what_comes_later_is_not_held_back_once_the_past_is_over(late: Holdfast, clock: FakeClock) -> None:
    late.publish_many("t", range(10, 50), key=str)
    found = []
    for _ in range(4):
        clock.advance(10.2)
        found.append(take(late))
    assert found == [[0, 1, 2], [3, 4, 5], [6, 7, 8], list(range(9, 50))]
    late.publish_many("t", range(50, 90), key=str)
    assert take(late) == list(range(50, 90))


def test_the_last_of_the_past_makes_a_group_live_at_once(late: Holdfast, clock: FakeClock) -> None:
    late.subscribe("t", "late", catch_up_rate="10/10s")
    assert take(late) == PAST
    late.publish_many("t", range(10, 50), key=str)
    assert take(late) == list(range(10, 50))


def test_another_group_is_not_touched(late: Holdfast) -> None:
    late.subscribe("t", "free", start="earliest")
    late.subscribe("t", "now", catch_up_rate="3/10s")
    assert take(late) == [0, 1, 2]
    assert take(late, group="t/free") == PAST
    late.publish_many("t", range(10, 20), key=str)
    assert take(late, group="t/free") == take(late, group="t/now") == list(range(10, 20))


@pytest.mark.parametrize("priority", ["urgent", "low"])
def test_what_comes_later_with_another_priority_is_not_held_back(late: Holdfast, priority: str) -> None:
    assert take(late) == [0, 1, 2]
    late.publish_many("t", ["x", "y", "z", "zz"], key=str, priority=priority)
    assert take(late) == ["x", "y", "z", "zz"]


def test_the_rate_is_one_for_all_priorities(hf: Holdfast, clock: FakeClock, ordering: str) -> None:
    hf.topic("t")
    for priority in ("low", "high"):
        hf.publish_many("t", [f"{priority}{number}" for number in range(2)], key=str, priority=priority)
    hf.subscribe("t", "late", start="earliest", catch_up_rate="3/10s", ordering=ordering)
    assert take(hf) == ["high0", "high1", "low0"]
    clock.advance(10.2)
    assert take(hf) == ["low1"]


def test_what_comes_later_does_not_count(hf: Holdfast, ordering: str) -> None:
    hf.topic("t")
    hf.publish("t", "old", key="old", priority="high")
    hf.publish_many("t", ["slow1", "slow2", "slow3"], key=str)
    hf.subscribe("t", "late", start="earliest", catch_up_rate="3/10s", ordering=ordering)
    hf.publish_many("t", ["new1", "new2", "new3"], key=str, priority="high")
    assert sorted(map(str, take(hf))) == ["new1", "new2", "new3", "old", "slow1", "slow2"]


def test_only_what_a_group_wants_counts(hf: Holdfast, clock: FakeClock, ordering: str) -> None:
    hf.topic("t")
    for number in range(300):
        hf.publish("t.a" if number % 60 == 0 else "t.b", number, key=str(number))
    hf.subscribe("t", "late", patterns="t.a", start="earliest", catch_up_rate="3/10s", ordering=ordering)
    assert progress(hf) == (5, 5)
    found = take(hf)
    while internals(hf).store.reads.next_due([internals(hf).catalog.channel(LATE)]) == 0:
        found += take(hf)
    assert found == [0, 60, 120]
    clock.advance(10.2)
    hf.publish_many("t.a", range(300, 310), key=str)
    while internals(hf).store.reads.next_due([internals(hf).catalog.channel(LATE)]) == 0:
        found += take(hf)
    assert found == [0, 60, 120, 180, 240, *range(300, 310)]


def test_a_retry_does_not_count_again(late: Holdfast, clock: FakeClock) -> None:
    late.nack(late.claim(LATE, n=10), "again")
    assert sorted(map(int, take(late, n=1))) == [0, 1, 2]  # type: ignore[call-overload]
    clock.advance(10.2)
    assert take(late) == [3, 4, 5]


@pytest.mark.parametrize("limits", [{"rate": "2/10s"}, {"concurrency": 2}], ids=str)
def test_the_other_limits_of_a_group_hold_too(late: Holdfast, clock: FakeClock, limits: dict[str, str]) -> None:
    late.subscribe("t", "late", catch_up_rate="3/10s", **limits)  # type: ignore[arg-type]
    assert bodies(late.claim(LATE, n=10)) == [0, 1]


def test_the_rate_can_be_changed_and_lifted_on_the_way(late: Holdfast, clock: FakeClock) -> None:
    assert take(late) == [0, 1, 2]
    late.subscribe("t", "late", catch_up_rate="5/10s")
    assert take(late) == [3, 4]
    late.subscribe("t", "late", catch_up_rate=None)
    assert take(late) == [5, 6, 7, 8, 9]


def test_a_rate_that_comes_on_the_way(hf: Holdfast) -> None:
    hf.topic("t")
    hf.publish_many("t", PAST)
    hf.subscribe("t", "late", start="earliest")
    assert bodies(hf.claim(LATE, n=4)) == [0, 1, 2, 3]
    hf.subscribe("t", "late", catch_up_rate="3/10s")
    assert take(hf) == [4, 5, 6]


# --- where it begins --------------------------------------------------------------------------------------------------


def test_from_a_time_and_from_a_message(hf: Holdfast, clock: FakeClock, ordering: str) -> None:
    hf.topic("t")
    hf.publish_many("t", PAST[:5], key=str)
    clock.advance(1)
    first = hf.publish_many("t", PAST[5:], key=str)[0]
    clock.advance(1)
    began = first.id, hf.status(first.id).enqueued_at_us / 1_000_000  # type: ignore[union-attr]
    for number, start in enumerate(began):
        hf.subscribe("t", f"late{number}", start=start, catch_up_rate="3/10s", ordering=ordering)
        assert progress(hf, f"t/late{number}") == (5, 5)
        assert take(hf, group=f"t/late{number}") == [5, 6, 7]


def test_a_seek_has_the_past_before_it_again(late: Holdfast, clock: FakeClock) -> None:
    late.subscribe("t", "late", catch_up_rate="20/10s")
    late.publish_many("t", range(10, 15), key=str)
    assert take(late) == list(range(15))
    late.groups.seek("late", "earliest")
    assert progress(late) == (15, 15)
    late.publish("t", 15, key="15")
    assert take(late) == list(range(10))  # The ten from before the seek count.
    clock.advance(10.2)
    assert take(late) == list(range(10, 16))
    late.groups.seek("late", "latest")
    assert progress(late) == (0, 0)


# --- progress ---------------------------------------------------------------------------------------------------------


def test_progress(late: Holdfast, clock: FakeClock) -> None:
    assert progress(late) == (10, 10)
    late.publish("t", 10, key="10")
    assert progress(late) == (10, 10)
    take(late)
    assert progress(late) == (7, 10)
    for _ in range(3):
        clock.advance(10.2)
        take(late)
    assert progress(late) == (0, 10)


def test_progress_without_a_rate(hf: Holdfast, ordering: str) -> None:
    hf.topic("t")
    hf.subscribe("t", "now", ordering=ordering)
    hf.publish_many("t", PAST)
    hf.subscribe("t", "late", start="earliest", ordering="unordered")
    assert progress(hf, "t/now") == (0, 0)
    hf.claim(LATE, n=4)
    assert progress(hf) == (6, 10)
    take(hf)
    assert progress(hf) == (0, 10)


# --- waiting ----------------------------------------------------------------------------------------------------------


def test_who_waits_sleeps_until_the_rate_allows_more(late: Holdfast, clock: FakeClock) -> None:
    channel = internals(late).catalog.channel(LATE)
    take(late)
    due = internals(late).store.reads.next_due([channel])
    assert due == pytest.approx(10.0)
    late.publish("t", "x", priority="high")
    assert internals(late).store.reads.next_due([channel]) == 0


def test_a_sleeper_wakes_up_when_the_rate_allows_it(
    client: OpenClient, ordering: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.client.claim_loop.LONGEST_NAP", 3600.0)
    hf = client(clock=None)
    hf.topic("t")
    hf.publish_many("t", range(3), key=str)
    hf.subscribe("t", "late", start="earliest", catch_up_rate="1/300ms", ordering=ordering)
    began = time.monotonic()
    for number in range(3):
        [claim] = hf.claim(LATE, wait=3600)
        assert claim.message.body == number
    assert time.monotonic() - began >= 0.6


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [5, "5/s", "5/1000ms"])
def test_ways_to_write_a_rate(hf: Holdfast, rate: int | str) -> None:
    hf.topic("t")
    hf.publish_many("t", PAST)
    hf.subscribe("t", "late", start="earliest", catch_up_rate=rate)
    assert len(take(hf)) == 5


@pytest.mark.parametrize("rate", [0, -1, True, 1.5, "fast", "1/0s", []])
def test_no_rate(hf: Holdfast, rate: object) -> None:
    hf.topic("t")
    with pytest.raises(InvalidInput, match="catch_up_rate"):
        hf.subscribe("t", "late", catch_up_rate=rate)  # type: ignore[arg-type]
