"""Limits: so many held at once and so many claimed per time, of a whole queue, whoever claims."""

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Claim, Holdfast
from holdfast.client.client import internals
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, counts, together
from tests.stores import LANES
from tests.waiting import spend

pytestmark = [pytest.mark.behind_pooler(long=True), pytest.mark.of_queues]

# --- how many at once -------------------------------------------------------------------------------------------------


def test_no_more_than_the_queue_allows_are_held_at_once(hf: Holdfast, rival: Holdfast) -> None:
    hf.queue("q", concurrency=3)
    hf.enqueue_many("q", range(10))
    first = hf.claim("q", n=100)
    assert bodies(first) == [0, 1, 2]
    assert rival.claim("q", n=100) == []
    hf.ack(first[0])
    assert bodies(rival.claim("q", n=100)) == [3]
    assert hf.claim("q") == []


@pytest.mark.parametrize("end", ["ack", "nack", "release", "snooze", "dead_letter", "cancel"])
@pytest.mark.parametrize("engine", ["lane", "row"])
def test_however_a_claim_ends_its_slot_is_free(hf: Holdfast, clock: FakeClock, engine: str, end: str) -> None:
    hf.queue("q", concurrency=2, backoff=[60])
    hf.enqueue_many("q", range(5), delay=0 if engine == "lane" else 1)
    clock.advance(1)
    claims = hf.claim("q", n=5)
    assert len(claims) == 2
    assert hf.claim("q") == []
    ending(hf, end)(claims[1])
    assert len(hf.claim("q", n=5)) == 1
    assert hf.claim("q") == []


def ending(hf: Holdfast, end: str) -> Callable[[Claim], object]:
    return {
        "ack": hf.ack,
        "nack": lambda claim: hf.nack(claim, "no"),
        "release": hf.release,
        "snooze": lambda claim: hf.snooze(claim, 60),
        "dead_letter": lambda claim: hf.dead_letter(claim, "no"),
        "cancel": lambda claim: hf.cancel(claim.message.id),
    }[end]


def test_acks_that_come_along_make_room_for_the_same_claim(hf: Holdfast) -> None:
    hf.queue("q", concurrency=2)
    hf.enqueue_many("q", range(6))
    found, claims = [], hf.claim("q", n=9)
    while claims:
        found.append(bodies(claims))
        claims = hf.claim("q", n=9, ack=claims)
    assert found == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.not_through_sqs(LANES)
