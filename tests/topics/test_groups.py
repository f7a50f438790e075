"""Groups: each gets all that it wants, from where it begins, and what happens to it there is its own."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import Holdfast, InvalidInput, LeaseLost, NotFound, UnknownGroup
from holdfast.client.client import internals
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, counts
from tests.stores import TOPICS
from tests.topics.topic_steps import lag, read_all, told

pytestmark = [pytest.mark.behind_pooler(long=True), pytest.mark.not_through_sqs(TOPICS)]

UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.fixture
def hf(client: OpenClient) -> Holdfast:
    hf = client(worker="anna")
    hf.topic("t")
    return hf


# --- who gets what ----------------------------------------------------------------------------------------------------


def test_every_group_gets_everything(two: Holdfast) -> None:
    two.publish_many("t.x", range(25))
    assert (read_all(two, "a"), read_all(two, "b", n=100)) == (list(range(25)), list(range(25)))


def test_members_of_a_group_compete(two: Holdfast, rival: Holdfast) -> None:
    two.publish_many("t", range(300))

    def work(hf: Holdfast) -> list[Any]:
        return read_all(hf, "a", n=7)

    with ThreadPoolExecutor(4) as pool:
        seen = Counter(body for found in pool.map(work, [two, rival, two, rival]) for body in found)
    assert seen == Counter(range(300))
    assert lag(two, "b") == 300


def test_a_claim_may_be_a_member_of_several_topics_groups(hf: Holdfast) -> None:
    hf.topic("u")
    for topic in ("t", "u"):
        hf.subscribe(topic, "a")
        hf.publish(topic, topic)
    assert [(one.queue, one.message.body) for one in hf.claim("t", "u", group="a", n=5)] == [("t/a", "t"), ("u/a", "u")]


@pytest.mark.parametrize(
    ("patterns", "wanted"),
    [
        (["t"], [0]),
        (["t.*"], [1, 4]),
        (["t.**"], [0, 1, 2, 3, 4]),
        (["t.x.**"], [1, 2]),
        (["t.*.y"], [2, 3]),
        (["t.z.y", "t.z_"], [3, 4]),
        (["t._", "t.%"], []),
        ("t.z.y", [3]),
    ],
)
@pytest.mark.parametrize("n", [1, 10])
def test_a_group_gets_what_fits_its_patterns(hf: Holdfast, patterns: Any, wanted: list[int], n: int) -> None:
    hf.subscribe("t", "a", patterns=patterns)
    told(hf, ("t", 0), ("t.x", 1), ("t.x.y", 2), ("t.z.y", 3), ("t.z_", 4))
    assert (lag(hf, "a"), [one.body for one in hf.queues.peek("t/a")]) == (len(wanted), wanted)
    assert read_all(hf, "a", n=n) == wanted
    assert counts(hf, "t/a") == (0, 0, 0, 0)


def test_one_of_a_thousand_is_found_at_once(hf: Holdfast) -> None:
    hf.subscribe("t", "a", patterns="t.rare")
    for turn in range(3):
        hf.publish_many("t.common", range(999))
        hf.publish("t.rare", turn)
        assert (lag(hf, "a"), bodies(hf.claim("t/a", n=10))) == (1, [turn])


def test_a_group_that_wants_none_of_very_many_gets_past_them(hf: Holdfast) -> None:
    """One claim passes by only so many; one that waits goes on instead of sleeping."""
    hf.subscribe("t", "a", patterns="t.rare")
    for _ in range(3):
        hf.publish_many("t.common", [0] * 10_000)
    hf.publish("t.rare", "found")
    assert bodies(hf.claim("t/a", wait=4)) == ["found"]


def test_other_patterns_hold_from_then_on(hf: Holdfast) -> None:
    hf.subscribe("t", "a", patterns="t.x")
    told(hf, ("t.x", 1), ("t.y", 2))
    assert read_all(hf, "a") == [1]
    hf.subscribe("t", "a", patterns=["t.y"])
    told(hf, ("t.x", 3), ("t.y", 4))
    assert read_all(hf, "a") == [4]
    hf.subscribe("t", "a", patterns=None)
    told(hf, ("t.x", 5), ("t.y", 6))
    assert read_all(hf, "a") == [5, 6]


# --- where it begins --------------------------------------------------------------------------------------------------


def test_latest_is_exact(hf: Holdfast) -> None:
    hf.publish_many("t", range(3), priority="high")
    hf.subscribe("t", "a")
    hf.publish("t", 3, priority="high")
    hf.publish("t", 4, priority="low")
    assert read_all(hf, "a") == [3, 4]


def test_earliest_is_all_there_is(hf: Holdfast) -> None:
    hf.publish("t", 1)
    hf.subscribe("t", "first", start="earliest")
    assert read_all(hf, "first") == [1]
    hf.publish("t", 2, priority="low")
    hf.subscribe("t", "a", start="earliest")
    hf.publish("t", 3)
    assert (read_all(hf, "a"), read_all(hf, "first")) == ([1, 3, 2], [3, 2])


def test_a_time_is_the_first_message_not_older(hf: Holdfast, clock: FakeClock) -> None:
    moments = []
    for body in range(4):
        moments.append(clock() / 1_000_000)
        hf.publish("t", body, priority=["normal", "low"][body % 2])
        clock.advance(10)
    starts: dict[str, Any] = {
        "exact": moments[2],
        "between": moments[1] + 1,
        "aware": datetime.fromtimestamp(moments[2], UTC),
        "before": 0,
        "after": clock() / 1_000_000 + 1,
    }
    for group, start in starts.items():
        hf.subscribe("t", group, start=start)
    hf.publish("t", "new")
    late = [2, "new", 3]
    found = {group: read_all(hf, group) for group in starts}
    assert found == {"exact": late, "between": late, "aware": late, "before": [0, 2, "new", 1, 3], "after": ["new"]}


def test_an_id_is_that_message_and_what_came_after(hf: Holdfast, clock: FakeClock) -> None:
    ids = []
    for body in range(4):
        ids.append(hf.publish("t", body, priority=["normal", "high"][body % 2]).id)
        clock.advance(1)
    hf.subscribe("t", "a", start=ids[1])
    hf.subscribe("t", "b", start=ids[2])
    hf.publish("t", "new")
    assert (read_all(hf, "a"), read_all(hf, "b")) == ([1, 3, 2, "new"], [3, 2, "new"])


def test_an_id_that_is_not_there_is_no_beginning(hf: Holdfast) -> None:
    hf.topic("u")
    elsewhere = hf.publish("u", 1).id
    queued = hf.enqueue("q", 1).id
    for start in (UNKNOWN, elsewhere, queued):
        with pytest.raises(NotFound, match="not in this topic"):
            hf.subscribe("t", "a", start=start)
        with pytest.raises(UnknownGroup):
            hf.claim("t/a")


def test_who_is_there_already_goes_on_where_it_was(hf: Holdfast) -> None:
    hf.publish_many("t", range(5))
    hf.subscribe("t", "a", start="earliest")
    held = hf.claim("t/a", n=2)
    for start in ("latest", "earliest", UNKNOWN):
        hf.subscribe("t", "a", start=start, max_attempts=1)
    hf.ack(held)
    [last] = hf.claim("t/a")
    last.nack("no")
    assert (read_all(hf, "a"), hf.stats("t/a").dead) == ([3, 4], 1)


# --- what happens in one group ----------------------------------------------------------------------------------------


def test_a_failure_is_the_groups_own(two: Holdfast, clock: FakeClock) -> None:
    two.subscribe("t", "a", backoff=[10], max_attempts=2)
    two.publish_many("t", range(3))
    claims = two.claim("t/a", n=3)
    claims[1].nack("no")
    two.ack([claims[0], claims[2]])
    assert counts(two, "t/a") == (0, 1, 0, 0)
    assert read_all(two, "b") == [0, 1, 2]
    clock.advance(9)
    assert two.claim("t/a") == []
    clock.advance(1)
    [again] = two.claim("t/a", n=5)
    assert (again.message.body, again.message.topic, again.attempt) == (1, "t", 2)
    again.nack("no")
    [dead] = two.dead_letters.list("t/a")
    assert (dead.queue, dead.message.body, dead.message.topic, dead.attempts) == ("t/a", 1, "t", 2)
    assert (two.dead_letters.list("t/b"), counts(two, "t/b")) == ([], (0, 0, 0, 0))
    two.dead_letters.replay(dead.id)
    assert (read_all(two, "a"), read_all(two, "b"), two.dead_letters.list()[0].replay_state) == ([1], [], "succeeded")


def test_one_message_may_fail_and_die_in_every_group(two: Holdfast) -> None:
    for group in ("a", "b"):
        two.subscribe("t", group, backoff=None, max_attempts=2, dead_letter="graves")
    receipt = two.publish("t.x", 1)
    for _ in range(2):
        for group in ("a", "b"):
            [claim] = two.claim("t", group=group)
            claim.nack(group)
    letters = two.dead_letters.list()
    assert [(one.queue, one.error) for one in letters] == [("t/a", "a"), ("t/b", "b")]
    assert {one.message.id for one in letters} == {receipt.id}
    told_of = [one.body["original_message"] for one in two.queues.peek("graves")]
    assert [(one["queue"], one["topic"]) for one in told_of] == [("t/a", "t.x"), ("t/b", "t.x")]
    assert two.dead_letters.replay_many("t/a") == 1
    assert (lag(two, "a"), lag(two, "b")) == (1, 0)


def test_a_lease_that_lapses_comes_back_to_its_group_only(two: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    two.publish_many("t", range(3))
    lost = two.claim("t/a", n=3, lease=10)
    lost[1].ack()
    clock.advance(11)
    assert [bodies(rival.claim("t/a", n=5)) for _ in range(3)] == [[0], [2], []]
    assert (read_all(rival, "b"), rival.stats("t/b").timeout_rate) == ([0, 1, 2], 0)
    with pytest.raises(LeaseLost):
        lost[0].ack()


def test_a_lapse_of_a_run_with_gaps_brings_back_what_was_wanted(hf: Holdfast, clock: FakeClock) -> None:
    hf.subscribe("t", "a", patterns="t.x")
    told(hf, ("t.y", 0), ("t.x", 1), ("t.y", 2), ("t.x", 3), ("t.y", 4), ("t.x", 5))
    claims = hf.claim("t/a", n=5, lease=10)
    assert (bodies(claims), hf.stats("t/a").processing) == ([1, 3, 5], 3)
    claims[1].ack()
    clock.advance(11)
    assert sorted(body for _ in range(3) for body in bodies(hf.claim("t/a", n=5))) == [1, 5]


@pytest.mark.parametrize("patterns", [None, ["t.x"]], ids=["all", "some"])
def test_a_run_ends_in_parts_or_at_once(hf: Holdfast, patterns: Any) -> None:
    hf.subscribe("t", "a", patterns=patterns)
    hf.subscribe("t", "b", patterns=patterns)
    for body in range(6):
        hf.publish("t.y", None) if patterns else None
        hf.publish("t.x", body)
    claims = hf.claim("t/a", n=6)
    claims[0].ack()
    claims[1].nack("no", delay=60)
    claims[2].release()
    claims[3].snooze(60)
    claims[4].dead_letter("no")
    claims[5].ack()
    with pytest.raises(LeaseLost):
        claims[1].ack()
    assert counts(hf, "t/a") == (1, 2, 0, 1)
    whole = hf.claim("t/b", n=6)
    assert hf.claim("t/b", n=6, ack=whole) == []
    assert [claim.ended for claim in whole] == ["acked"] * 6
    assert counts(hf, "t/b") == (0, 0, 0, 0)
    assert hf.stats("t/b").completion_rate == pytest.approx(6 / 60)


def test_acks_of_a_batch_travel_with_the_next_claim(two: Holdfast) -> None:
    two.publish_many("t", range(50))
    found, finished = [], []
    while finished := two.claim("t/a", n=8, ack=finished):
        found += bodies(finished)
    assert (found, counts(two, "t/a"), lag(two, "b")) == (list(range(50)), (0, 0, 0, 0), 50)


def test_results_of_groups_do_not_collide(two: Holdfast) -> None:
    first = two.publish("t", 1, idempotency_key="k")
    for group in ("a", "b"):
        [claim] = two.claim("t", group=group)
        claim.ack(result=group)
    again = two.publish("t", 1, idempotency_key="k")
    assert (again.id, again.duplicate) == (first.id, True)


def test_what_expired_is_not_handed_out_and_holds_up_nothing(two: Holdfast, clock: FakeClock) -> None:
    for body in range(6):
        two.publish("t", body, ttl=10 if body in (0, 2, 3) else None)
    assert bodies(two.claim("t/a", n=2)) == [0, 1]
    clock.advance(11)
    assert (read_all(two, "a"), read_all(two, "b", n=3), read_all(two, "b", n=1)) == ([4, 5], [1, 4, 5], [])


def test_a_pause_is_the_groups_own_and_loses_nothing(two: Holdfast) -> None:
    two.queues.pause("t/a")
    two.publish_many("t", range(3))
    assert (two.claim("t/a"), lag(two, "a"), two.queues.is_paused("t/b"), read_all(two, "b")) == (
        [],
        3,
        False,
        [0, 1, 2],
    )
    two.queues.resume("t/a")
    assert read_all(two, "a") == [0, 1, 2]


def test_limits_are_the_groups_own(two: Holdfast, clock: FakeClock) -> None:
    two.subscribe("t", "a", concurrency=2)
    two.subscribe("t", "b", rate="3/m", lease="1h")
    two.publish_many("t", range(5))
    held = two.claim("t/a", n=5)
    assert (bodies(held), two.claim("t/a")) == ([0, 1], [])
    assert (bodies(two.claim("t/b", n=5)), two.claim("t/b")) == ([0, 1, 2], [])
    two.ack(held)
    clock.advance(60)
    assert (bodies(two.claim("t/a", n=5)), bodies(two.claim("t/b", n=5))) == ([2, 3], [3, 4])


def test_a_purge_is_the_groups_own(two: Holdfast) -> None:
    two.publish_many("t", range(4), priority="low")
    [held] = two.claim("t/a")
    two.claim("t/a")[0].nack("no", delay=60)
    assert (two.queues.purge("t/a"), counts(two, "t/a")) == (3, (0, 0, 1, 0))
    two.publish("t", 4)
    held.ack()
    assert (read_all(two, "a"), read_all(two, "b")) == ([4], [4, 0, 1, 2, 3])


def test_numbers_of_a_group(two: Holdfast, clock: FakeClock) -> None:
    two.publish_many("t", range(4))
    clock.advance(5)
    two.publish("t", 4, priority="urgent")
    assert counts(two, "t/a") == (5, 0, 0, 0)
    assert (two.stats("t/a").age_of_oldest_item, [one.body for one in two.queues.peek("t/a", 3)]) == (5, [4, 0, 1])
    claims = two.claim("t/a", n=3)
    assert counts(two, "t/a") == (2, 0, 3, 0)
    claims[0].nack("no", delay=60)
    claims[1].release()
    claims[2].dead_letter("no")
    assert counts(two, "t/a") == (3, 1, 0, 1)
    load = internals(two).store.reads.load([internals(two).catalog.channel("t/a")])
    assert (load.depth, two.stats("t/a").consumer_count) == (3, 1)
    assert sorted(read_all(two, "a")) == [0, 2, 3]
    assert counts(two, "t/a") == (0, 1, 0, 1)


# --- the end ----------------------------------------------------------------------------------------------------------


def test_a_group_that_has_ended_is_owed_nothing(
    two: Holdfast, rival: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.client.catalog.FRESH", 3600.0)  # However slow the machine is.
    two.subscribe("t", "a", backoff=None)
    two.publish_many("t", range(4))
    rival.stats("t/a")
    held, failed, dead = two.claim("t/a", n=3)
    failed.nack("no")
    dead.dead_letter("no")
    assert two.groups.remove("t", "a") is True
    assert two.groups.remove("t", "a") is False
    assert rival.claim("t/a") == []  # It has not heard of it yet.
    for ending in (held.ack, held.extend, held.release):
        with pytest.raises(LeaseLost):
            ending()
    with pytest.raises(UnknownGroup):
        two.claim("t", group="a")
    [letter] = two.dead_letters.list()
    assert letter.queue == "t/a"
    with pytest.raises(UnknownGroup):
        two.dead_letters.replay(letter.id)
    assert (two.dead_letters.replay_many(), read_all(two, "b")) == (0, [0, 1, 2, 3])
    while two.maintain():
        pass


def test_to_subscribe_again_is_to_begin_anew(two: Holdfast) -> None:
    two.publish_many("t", range(4))
    [held] = two.claim("t/a")
    two.claim("t/a")[0].nack("no")
    two.queues.pause("t/a")
    two.groups.remove("t", "a")
    two.subscribe("t", "a")
    assert (counts(two, "t/a"), two.queues.is_paused("t/a")) == ((0, 0, 0, 0), False)
    with pytest.raises(LeaseLost):
        held.ack()
    two.publish("t", "new")
    assert read_all(two, "a") == ["new"]
    two.groups.remove("t", "a")
    two.subscribe("t", "a", start="earliest")
    assert read_all(two, "a") == [0, 1, 2, 3, "new"]


def test_nobody_ends_what_never_was(two: Holdfast) -> None:
    assert (two.groups.remove("t", "c"), two.groups.remove("u", "a")) == (False, False)
    with pytest.raises(NotFound):
        two.subscribe("u", "a")
    with pytest.raises(InvalidInput):
        two.groups.remove("t.*", "a")


def test_many_groups_of_one_topic(hf: Holdfast) -> None:
    for number in range(40):
        hf.subscribe("t", f"g{number}", patterns=[f"t.{number % 2}"])
    told(hf, ("t.0", "even"), ("t.1", "odd"))
    assert [read_all(hf, f"g{number}") for number in range(40)] == [["even"], ["odd"]] * 20
