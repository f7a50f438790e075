"""Known ways in which topics break, and the test that would see it; those without a test elsewhere are below.

The pitfalls are those of cleaning up after dead groups, the traps are what other implementations got wrong, O and P are
ids of the failure catalogue. `tests/architecture/test_named_tests.py` checks that every test in this table exists.

| id | what must not happen | test |
|---|---|---|
| pitfall 1 | what is published while a group is found dead is owed wrongly | topics/test_dead_groups.py::test_1_a_message_that_comes_while_a_group_is_found_dead_is_owed_to_the_others |
| pitfall 2 | a group that flaps dies | topics/test_dead_groups.py::test_2_a_flapping_group_does_not_die |
| pitfall 2 | one that dies and boots for ever holds messages for ever | topics/test_topic_pitfalls.py::test_a_group_that_beats_and_never_reads_holds_nothing_past_retention |
| pitfall 3 | who was only cut off starts over, or stays out | topics/test_dead_groups.py::test_3_who_was_only_cut_off_goes_on_where_it_was |
| pitfall 4 | the clock of a computer decides | topics/test_dead_groups.py::test_4_only_the_clock_of_the_database_counts |
| pitfall 5 | cleaning up twice takes something from the living | topics/test_dead_groups.py::test_5_cleaning_up_again_and_again_takes_nothing_from_the_living |
| pitfall 5 | a clean-up that crashed is not done again | topics/test_dead_groups.py::test_5_what_died_half_way_is_done_by_the_next |
| pitfall 6 | work in the hands of a dead group is torn | topics/test_dead_groups.py::test_6_work_that_a_dead_group_still_has_is_whole_and_may_end |
| pitfall 7 | all members revive it at once | topics/test_dead_groups.py::test_7_all_members_coming_back_at_once_revive_it_once |
| pitfall 7 | to subscribe again does not revive | topics/test_liveness.py::test_any_sign_of_life_revives_and_it_goes_on_where_it_was |
| pitfall 8 | a member works on for a group that was ended | topics/test_dead_groups.py::test_8_a_member_of_a_group_that_was_ended_is_told |
| pitfall 9 | heartbeats starve | topics/test_dead_groups.py::test_9_claiming_is_enough_of_a_heartbeat |
| pitfall 9 | long work is taken for silence | topics/test_liveness.py::test_who_holds_a_lease_is_alive |
| trap 1 | what a dead group did not do stays for ever | topics/test_liveness.py::test_a_dead_group_holds_nothing |
| trap 1 | cleaning up hides messages from those who come later | topics/test_liveness.py::test_if_all_groups_are_dead_messages_are_kept_for_those_who_come |
| trap 2 | what nobody subscribed to is never removed | topics/test_retention.py::test_what_nobody_subscribed_to_is_kept_for_its_retention |
| trap 3 | a pause loses messages | topics/test_retention.py::test_a_paused_group_is_still_owed |
| trap 4 | a paused group gets messages | topics/test_groups.py::test_a_pause_is_the_groups_own_and_loses_nothing |
| trap 4 | a group that has ended gets messages | topics/test_groups.py::test_a_group_that_has_ended_is_owed_nothing |
| trap 5 | dead letters starve their group, and pin the messages | topics/test_topic_pitfalls.py::test_dead_letters_neither_starve_their_group_nor_pin_messages |
| trap 6 | what failed is fetched at once | topics/test_groups.py::test_a_failure_is_the_groups_own |
| trap 7 | what a crashed member had is never recovered | topics/test_groups.py::test_a_lease_that_lapses_comes_back_to_its_group_only |
| trap 8 | a late group makes what others are done with undeletable | topics/test_topic_pitfalls.py::test_a_late_group_pins_nothing_once_it_is_through_or_gone |
| trap 9 | catching up that crashed is stuck | acceptance/test_catching_up.py::test_members_are_killed_while_their_group_catches_up |
| trap 10 | to subscribe twice counts twice | topics/test_groups.py::test_who_is_there_already_goes_on_where_it_was |
| trap 11 | "latest" races what is not committed | acceptance/test_topics_postgres.py::test_a_transaction_that_stays_open_delays_nobody |
| trap 11 | "latest" misses what is published at the same time | acceptance/test_topics_postgres.py::test_whoever_subscribes_while_others_publish_misses_nothing_from_then_on |
| trap 12 | nobody asks whether there are subscribers | topics/test_topics.py::test_a_topic_may_want_subscribers |
| trap 13 | poison crashes its members for ever | topics/test_topic_pitfalls.py::test_who_crashes_its_members_dies_after_its_attempts |
| O1 | a key overtakes itself | topics/test_fed_groups.py::test_no_attempt_begins_after_one_of_a_later_message_of_its_key |
| O1 | … with members that are killed | acceptance/test_fed_groups.py::test_members_that_are_killed_lose_nothing_and_overtake_nobody |
| O2 | a stuck key hides others | topics/test_fed_groups.py::test_a_key_that_is_stuck_hides_no_other |
| O3 | a retry is overtaken inside its key, or holds up others | topics/test_fed_groups.py::test_a_retry_blocks_its_own_key_only |
| O3 | priorities are mixed up | topics/test_fed_groups.py::test_each_priority_is_fed_by_itself |
| O4 | a key does not go on after a death | topics/test_fed_groups.py::test_a_dead_head_makes_way |
| O4 | … or does, against its setting | topics/test_fed_groups.py::test_a_dead_head_blocks_its_key_if_the_group_says_so |
| O5 | a key is leaked, or released twice | topics/test_fed_groups.py::test_a_lapsed_head_comes_again_before_the_next |
| O6 | an ack counts for what is before it | topics/test_topic_pitfalls.py::test_an_ack_is_for_one_message_and_not_for_those_before_it |
| O7 | one that always fails blocks its group | topics/test_topic_pitfalls.py::test_what_always_fails_holds_up_nobody |
| O8 | unread messages go without a word | topics/test_retention.py::test_at_retention_everything_goes_and_who_missed_it_is_told_how_much |
| O8 | … or a revived group jumps over them | topics/test_liveness.py::test_who_was_dead_for_too_long_is_told_exactly_what_it_lost |
| O9 | who polls an empty topic is taken for dead | topics/test_liveness.py::test_whoever_asks_for_work_is_heard |
| O9 | who is paused is taken for dead | topics/test_liveness.py::test_a_paused_group_does_not_die_of_its_silence |
| O10 | a clean-up removes what is claimed | topics/test_retention.py::test_nothing_is_removed_under_who_is_claiming |
| O10 | … in the middle of its step | acceptance/test_retention.py::test_a_claim_in_the_middle_of_a_step_keeps_what_it_took |
| O10 | … or what was replayed | topics/test_topic_pitfalls.py::test_a_replay_outlives_its_topics_retention |
| O11 | a clean-up of very much takes too long | topics/test_retention.py::test_one_step_is_bounded |
| O11 | … or sorts it | acceptance/test_query_plans.py::test_postgres_sorts_no_lane_to_find_its_front |
| O12 | an end that no clean-up knows | topics/test_topic_pitfalls.py::test_nothing_is_left_of_a_message_however_it_ended |
| O13 | a clock that jumps removes everything at once, or in silence | topics/test_topic_pitfalls.py::test_a_clock_that_jumps_ten_years_kills_nobody_at_once_and_tells_what_went |
| O13 | nobody can stop it | topics/test_topic_pitfalls.py::test_a_clock_that_jumps_ten_years_takes_little_at_a_time_and_tells_of_the_first |
| O14 | dead letters are as old as their messages | topics/test_topic_pitfalls.py::test_dead_letters_of_a_group_are_kept_from_their_death_on |
| O15 | a replay happens twice, or reaches others | topics/test_topic_pitfalls.py::test_a_dead_letter_is_replayed_once_and_for_its_group_alone |
| O15 | … or waits for ever, for a group that has ended | topics/test_topic_pitfalls.py::test_a_replay_comes_to_nothing_when_its_group_ends |
| P1, P2 | what commits late is skipped | acceptance/test_topics_postgres.py::test_every_group_gets_every_committed_message_once |
| P1, P2 | … by groups whose members are killed | acceptance/test_topics.py::test_every_group_gets_what_it_is_owed |
| P1 | … by retention | acceptance/test_retention.py::test_what_commits_late_is_owed_to_everyone |
| P3 | a long transaction delays readers | acceptance/test_topics_postgres.py::test_a_transaction_that_is_idle_for_a_minute_delays_nothing |
"""  # noqa: E501

