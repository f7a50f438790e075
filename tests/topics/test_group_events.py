"""What happens to groups is told to who finds out, and counted for everyone."""

from typing import Any

import pytest

from holdfast import CursorOutOfRange, Holdfast
from holdfast.events import GroupDied, GroupEvent, GroupOutOfRange, GroupRevived
from tests.client_names import method_of
from tests.clock import FakeClock
from tests.steps import OpenClient
from tests.stores import TOPICS
from tests.topics.publishing import die, done, retain, watch
from tests.worker.recorded import Recorded

pytestmark = pytest.mark.not_through_sqs(TOPICS)


class Told:
    """What a client was told, in order."""

    def __init__(self, hf: Holdfast) -> None:
        self.events: list[GroupEvent] = []
        hf.on(GroupEvent, self.events.append)

    def take(self) -> list[tuple[Any, ...]]:
        found = [(type(one), one.topic, one.group, *_number(one)) for one in self.events]
        self.events.clear()
        return found


def _number(event: GroupEvent) -> list[int]:
    return [getattr(event, name) for name in ("missing", "lost") if hasattr(event, name)]


def counts(hf: Holdfast, group: str) -> tuple[int, int, int]:
    [found] = [one for one in hf.groups.list("t") if one.group == group]
    return found.deaths, found.revivals, found.lost


@pytest.fixture
def watched(hf: Holdfast) -> Holdfast:
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "a", timeout=60)
    hf.subscribe("t", "b")
    return hf


def test_who_finds_out_is_told(watched: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    mine, others = Told(watched), Told(rival)
    die(watched, clock)
    watch(rival)
    assert (mine.take(), others.take()) == ([(GroupDied, "t", "a")], [])
    rival.claim("t/a")
    watched.groups.heartbeat("t", "a")
    assert (mine.take(), others.take()) == ([], [(GroupRevived, "t", "a", 0)])
    assert counts(watched, "a") == counts(rival, "a") == (1, 1, 0)


@pytest.mark.parametrize("way", ["groups.heartbeat", "subscribe"])
def test_whatever_brings_it_back_is_told_and_counted(watched: Holdfast, clock: FakeClock, way: str) -> None:
    told = Told(watched)
    for number in range(1, 4):
        die(watched, clock)
        method_of(watched, way)("t", "a")
        watched.subscribe("t", "a", timeout=60)
        assert told.take() == [(GroupDied, "t", "a"), (GroupRevived, "t", "a", 0)]
        assert counts(watched, "a") == (number, number, 0)


def test_what_is_lost_while_it_is_dead(watched: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    told = Told(watched)
    die(watched, clock)
    watched.publish_many("t", range(3))
    done(watched, "b")
    retain(watched)
    with pytest.raises(CursorOutOfRange):
        watched.claim("t/a")
    assert told.take() == [(GroupDied, "t", "a"), (GroupOutOfRange, "t", "a", 3), (GroupRevived, "t", "a", 3)]
    assert (counts(rival, "a"), counts(rival, "b")) == ((1, 1, 3), (0, 0, 0))


def test_what_is_lost_to_a_short_retention(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", retention=60, min_retention=0)
    hf.subscribe("t", "a")
    hf.subscribe("t", "b", patterns="t.b")
    told = Told(hf)
    hf.publish_many("t.a", range(3))
    hf.publish_many("t.b", range(2), priority=0)
    clock.advance(61)
    retain(hf)
    assert sorted(told.take(), key=str) == sorted(
        [(GroupOutOfRange, "t", "a", 3), (GroupOutOfRange, "t", "a", 2), (GroupOutOfRange, "t", "b", 2)], key=str
    )
    assert (counts(hf, "a"), counts(hf, "b")) == ((0, 0, 5), (0, 0, 2))


def test_one_that_begins_anew_has_died_of_nothing(watched: Holdfast, clock: FakeClock) -> None:
    die(watched, clock)
    watched.groups.heartbeat("t", "a")
    watched.groups.remove("t", "a")
    watched.subscribe("t", "a", timeout=60)
    assert counts(watched, "a") == (0, 0, 0)


def test_a_listener_that_fails_stops_nothing(watched: Holdfast, clock: FakeClock) -> None:
    watched.on(GroupDied, lambda event: 1 // 0)
    die(watched, clock)
    assert counts(watched, "a") == (1, 0, 0)


def test_they_are_measured(client: OpenClient, clock: FakeClock) -> None:
    hf, recorded = client(), Recorded()
    recorded.instrument(hf)
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "a", timeout=60)
    hf.subscribe("t", "b")
    die(hf, clock)
    hf.publish_many("t", range(3))
    done(hf, "b")
    retain(hf)
    with pytest.raises(CursorOutOfRange):
        hf.groups.heartbeat("t", "a")
    changes = {about: point.value for about, point in recorded.points("messaging.holdfast.group.changes").items()}
    assert changes == {("t", "died"): 1, ("t", "revived"): 1, ("t", "out_of_range"): 1}
    assert recorded.points("messaging.holdfast.group.lost")[("t", "out_of_range")].value == 3
