"""A dead letter, its copy in the queue that `dead_letter` names, and its replay: which of them outlives which."""

import pytest

from holdfast import Holdfast, InvalidInput
from tests.clock import FakeClock
from tests.steps import bodies, claim_one

pytestmark = pytest.mark.of_queues

DAY = 86_400


def die(hf: Holdfast, body: object, queue: str = "q", **options: object) -> str:
    hf.enqueue(queue, body, **options)
    claim_one(hf, queue).dead_letter("no")
    return hf.dead_letters.list(queue)[-1].id


def copies(hf: Holdfast) -> list[object]:
    return [message.body["original_message"]["body"] for message in hf.queues.peek("copies", n=10)]


@pytest.fixture
def watched(hf: Holdfast) -> Holdfast:
    hf.queue("q", dead_letter="copies")
    return hf


# --- asking again -----------------------------------------------------------------------------------------------------


def test_who_asks_again_gets_the_result_of_the_replay(hf: Holdfast) -> None:
    dead_id = die(hf, "work", idempotency_key="k")
    replay = hf.dead_letters.replay(dead_id)
    claim_one(hf, "q").ack({"done": True})
    again = hf.enqueue("q", "work", idempotency_key="k")
    assert (again.duplicate, again.id, again.result) == (True, replay.id, {"done": True})


def test_who_asks_again_gets_the_result_of_the_last_replay(hf: Holdfast) -> None:
    hf.dead_letters.replay(die(hf, "work", idempotency_key="k"))
    claim_one(hf, "q").dead_letter("still no")
    hf.dead_letters.replay(hf.dead_letters.list("q")[-1].id, body="mended")
    claim_one(hf, "q").ack("at last")
    again = hf.enqueue("q", "work", idempotency_key="k")
    assert (again.duplicate, again.result) == (True, "at last")


def test_the_key_of_a_topic_does_not_follow_the_replay_of_one_group(hf: Holdfast) -> None:
    hf.topic("t")
    hf.subscribe("t", group="a")
    published = hf.publish("t", "news", idempotency_key="k")
    claim_one(hf, "t", group="a").dead_letter("no")
    hf.dead_letters.replay(hf.dead_letters.list()[-1].id)
    claim_one(hf, "t", group="a").ack("read")
    assert hf.publish("t", "news", idempotency_key="k").id == published.id


# --- copies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordering", ["unordered", "fifo"])
def test_a_replay_removes_the_copy(watched: Holdfast, ordering: str) -> None:
    watched.queue("copies", ordering=ordering)
    dead = [die(watched, body) for body in ("a", "b", "c")]
    watched.dead_letters.replay(dead[0])
    assert watched.stats("copies").pending == 2
    [claim] = watched.claim("copies")
    assert claim.message.body["original_message"]["body"] == "b"
    watched.dead_letters.replay(dead[1])
    claim.ack()
    assert copies(watched) == ["c"], "what is claimed is left to its consumer"


def test_a_replay_of_many_removes_their_copies(watched: Holdfast) -> None:
    for body in ("a", "b", "c"):
        die(watched, body)
    watched.dead_letters.replay_many("q")
    assert copies(watched) == []
    assert bodies(watched.claim("q", n=5)) == ["a", "b", "c"]


def test_deleting_a_dead_letter_removes_the_copy(watched: Holdfast) -> None:
    dead = [die(watched, body) for body in ("a", "b", "c")]
    watched.dead_letters.delete(dead[1])
    assert copies(watched) == ["a", "c"]
    watched.dead_letters.delete_many("q")
    assert copies(watched) == []


def test_a_copy_that_waits_for_its_next_attempt_is_removed_too(watched: Holdfast) -> None:
    watched.queue("copies", backoff=1000)
    dead_id = die(watched, "a")
    claim_one(watched, "copies").nack("later")
    assert watched.stats("copies").waiting == 1
    watched.dead_letters.replay(dead_id)
    assert watched.stats("copies").waiting == 0