import pytest

from holdfast import AlreadyReplayed, Holdfast, LeaseLost
from holdfast.topics.steps import retention
from holdfast.worker.maintenance.duties import retention as keeping
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, counts
from tests.stores import TOPICS
from tests.topics.publishing import done, kept, retain, subscribed, troubles, watch
from tests.topics.topic_steps import read_all

pytestmark = pytest.mark.not_through_sqs(TOPICS)

DAY = 86_400
YEAR = 365 * DAY

both = pytest.mark.parametrize("ordering", ["unordered", "per_key"])
"""A group reads the log, or is fed from it."""


def test_a_group_that_beats_and_never_reads_holds_nothing_past_retention(hf: Holdfast, clock: FakeClock) -> None:
    """Its owner is told: it lives, and does not get anywhere."""
    hf.topic("t", retention=DAY, min_retention=0)
    hf.subscribe("t", "a")
    hf.subscribe("t", "boots", timeout=60)
    hf.publish_many("t", range(3))
    done(hf, "a")
    for _ in range(24):
        assert retain(hf) == 0
        clock.advance(DAY / 24)
        hf.groups.heartbeat("t", "boots")
        watch(hf)
    assert retain(hf) == 3
    assert [one.state for one in hf.groups.list("t")] == ["active", "active"]
    assert "3 messages" in troubles(hf, "out_of_range")[0]


