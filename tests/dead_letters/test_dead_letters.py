"""Dead letters: a full copy, its history, the envelope, and one more life."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import AlreadyReplayed, Holdfast, InvalidInput, NotFound
from holdfast.core.message import encode_json
from holdfast.core.times import text_of
from tests.clock import FakeClock
from tests.steps import bodies, claim_one, kill

pytestmark = pytest.mark.of_queues

BODY = {"order": 7, "text": "NUL \x00, 東京, 🐙", "nested": [None, {"": []}]}
UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"


def test_a_dead_letter_is_a_full_copy(hf: Holdfast, clock: FakeClock) -> None:
    receipt = hf.enqueue("q", BODY, priority="high", key="k", correlation_id="c", headers={"trace": "\x00🐙"})
    enqueued_at = clock()
    clock.advance(5)
    claim_one(hf).dead_letter("boom")
    [dead] = hf.dead_letters.list("q")
    assert (dead.queue, dead.error, dead.attempts, dead.failed_at_us) == ("q", "boom", 1, clock())
    assert (dead.replayed_as, dead.replay_state) == (None, None)
    message = dead.message
    assert message.raw_body == encode_json(BODY)
    assert (message.id, message.priority, message.key) == (receipt.id, 1, "k")
    assert (message.correlation_id, message.enqueued_at_us) == ("c", enqueued_at)
    assert message.headers == {"trace": "\x00🐙"}


def test_a_dead_letter_has_an_id_of_its_own(hf: Holdfast) -> None:
    dead_id = kill(hf)
    [dead] = hf.dead_letters.list("q")
    assert dead.id == dead_id != dead.message.id


def test_the_history_tells_every_attempt(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_attempts=3, backoff=10)
    hf.enqueue("q", 1)
    started = clock()
    claim_one(hf).nack("first")
    clock.advance(10)
    claim_one(rival).nack(ValueError("second"))
    clock.advance(10)
    claim_one(hf).nack("third")
    [dead] = hf.dead_letters.list("q")
    assert [(line.attempt, line.worker, line.error, line.at_us) for line in dead.history] == [
        (1, "anna", "first", started),
        (2, "ben", "ValueError: second", started + 10_000_000),
        (3, "anna", "third", started + 20_000_000),
    ]
    assert dead.error == "third"


def test_the_history_keeps_the_last_twenty(hf: Holdfast) -> None:
    hf.queue("q", max_attempts=30, backoff=None)
    hf.enqueue("q", 1)
    for attempt in range(1, 31):
        claim_one(hf).nack(f"error {attempt}")
    [dead] = hf.dead_letters.list("q")
    assert dead.attempts == 30
    assert [line.attempt for line in dead.history] == list(range(11, 31))


def test_a_very_long_error_is_cut_and_keeps_its_end(hf: Holdfast) -> None:
    hf.enqueue("q", 1)
    claim_one(hf).dead_letter("x" * 1_000_000 + "the end")
    [dead] = hf.dead_letters.list("q")
    assert dead.error.endswith("the end")
    assert dead.history[0].error.endswith("the end")
    assert len(dead.error) < 10_000


def test_the_envelope_arrives_in_the_queue_for_dead_letters(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", dead_letter="graves")
    enqueued_at = clock()
    receipt = hf.enqueue("q", BODY, priority="low", key="k", correlation_id="c", headers={"h": 1})
    clock.advance(3)
    claim_one(hf).dead_letter("boom")
    assert claim_one(hf, "graves").message.body == {
        "original_message": {
            "id": receipt.id,
            "queue": "q",
            "body": BODY,
            "headers": {"h": 1},
            "priority": 3,
            "key": "k",
            "correlation_id": "c",
            "reply_to": None,
            "topic": None,
            "enqueued_at": text_of(enqueued_at),
        },
        "failed_at": text_of(clock()),
        "error": "boom",
        "attempts": 1,
    }


def test_an_envelope_is_sent_for_a_row_too(hf: Holdfast) -> None:
    hf.queue("q", dead_letter="graves", max_attempts=2, backoff=None)
    hf.enqueue("q", "doomed")
    claim_one(hf).nack("first")
    claim_one(hf).nack("second")
    [claim] = hf.claim("graves", n=10)
    assert (claim.message.body["error"], claim.message.body["attempts"]) == ("second", 2)


def test_an_envelope_reaches_an_ordered_queue_too(hf: Holdfast) -> None:
    hf.queue("q", dead_letter="graves")
    hf.queue("graves", ordering="fifo")
    kill(hf, "first")
    kill(hf, "second")
    for body in ("first", "second"):
        claim = claim_one(hf, "graves")
        assert claim.message.body["original_message"]["body"] == body
        claim.ack()


def test_the_queue_for_dead_letters_comes_to_life_when_it_is_needed(hf: Holdfast) -> None:
    hf.queue("q", dead_letter="graves")
    assert hf.queues.list() == ["q"]
    kill(hf)
    assert hf.queues.list() == ["graves", "q"]


def test_without_a_queue_for_dead_letters_nothing_is_sent(hf: Holdfast) -> None:
    kill(hf)
    assert hf.queues.list() == ["q"]


def test_many_deaths_in_one_call_are_all_kept(hf: Holdfast) -> None:
    hf.queue("q", dead_letter="graves")
    hf.enqueue_many("q", range(30))
    hf.dead_letter(hf.claim("q", n=30), "boom")
    assert [dead.message.body for dead in hf.dead_letters.list("q")] == list(range(30))
    assert len(hf.claim("graves", n=100)) == 30


def test_dead_letters_are_listed_oldest_first_by_queue_or_all(hf: Holdfast) -> None:
    for body, queue in (("1", "a"), ("2", "b"), ("3", "a")):
        kill(hf, body, queue)
    assert [dead.message.body for dead in hf.dead_letters.list("a")] == ["1", "3"]
    assert [dead.message.body for dead in hf.dead_letters.list()] == ["1", "2", "3"]
    assert hf.dead_letters.list("never") == []


def test_dead_letters_come_in_pages(hf: Holdfast) -> None:
    hf.enqueue_many("q", range(7))
    hf.dead_letter(hf.claim("q", n=7), "boom")
    pages, after = [], None
    while page := hf.dead_letters.list("q", n=3, after=after):
        pages.append([dead.message.body for dead in page])
        after = page[-1].id
    assert pages == [[0, 1, 2], [3, 4, 5], [6]]


def test_a_page_that_makes_no_sense_is_refused(hf: Holdfast) -> None:
    kill(hf)
    for n in (0, -1, "3", None):
        with pytest.raises(InvalidInput):
            hf.dead_letters.list("q", n=n)
    with pytest.raises(InvalidInput):
        hf.dead_letters.list("q", after="not an id")


def test_a_replay_is_a_new_message_with_the_old_content(hf: Holdfast, clock: FakeClock) -> None:
    dead_id = kill(hf, BODY, priority="high", key="k", correlation_id="c", headers={"trace": "\x00🐙"})
    [dead] = hf.dead_letters.list("q")
    clock.advance(60)
    receipt = hf.dead_letters.replay(dead_id)
    claim = claim_one(hf)
    message = claim.message
    assert message.id == receipt.id != dead.message.id
    assert message.raw_body == dead.message.raw_body
    assert (message.priority, message.key, message.correlation_id) == (1, "k", "c")
    assert message.headers == {"trace": "\x00🐙"}
    assert (claim.attempt, message.enqueued_at_us) == (1, clock())
    assert hf.claim("q") == []


def test_a_replay_is_noted_on_the_dead_letter(hf: Holdfast) -> None:
    receipt = hf.dead_letters.replay(kill(hf))
    [dead] = hf.dead_letters.list("q")
    assert (dead.replayed_as, dead.replay_state) == (receipt.id, "pending")


def test_a_death_can_be_replayed_once(hf: Holdfast) -> None:
    dead_id = kill(hf)
    hf.dead_letters.replay(dead_id)
    with pytest.raises(AlreadyReplayed, match=dead_id):
        hf.dead_letters.replay(dead_id)
    assert len(hf.claim("q", n=10)) == 1


def test_of_many_replays_at_the_same_time_one_succeeds(hf: Holdfast) -> None:
    dead_id = kill(hf)

    def replay(_: int) -> bool:
        try:
            hf.dead_letters.replay(dead_id)
        except AlreadyReplayed:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(replay, range(8))) == 1
    assert len(hf.claim("q", n=10)) == 1


def test_an_unknown_dead_letter_cannot_be_replayed(hf: Holdfast) -> None:
    kill(hf)
    message_id = hf.dead_letters.list("q")[0].message.id
    for unknown in (UNKNOWN, message_id):
        with pytest.raises(NotFound, match=unknown):
            hf.dead_letters.replay(unknown)
    with pytest.raises(InvalidInput):
        hf.dead_letters.replay("not an id")
    assert hf.claim("q") == []


def test_a_replay_that_succeeds_is_written_back(hf: Holdfast) -> None:
    hf.dead_letters.replay(kill(hf))
    claim_one(hf).ack()
    [dead] = hf.dead_letters.list("q")
    assert dead.replay_state == "succeeded"


def test_a_replay_that_succeeds_after_a_retry_is_written_back(hf: Holdfast, clock: FakeClock) -> None:
    hf.dead_letters.replay(kill(hf))
    claim_one(hf).nack("once more", delay=0)
    claim_one(hf)
    clock.advance(30)
    claim_one(hf).ack()
    [dead] = hf.dead_letters.list("q")
    assert dead.replay_state == "succeeded"


def test_a_replay_that_dies_again_is_written_back_and_can_be_replayed_itself(hf: Holdfast) -> None:
    hf.dead_letters.replay(kill(hf))
    claim_one(hf).dead_letter("again")
    first, second = hf.dead_letters.list("q")
    assert (first.replay_state, second.replay_state) == ("dead", None)
    assert second.message.id == first.replayed_as
    hf.dead_letters.replay(second.id)
    assert bodies(hf.claim("q", n=10)) == ["doomed"]


def test_a_replay_that_is_abandoned_to_death_is_written_back(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_attempts=1)
    hf.dead_letters.replay(kill(hf))
    claim_one(hf)
    clock.advance(30)
    hf.queues.sweep("q")
    assert [dead.replay_state for dead in hf.dead_letters.list("q")] == ["dead", None]


def test_a_replay_that_is_canceled_is_written_back(hf: Holdfast) -> None:
    receipt = hf.dead_letters.replay(kill(hf))
    assert hf.cancel(receipt.id)
    [dead] = hf.dead_letters.list("q")
    assert dead.replay_state == "canceled"


def test_a_replay_joins_the_end_of_its_key(hf: Holdfast) -> None:
    hf.queue("q", ordering="per_key")
    dead_id = kill(hf, "dead", key="k")
    hf.enqueue("q", "waiting", key="k")
    hf.dead_letters.replay(dead_id)
    claim = claim_one(hf)
    assert claim.message.body == "waiting"
    claim.ack()
    assert bodies(hf.claim("q", n=10)) == ["dead"]


def test_dead_letters_outlive_the_history_of_their_queue(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", history=0)
    kill(hf)
    clock.advance(10**8)
    hf.queues.sweep("q")
    assert len(hf.dead_letters.list("q")) == 1