def test_runs_and_rows_share_the_slots(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", concurrency=4)
    hf.enqueue_many("q", range(3), delay=1)
    hf.enqueue_many("q", range(3, 10))
    assert bodies(hf.claim("q", n=2)) == [3, 4]
    clock.advance(1)
    assert bodies(hf.claim("q", n=9)) == [0, 1]
    assert counts(hf) == (6, 0, 4, 0)


def test_the_slots_of_a_silent_holder_come_back_with_its_lease(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", concurrency=2, lease=30)
    hf.enqueue_many("q", range(4))
    assert len(hf.claim("q", n=2)) == 2
    clock.advance(29)
    assert rival.claim("q", n=2) == []
    clock.advance(1)
    assert len(rival.claim("q", n=2)) + len(rival.claim("q", n=2)) == 2
    assert rival.claim("q", n=2) == []


def test_an_extended_lease_keeps_its_slot(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", concurrency=1, lease=30)
    hf.enqueue_many("q", range(2))
    claims = hf.claim("q")
    clock.advance(20)
    hf.extend(claims)
    clock.advance(20)
    assert rival.claim("q") == []


def test_a_limit_is_lowered_and_raised_while_messages_are_held(hf: Holdfast, rival: Holdfast) -> None:
    hf.enqueue_many("q", range(20))
    held = hf.claim("q", n=5)
    hf.queue("q", concurrency=3)
    assert rival.claim("q", n=9) == []
    hf.ack(held[:2])
    assert rival.claim("q", n=9) == []
    hf.ack(held[2:3])
    held = [*held[3:], *rival.claim("q", n=9)]
    assert len(held) == 3
    hf.queue("q", concurrency=5)
    held += rival.claim("q", n=9)
    assert len(held) == 5
    hf.queue("q", concurrency=None)
    assert len(rival.claim("q", n=100)) == 12


def test_a_client_that_has_not_heard_of_the_limit_keeps_it(hf: Holdfast, rival: Holdfast) -> None:
    """Clients know settings for a second; the database knows the limit at once."""
    rival.enqueue_many("q", range(5))
    hf.queue("q", concurrency=1)
    assert len(rival.claim("q", n=5)) == 1
    hf.queue("q", concurrency=2)
    assert len(rival.claim("q", n=5)) == 1


def test_the_urgent_still_go_first(hf: Holdfast) -> None:
    hf.queue("q", concurrency=2)
    for body, priority in enumerate([3, 2, 0, 1, 0]):
        hf.enqueue("q", body, priority=priority)
    found, claims = [], hf.claim("q", n=9)
    while claims:
        found += bodies(claims)
        claims = hf.claim("q", n=9, ack=claims)
    assert found == [2, 4, 3, 1, 0]


def test_a_paused_queue_stays_paused_and_keeps_its_limit(hf: Holdfast) -> None:
    hf.queue("q", concurrency=1, key_concurrency=1)
    hf.enqueue_many("q", range(2))
    hf.queues.pause("q")
    assert hf.claim("q") == []
    hf.queues.resume("q")
    assert len(hf.claim("q", n=2)) == 1


def test_a_full_queue_leaves_the_rest_of_a_claim_to_the_others(hf: Holdfast) -> None:
    hf.queue("narrow", concurrency=1)
    for queue in ("narrow", "wide"):
        hf.enqueue_many(queue, [f"{queue}-{number}" for number in range(3)])
    assert bodies(hf.claim("narrow", "wide", n=3)) == ["narrow-0", "wide-0", "wide-1"]
    assert bodies(hf.claim("narrow", "wide", n=3)) == ["wide-2"]


@pytest.mark.parametrize(
    "limits", [{"concurrency": 1}, {"key_concurrency": 1}, {"rate": "1/s"}, {"key_rate": "1/s"}], ids=str
)
def test_what_comes_back_alone_keeps_the_limits(hf: Holdfast, clock: FakeClock, limits: dict[str, Any]) -> None:
    """One claim in four begins with such a message, whatever is more urgent."""
    hf.queue("q", lease=5, max_attempts=9, **limits)
    hf.enqueue_many("q", range(3), key="k")
    hf.queue("q", **dict.fromkeys(limits))
    assert len(hf.claim("q", n=3)) == 3
    clock.advance(5)
    hf.queues.sweep("q")
    hf.queue("q", lease=5, max_attempts=9, **limits)
    assert len([claim for _ in range(9) for claim in hf.claim("q")]) == 1


def test_stats_and_depth_of_a_limited_queue_are_those_of_any(hf: Holdfast) -> None:
    hf.queue("q", concurrency=2, rate="100/s", key_concurrency=1, max_depth=10)
    hf.enqueue_many("q", range(3))
    hf.enqueue_many("q", range(4), key="k")
    held = hf.claim("q", n=9)
    assert counts(hf) == (5, 0, 2, 0)
    hf.ack(held)
    assert counts(hf) == (5, 0, 0, 0)


def test_eight_threads_never_hold_more_than_allowed(client: OpenClient) -> None:
    hf = client(clock=None)
    hf.queue("q", concurrency=3, backoff=None, max_attempts=1000)
    hf.enqueue_many("q", range(150))
    held, most, done, lock, chance = 0, 0, 0, threading.Lock(), random.Random(7)

    def work(number: int) -> None:
        nonlocal held, most, done
        while done < 150:
            claims = hf.claim("q", n=1 + number % 3)
            with lock:
                held += len(claims)
                most = max(most, held)
            spend(0.002 * len(claims))  # The work.
            for claim in claims:
                is_good = chance.random() < 0.7
                with lock:
                    held -= 1
                    done += is_good
                hf.ack(claim) if is_good else hf.nack(claim, "again")

    together(work, range(8))
    assert most == 3
    assert counts(hf) == (0, 0, 0, 0)


def test_claims_of_limited_queues_in_any_order_do_not_hold_each_other_up(client: OpenClient) -> None:
    """Whoever wants several locks them in one order; a deadlock would take a second each."""
    hf = client(clock=None)
    for queue in ("a", "b"):
        hf.queue(queue, concurrency=50, rate="100000/s")
        hf.enqueue_many(queue, range(400))

    def work(number: int) -> None:
        queues = ("a", "b") if number % 2 else ("b", "a")
        for _ in range(20):
            hf.ack(hf.claim(*queues, n=5))

    together(work, range(8))
    assert counts(hf, "a").pending + counts(hf, "b").pending == 0


# --- how many per time ------------------------------------------------------------------------------------------------


def test_a_burst_as_large_as_the_rate_and_then_none_until_it_is_past(
    hf: Holdfast, rival: Holdfast, clock: FakeClock
) -> None:
    hf.queue("q", rate="5/m", lease="1h")
    hf.enqueue_many("q", range(20))
    hf.ack(hf.claim("q", n=3))
    clock.advance(30)
    assert bodies(rival.claim("q", n=9)) == [3, 4]
    clock.advance(29)
    assert rival.claim("q", n=9) == []
    clock.advance(1)
    assert bodies(rival.claim("q", n=9)) == [5, 6, 7]
    assert rival.claim("q", n=9) == []


@pytest.mark.parametrize("by_key", [False, True], ids=["queue", "key"])
def test_no_span_has_more_than_the_rate(hf: Holdfast, clock: FakeClock, by_key: bool) -> None:
    """Whatever the steps of time and the sizes of claims: and hardly fewer are claimed than may be."""
    hf.queue("q", **{"key_rate" if by_key else "rate": "10/s"})  # type: ignore[arg-type]
    hf.enqueue_many("q", range(400), key="k")
    starts, chance = [], random.Random(11)
    while len(starts) < 200:
        claims = hf.claim("q", n=chance.choice([1, 3, 20]))
        starts += [clock.now] * len(claims)
        hf.ack(claims)
        clock.advance(chance.choice([0, 0.0001, 0.013, 0.1, 0.3]))
        hf.queues.sweep("q")
    assert most_in_a_span(starts, 1_000_000) == 10
    assert starts[-1] - starts[0] < 1.2 * 20_000_000


@pytest.mark.parametrize("by_key", [False, True], ids=["queue", "key"])
def test_what_is_noted_as_one_counts_as_long_as_the_last_of_it(hf: Holdfast, clock: FakeClock, by_key: bool) -> None:
    """Two claims in the same 64th of a second: neither comes back before the second one is a second ago."""
    hf.queue("q", **{"key_rate" if by_key else "rate": "2/s"})  # type: ignore[arg-type]
    hf.enqueue_many("q", range(9), key="k")
    assert len(hf.claim("q")) == 1
    clock.advance(0.015)
    assert len(hf.claim("q")) == 1
    clock.advance(0.999)
    assert hf.claim("q", n=9) == []
    clock.advance(0.001)
    assert len(hf.claim("q", n=9)) == 2


def most_in_a_span(starts: list[int], span: int) -> int:
    return max(sum(start - span < other <= start for other in starts) for start in starts)


def test_a_release_does_not_give_its_start_back(hf: Holdfast) -> None:
    hf.queue("q", rate="2/s")
    hf.enqueue_many("q", range(3))
    hf.release(hf.claim("q"))
    hf.release(hf.claim("q"))
    assert hf.claim("q") == []


def test_a_rate_is_changed_while_it_counts(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", rate="5/m", lease="1h")
    hf.enqueue_many("q", range(30))
    assert len(hf.claim("q", n=9)) == 5
    hf.queue("q", rate="8/m", lease="1h")
    assert len(hf.claim("q", n=9)) == 3
    hf.queue("q", rate="2/m", lease="1h")
    clock.advance(59)
    assert hf.claim("q", n=9) == []
    clock.advance(1)
    assert len(hf.claim("q", n=9)) == 2
    hf.queue("q", rate=None)
    assert len(hf.claim("q", n=9)) == 9


def test_a_clock_that_is_set_back_lets_nothing_through(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", rate="2/m")
    hf.enqueue_many("q", range(9))
    assert len(hf.claim("q", n=9)) == 2
    clock.advance(-30)
    assert hf.claim("q", n=9) == []


def test_what_is_noted_of_claims_is_forgotten_in_time(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", rate="1000/s", key_rate="5/s")
    for number in range(250):
        hf.enqueue("q", number, key=str(number))
    assert len(hf.claim("q", n=300)) == 250
    clock.advance(1)
    hf.queues.sweep("q")
    while hf.queues.sweep("q"):
        pass
    assert internals(hf).store.database.read(lambda tx: tx.one("limits.next_of_a_key", group=1, per=10**15)) == (None,)  # type: ignore[attr-defined]


def test_a_rate_holds_in_real_time_for_eight_threads(client: OpenClient) -> None:
    hf = client(clock=None)
    hf.queue("q", rate="20/200ms")
    hf.enqueue_many("q", range(100))
    starts: list[int] = []

    def work(number: int) -> None:
        while len(starts) < 100:
            claims = hf.claim("q", n=1 + number, wait=0.1)
            starts.extend(claim.lease.since_us for claim in claims)
            hf.ack(claims)

    together(work, range(8))
    assert most_in_a_span(starts, 200_000) <= 20
    assert max(starts) - min(starts) >= 800_000