@both
def test_dead_letters_neither_starve_their_group_nor_pin_messages(hf: Holdfast, ordering: str) -> None:
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "a", ordering=ordering, max_attempts=2)
    hf.publish_many("t", range(300), key=str)
    while claims := hf.claim("t/a", n=100):
        hf.dead_letter(claims, "no")
    hf.publish("t", "next", key="next")
    assert read_all(hf, "a") == ["next"]
    assert retain(hf) == 301
    assert (kept(hf), hf.stats("t/a").dead) == ([], 300)


def test_a_late_group_pins_nothing_once_it_is_through_or_gone(hf: Holdfast) -> None:
    subscribed(hf, "a", min_retention=0)
    hf.publish_many("t", range(3))
    done(hf, "a")
    hf.subscribe("t", "late", start="earliest")
    hf.subscribe("t", "later", start="earliest")
    assert retain(hf) == 0
    assert read_all(hf, "late") == [0, 1, 2]
    assert retain(hf) == 0
    hf.groups.remove("t", "later")
    assert retain(hf) == 3
    assert kept(hf) == []


@both
def test_who_crashes_its_members_dies_after_its_attempts(
    client: OpenClient, hf: Holdfast, clock: FakeClock, ordering: str
) -> None:
    """Nobody says anything; each lease that ends in silence is an attempt."""
    subscribed(hf, "b")
    hf.subscribe("t", "a", ordering=ordering, max_attempts=2, lease=10)
    hf.publish("t", "poison")
    for number in range(2):
        assert bodies(client(worker=f"victim-{number}").claim("t/a")) == ["poison"]
        clock.advance(11)
    assert hf.claim("t/a") == []
    [letter] = hf.dead_letters.list("t/a")
    assert (letter.message.body, letter.attempts) == ("poison", 2)
    assert (read_all(hf, "b"), hf.dead_letters.list("t/b")) == (["poison"], [])


def test_an_ack_is_for_one_message_and_not_for_those_before_it(
    client: OpenClient, two: Holdfast, clock: FakeClock
) -> None:
    """0, 1 and 3 are acked, 2 fails, then its member is gone: 2 and 4 come again, and nothing else."""
    member = client(worker="gone")
    two.publish_many("t", range(5))
    claims = member.claim("t/a", n=5, lease=10)
    member.ack([claims[0], claims[1], claims[3]])
    member.nack(claims[2], delay=5)
    assert retain(two) == 0
    clock.advance(11)
    assert sorted(read_all(two, "a")) == [2, 4]
    with pytest.raises(LeaseLost):
        claims[4].ack()
    assert read_all(two, "b") == [0, 1, 2, 3, 4]


@both
def test_what_always_fails_holds_up_nobody(hf: Holdfast, ordering: str) -> None:
    subscribed(hf, "b")
    hf.subscribe("t", "a", ordering=ordering, max_attempts=5, backoff=None)
    hf.publish_many("t", ["bad", 1, 2, 3], key=str)
    found = []
    for _ in range(30):
        for claim in hf.claim("t/a", n=2):
            if claim.message.body == "bad":
                claim.nack("no")
            else:
                found.append(claim.message.body)
                claim.ack()
    assert (found, counts(hf, "t/a")) == ([1, 2, 3], (0, 0, 0, 1))
    assert counts(hf, "t/b") == (4, 0, 0, 0)


def test_a_replay_outlives_its_topics_retention(hf: Holdfast, clock: FakeClock) -> None:
    subscribed(hf, "a")
    hf.publish("t", "again")
    hf.dead_letter(hf.claim("t/a"), "no")
    [letter] = hf.dead_letters.list("t/a")
    hf.dead_letters.replay(letter.id)
    clock.advance(DAY)
    assert retain(hf) == 1
    assert (read_all(hf, "a"), troubles(hf, "out_of_range")) == (["again"], [])


