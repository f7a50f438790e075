"""The ten metrics, by their names, and true."""

import pytest

from holdfast import Holdfast
from holdfast.core.stats import METRICS, metrics
from tests.clock import FakeClock
from tests.steps import Counts, OpenClient, counts, kill

pytestmark = pytest.mark.of_queues


def test_all_ten_of_an_empty_queue(hf: Holdfast) -> None:
    hf.queue("q")
    found = metrics(hf.stats("q"))
    assert list(found) == list(METRICS)
    assert found == {name: None if name.startswith(("avg", "age")) else 0 for name in METRICS}


def test_depth_and_flight(hf: Holdfast) -> None:
    hf.enqueue_many("q", range(10))
    hf.enqueue_many("q", range(5), delay=60)
    hf.claim("q", n=4)
    found = hf.stats("q")
    assert (found.queue_depth, found.in_flight_count) == (11, 4)
    assert (found.pending, found.waiting, found.processing) == (6, 5, 4)


def test_dead_letters_are_counted_until_they_are_gone(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", dead_retention=100)
    ids = [kill(hf, n) for n in range(4)]
    assert hf.stats("q").dlq_depth == 4
    hf.dead_letters.replay(ids[0])
    assert hf.stats("q").dlq_depth == 4
    assert hf.dead_letters.delete_many("q", before=clock.utc) == 0
    clock.advance(50)
    kill(hf)
    assert hf.dead_letters.delete_many("q", before=clock.utc) == 4
    assert hf.stats("q").dlq_depth == 1
    clock.advance(100)
    hf.queues.sweep("q")
    assert hf.stats("q").dlq_depth == 0


def test_rates_are_per_second_over_the_last_minute(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", backoff=None, max_attempts=2)
    hf.enqueue_many("q", range(12))
    claims = hf.claim("q", n=12)
    hf.ack(claims[:6])
    hf.nack(claims[6:9], "again")
    hf.dead_letter(claims[9:], "never")
    found = hf.stats("q")
    assert (found.claim_rate, found.completion_rate, found.failure_rate) == (12 / 60, 6 / 60, 6 / 60)
    clock.advance(30)
    hf.ack(hf.claim("q"))
    found = hf.stats("q")
    assert (found.claim_rate, found.completion_rate) == (13 / 60, 7 / 60)
    clock.advance(30)
    found = hf.stats("q")
    assert (found.claim_rate, found.completion_rate, found.failure_rate) == (1 / 60, 1 / 60, 0)
    clock.advance(30)
    assert hf.stats("q").claim_rate == 0


def test_timeouts_are_leases_that_ended_without_a_word(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("q", range(3))
    hf.enqueue("q", "row", delay=1)
    clock.advance(1)
    assert len(hf.claim("q", n=4)) == 4
    clock.advance(30)
    hf.queues.sweep("q")
    found = hf.stats("q")
    assert (found.timeout_rate, found.failure_rate, found.completion_rate) == (4 / 60, 0, 0)


def test_processing_time_is_from_claim_to_ack(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("q", range(4))
    first = hf.claim("q", n=2)
    clock.advance(2)
    second = hf.claim("q", n=2)
    clock.advance(1)
    hf.ack(first)
    assert hf.stats("q").avg_processing_time == pytest.approx(3)
    second[0].extend(100)
    clock.advance(4)
    second[0].ack()
    second[1].nack("not counted")
    assert hf.stats("q").avg_processing_time == pytest.approx((3 + 3 + 5) / 3)


def test_processing_time_of_rows_and_fused_acks(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("q", range(2), delay=1)
    clock.advance(1)
    claims = hf.claim("q", n=2)
    clock.advance(5)
    hf.ack(claims)
    hf.enqueue_many("q", range(2))
    claims = hf.claim("q", n=2)
    clock.advance(1)
    assert hf.claim("q", ack=claims) == []
    assert hf.stats("q").avg_processing_time == pytest.approx(3)


@pytest.mark.not_through_sqs("six thousand, likewise")
@pytest.mark.parametrize(("delay", "kept"), [(0, 0), (0, 1), (1, 0)], ids=["a run", "a part of one", "rows"])
def test_processing_time_of_thousands_at_once(hf: Holdfast, clock: FakeClock, delay: int, kept: int) -> None:
    """The moments of their claims, added up, are more than 64 bits hold."""
    hf.enqueue_many("q", range(6000), delay=delay)
    clock.advance(delay)
    claims = hf.claim("q", n=6000)
    clock.advance(3)
    hf.ack(claims[kept:])
    assert (hf.stats("q").processing, hf.stats("q").avg_processing_time) == (kept, 3)


@pytest.mark.parametrize("options", [{}, {"delay": 2}, {"priority": 0}], ids=str)
def test_age_of_the_oldest_that_waits(hf: Holdfast, clock: FakeClock, options: dict[str, int]) -> None:
    hf.enqueue("q", 1, **options)
    clock.advance(3)
    hf.enqueue("q", 2)
    assert hf.stats("q").age_of_oldest_item == pytest.approx(3)
    hf.ack(hf.claim("q"))
    assert hf.stats("q").age_of_oldest_item == pytest.approx(0)


def test_consumers_are_those_who_asked_lately(client: OpenClient, clock: FakeClock) -> None:
    anna, ben = client(worker="anna"), client(worker="ben")
    anna.claim("q")
    ben.claim("q")
    ben.claim("other")
    assert (anna.stats("q").consumer_count, anna.stats("other").consumer_count) == (2, 1)
    clock.advance(45)
    assert anna.stats("q").consumer_count == 0


def test_what_is_long_ago_is_added_up_and_stays_true(hf: Holdfast, clock: FakeClock) -> None:
    for _ in range(5):
        hf.enqueue_many("q", range(3))
        hf.ack(hf.claim("q", n=2))
        clock.advance(60)
    kill(hf, priority=0)
    before = counts(hf)
    assert before == Counts(5, 0, 0, 1)
    clock.advance(1000)
    hf.queues.sweep("q")
    assert counts(hf) == before
    hf.ack(hf.claim("q", n=5))
    assert counts(hf) == Counts(0, 0, 0, 1)
