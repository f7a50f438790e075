"""Looking at a queue, and emptying it."""

import pytest

from holdfast import Holdfast, InvalidInput
from tests.clock import FakeClock
from tests.steps import Counts, bodies, claim_one, counts, drain, kill
from tests.stores import LANES

pytestmark = pytest.mark.of_queues


def fill(hf: Holdfast, clock: FakeClock) -> None:
    """Something of everything: rows and lanes of several priorities, due and not due."""
    hf.enqueue("q", "late row", delay=600)
    hf.enqueue("q", "high row", delay=2, priority="high")
    hf.enqueue("q", "row 2", delay=2)
    hf.enqueue("q", "row 1", delay=1)
    hf.enqueue_many("q", ["lane 1", "lane 2"])
    hf.enqueue("q", "low lane", priority="low")
    hf.enqueue("q", "urgent lane", priority="urgent")
    clock.advance(10)


IN_ORDER = ["urgent lane", "high row", "row 1", "row 2", "lane 1", "lane 2", "low lane"]


@pytest.mark.not_through_sqs(LANES)
def test_peek_shows_what_the_next_claims_will_get(hf: Holdfast, clock: FakeClock) -> None:
    fill(hf, clock)
    assert [message.body for message in hf.queues.peek("q", 100)] == IN_ORDER
    assert drain(hf) == IN_ORDER


def test_peek_equals_one_big_claim(hf: Holdfast, clock: FakeClock) -> None:
    fill(hf, clock)
    seen = [message.id for message in hf.queues.peek("q", 100)]
    assert [claim.message.id for claim in hf.claim("q", n=100)] == seen


def test_peek_claims_nothing(hf: Holdfast, clock: FakeClock) -> None:
    fill(hf, clock)
    assert [message.id for message in hf.queues.peek("q")] == [message.id for message in hf.queues.peek("q")]
    assert hf.stats("q").processing == 0
    assert hf.claim("q")[0].attempt == 1


def test_peek_shows_whole_messages(hf: Holdfast) -> None:
    receipt = hf.enqueue("q", {"a": 1}, headers={"h": 1}, key="k", correlation_id="c", priority="low")
    [message] = hf.queues.peek("q")
    assert (message.id, message.body, message.headers) == (receipt.id, {"a": 1}, {"h": 1})
    assert (message.key, message.correlation_id, message.priority) == ("k", "c", 3)


@pytest.mark.not_through_sqs(LANES)
def test_peek_shows_no_more_than_it_is_asked_for(hf: Holdfast, clock: FakeClock) -> None:
    fill(hf, clock)
    for n in range(1, 9):
        assert [message.body for message in hf.queues.peek("q", n)] == IN_ORDER[:n]


def test_peek_shows_ten_unless_told_otherwise(hf: Holdfast) -> None:
    hf.enqueue_many("q", range(20))
    assert [message.body for message in hf.queues.peek("q")] == list(range(10))


def test_peek_does_not_show_what_is_claimed(hf: Holdfast) -> None:
    hf.enqueue_many("q", range(3))
    hf.claim("q", n=2)
    assert [message.body for message in hf.queues.peek("q")] == [2]


def test_a_look_of_a_size_that_makes_no_sense_is_refused(hf: Holdfast) -> None:
    hf.enqueue("q", 1)
    for n in (0, -1, "3", None):
        with pytest.raises(InvalidInput):
            hf.queues.peek("q", n)


def test_stats_of_an_empty_queue_are_zero(hf: Holdfast) -> None:
    assert counts(hf) == Counts(pending=0, waiting=0, processing=0, dead=0)


def test_stats_count_messages_in_every_state(hf: Holdfast, clock: FakeClock) -> None:
    kill(hf)
    kill(hf)
    fill(hf, clock)
    assert counts(hf) == Counts(pending=7, waiting=1, processing=0, dead=2)
    claims = hf.claim("q", n=6)
    assert counts(hf) == Counts(pending=1, waiting=1, processing=6, dead=2)
    hf.ack(claims[:2])
    assert counts(hf) == Counts(pending=1, waiting=1, processing=4, dead=2)
    claims[2].nack("no", delay=60)
    claims[3].release()
    assert counts(hf) == Counts(pending=2, waiting=2, processing=2, dead=2)
    claims[4].dead_letter("boom")
    hf.cancel(claims[5].message.id)
    assert counts(hf) == Counts(pending=2, waiting=2, processing=0, dead=3)


def test_stats_count_the_members_of_a_split_run(hf: Holdfast) -> None:
    hf.enqueue_many("q", range(20))
    claims = hf.claim("q", n=20)
    for done, claim in enumerate(claims, start=1):
        claim.ack()
        assert hf.stats("q").processing == 20 - done


def test_stats_are_of_one_queue(hf: Holdfast) -> None:
    hf.enqueue("other", 1)
    kill(hf, queue="third")
    assert counts(hf) == Counts(0, 0, 0, 0)


def test_waiting_becomes_pending_when_it_is_due(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue("q", 1, delay=10)
    assert counts(hf) == Counts(0, 1, 0, 0)
    clock.advance(10)
    assert counts(hf) == Counts(1, 0, 0, 0)


def test_purge_removes_everything_that_is_pending(hf: Holdfast, clock: FakeClock) -> None:
    fill(hf, clock)
    assert hf.queues.purge("q") == 8
    clock.advance(1000)
    assert hf.claim("q", n=10) == []
    assert counts(hf) == Counts(0, 0, 0, 0)


def test_purging_an_empty_queue_removes_nothing(hf: Holdfast) -> None:
    assert hf.queues.purge("q") == 0


@pytest.mark.not_through_sqs(LANES)
def test_purge_leaves_claims_in_progress(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("q", ["row 1", "row 2"], delay=1)
    hf.enqueue_many("q", ["lane 1", "lane 2"])
    clock.advance(1)
    [row] = hf.claim("q")
    hf.cancel(hf.queues.peek("q")[0].id)
    [lane] = hf.claim("q")
    assert hf.queues.purge("q") == 1
    row.extend(60)
    lane.extend(60)
    lane.nack("no", delay=0)
    row.ack()
    assert bodies(hf.claim("q", n=10)) == ["lane 1"]


def test_purge_leaves_a_run_in_progress_whole(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("q", range(5))
    claims = hf.claim("q", n=3)
    assert hf.queues.purge("q") == 2
    claims[0].ack()
    clock.advance(30)
    assert drain(hf) == [1, 2]


def test_purge_leaves_the_dead_and_the_other_queues(hf: Holdfast) -> None:
    kill(hf)
    hf.enqueue("other", "kept")
    hf.queues.purge("q")
    assert len(hf.dead_letters.list("q")) == 1
    assert drain(hf, "other") == ["kept"]


def test_a_purged_queue_takes_new_messages(hf: Holdfast) -> None:
    hf.enqueue_many("q", range(3))
    hf.claim("q")
    hf.queues.purge("q")
    hf.enqueue_many("q", ["new 1", "new 2"])
    assert drain(hf) == ["new 1", "new 2"]


def test_purged_messages_are_unknown_or_canceled(hf: Holdfast) -> None:
    for receipt in (hf.enqueue("q", 1), hf.enqueue("q", 2, delay=60)):
        hf.queues.purge("q")
        status = hf.status(receipt.id)
        assert status is None or status.state == "canceled"


def test_a_claim_that_was_released_after_a_purge_is_pending_again(hf: Holdfast) -> None:
    hf.enqueue("q", 1)
    held = claim_one(hf)
    assert hf.queues.purge("q") == 0
    held.release()
    assert hf.queues.purge("q") == 1