@pytest.mark.parametrize("how", ["ack", "expiry", "cancel", "purge"])
def test_the_end_of_a_copy_leaves_the_dead_letter_alone(watched: Holdfast, clock: FakeClock, how: str) -> None:
    watched.queue("q", dead_letter="copies", dead_retention="7d")
    watched.queue("copies", max_age=60)
    dead_id = die(watched, "a")
    if how == "ack":
        claim_one(watched, "copies").ack()
    elif how == "expiry":
        clock.advance(61)
    elif how == "cancel":
        assert watched.cancel(watched.queues.peek("copies")[0].id)
    else:
        assert watched.queues.purge("copies") == 1
    watched.maintain()
    assert watched.claim("copies") == []
    assert [letter.id for letter in watched.dead_letters.list("q")] == [dead_id]
    watched.dead_letters.replay(dead_id)
    assert bodies(watched.claim("q")) == ["a"]


# --- how long they last -----------------------------------------------------------------------------------------------


def test_dead_letters_last_as_long_as_the_queue_of_their_copies_says(watched: Holdfast, clock: FakeClock) -> None:
    watched.queue("copies", max_age="7d")
    die(watched, "a")
    clock.advance(7 * DAY - 1)
    watched.maintain()
    assert len(watched.dead_letters.list("q")) == 1
    clock.advance(2)
    watched.maintain()
    assert watched.dead_letters.list("q") == []


def test_a_retention_of_their_own_comes_first(watched: Holdfast, clock: FakeClock) -> None:
    watched.queue("copies", max_age="7d")
    watched.queue("q", dead_letter="copies", dead_retention="30d")
    die(watched, "a")
    clock.advance(8 * DAY)
    watched.maintain()
    assert len(watched.dead_letters.list("q")) == 1
    clock.advance(23 * DAY)
    watched.maintain()
    assert watched.dead_letters.list("q") == []


def test_without_either_they_are_kept(watched: Holdfast, clock: FakeClock) -> None:
    die(watched, "a")
    clock.advance(1000 * DAY)
    watched.maintain()
    assert len(watched.dead_letters.list("q")) == 1


@pytest.mark.parametrize("end", ["ack", "dead_letter"])
def test_a_dead_letter_outlives_its_running_replay(hf: Holdfast, clock: FakeClock, end: str) -> None:
    hf.queue("q", dead_retention=60, lease=1000)
    dead_id = die(hf, "a")
    hf.dead_letters.replay(dead_id)
    claim = claim_one(hf, "q")
    clock.advance(100)
    hf.maintain()
    assert [letter.id for letter in hf.dead_letters.list("q")] == [dead_id]
    if end == "ack":
        claim.ack()
    else:
        claim.dead_letter("again")
    hf.maintain()
    assert dead_id not in [letter.id for letter in hf.dead_letters.list("q")]


# --- names that belong to a topic -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["news", "news.dead"])
def test_copies_cannot_be_declared_to_go_to_a_topic(hf: Holdfast, name: str) -> None:
    hf.topic("news")
    with pytest.raises(InvalidInput, match="belongs to the topic 'news': dead_letter needs the name of a queue"):
        hf.queue("q", dead_letter=name)


@pytest.mark.parametrize("name", ["news", "news.dead"])
def test_a_message_dies_also_if_a_topic_has_taken_the_name_of_its_copies(hf: Holdfast, name: str) -> None:
    hf.queue("q", dead_letter=name)
    hf.topic("news")
    die(hf, "a")
    assert [letter.message.body for letter in hf.dead_letters.list("q")] == ["a"]
    (told,) = [notice for notice in hf.notices.list() if notice.kind == "unfit_copy"]
    assert told.error == f"dead letters of 'q' have no copies: {name!r} belongs to a topic, and is no queue"


def test_a_message_dies_also_if_a_topic_has_taken_the_name_of_an_inbox(hf: Holdfast) -> None:
    hf.owner("mia", inbox="news.mia")
    hf.queue("q", owner="mia")
    hf.topic("news")
    die(hf, "a")
    assert [letter.message.body for letter in hf.dead_letters.list("q")] == ["a"]
    assert [notice.owner for notice in hf.notices.list()] == ["mia"]