@both
def test_nothing_is_left_of_a_message_however_it_ended(hf: Holdfast, clock: FakeClock, ordering: str) -> None:
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "a", patterns="t.wanted", ordering=ordering, max_attempts=1, dead_retention=60)
    endings = ("acked", "dead", "skipped", "skipped in hand", "purged")
    ids = {end: hf.publish("t.wanted", end, key=end).id for end in endings}
    hf.publish("t.other", "unwanted")
    hf.groups.skip("t", "a", ids["skipped"])
    hf.ack(hf.claim("t/a"))
    hf.dead_letter(hf.claim("t/a"), "no")
    assert bodies(hf.claim("t/a")) == ["skipped in hand"]
    hf.groups.skip("t", "a", ids["skipped in hand"])
    assert hf.queues.purge("t/a") == 1
    hf.publish("t.wanted", "expired", ttl=30, key="e")
    clock.advance(60)
    assert hf.claim("t/a") == []
    hf.queues.sweep("t/a")
    assert retain(hf) == 7
    assert (counts(hf, "t/a"), hf.dead_letters.list("t/a"), kept(hf)) == ((0, 0, 0, 0), [], [])
    assert [hf.status(message_id) for message_id in ids.values()] == [None] * 5


def test_a_clock_that_jumps_ten_years_takes_little_at_a_time_and_tells_of_the_first(
    hf: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is told can stop maintenance, or give the topic a longer retention."""
    monkeypatch.setattr(retention, "MOST_MESSAGES", 2)
    hf.topic("t", min_retention=0)
    hf.subscribe("t", "a")
    hf.publish_many("t", range(5))
    clock.advance(10 * YEAR)
    assert keeping.turn(hf) == 2
    assert ["2 messages" in error for error in troubles(hf, "out_of_range")] == [True]
    hf.topic("t", retention=20 * YEAR, min_retention=0)
    assert keeping.turn(hf) == 0
    assert bodies(hf.claim("t", group="a", n=9)) == [2, 3, 4]


def test_a_clock_that_jumps_ten_years_kills_nobody_at_once_and_tells_what_went(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", min_retention=0)
    for group in ("a", "b"):
        hf.subscribe("t", group, timeout=600)
    hf.publish_many("t", range(3))
    clock.advance(10 * YEAR)
    assert [watch(hf) for _ in range(10)] == [0] * 10, "one look is one miss"
    done(hf, "a")
    assert retain(hf) == 3
    [error] = troubles(hf, "out_of_range")
    assert "3 messages" in error
    assert "'t/b'" in error


def test_dead_letters_of_a_group_are_kept_from_their_death_on(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", retention=2 * DAY, min_retention=0)
    hf.subscribe("t", "a", dead_retention=DAY)
    hf.publish("t", 1)
    clock.advance(1.5 * DAY)
    hf.dead_letter(hf.claim("t/a"), "no")
    clock.advance(DAY - 1)
    hf.queues.sweep("t/a")
    retain(hf)
    assert len(hf.dead_letters.list("t/a")) == 1
    clock.advance(1)
    hf.queues.sweep("t/a")
    assert hf.dead_letters.list("t/a") == []


def test_a_dead_letter_is_replayed_once_and_for_its_group_alone(two: Holdfast) -> None:
    two.publish("t", 1)
    two.ack(two.claim("t/b"))
    two.dead_letter(two.claim("t/a"), "no")
    [letter] = two.dead_letters.list("t/a")
    two.dead_letters.replay(letter.id)
    with pytest.raises(AlreadyReplayed):
        two.dead_letters.replay(letter.id)
    [again] = two.claim("t/a", n=9)
    assert (again.message.body, again.attempt, two.claim("t/b")) == (1, 1, [])
    again.ack()
    [letter] = two.dead_letters.list("t/a")
    assert (letter.replay_state, len(letter.history)) == ("succeeded", 1)


@pytest.mark.parametrize("held", [False, True])
def test_a_replay_comes_to_nothing_when_its_group_ends(two: Holdfast, held: bool) -> None:
    two.publish("t", 1)
    two.dead_letter(two.claim("t/a"), "no")
    two.dead_letters.replay(two.dead_letters.list("t/a")[0].id)
    if held:
        two.claim("t/a")
    two.groups.remove("t", "a")
    assert [letter.replay_state for letter in two.dead_letters.list("t/a")] == ["canceled"]
