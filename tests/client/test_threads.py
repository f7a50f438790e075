"""One client shared by many threads, and two clients at once."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import Claim, Holdfast, LeaseLost
from tests.steps import OpenClient, bodies, claim_one
from tests.stores import INSIDE

pytestmark = [pytest.mark.both_engines, pytest.mark.not_through_sqs(INSIDE)]

THREADS = 20


@pytest.fixture
def shared(client: OpenClient) -> Holdfast:
    """A client by the database's own clock, with leases that outlast the test."""
    hf = client(clock=None, sweep_every=1)
    hf.queue("q", lease=600)
    return hf


@pytest.fixture
def at_once() -> Iterator[Callable[..., list[object]]]:
    """Runs a function in many threads that start together."""
    with ThreadPoolExecutor(THREADS) as threads:

        def run(work: Callable[[int], object], count: int = THREADS) -> list[object]:
            together = threading.Barrier(count)

            def begin(number: int) -> object:
                together.wait(30)
                return work(number)

            return list(threads.map(begin, range(count)))

        yield run


def test_everything_that_many_threads_enqueue_arrives_once(
    shared: Holdfast, at_once: Callable[..., list[object]]
) -> None:
    def produce(thread: int) -> list[str]:
        single = [shared.enqueue("q", [thread, number]).id for number in range(10)]
        return single + [receipt.id for receipt in shared.enqueue_many("q", [[thread, n] for n in range(10, 20)])]

    receipts = [message_id for ids in at_once(produce) for message_id in ids]
    claims = shared.claim("q", n=1000)
    assert sorted(bodies(claims)) == sorted([thread, number] for thread in range(THREADS) for number in range(20))
    assert sorted(claim.message.id for claim in claims) == sorted(receipts)


def test_each_thread_keeps_the_order_of_its_own_messages(
    shared: Holdfast, at_once: Callable[..., list[object]]
) -> None:
    def produce(thread: int) -> None:
        for number in range(10):
            shared.enqueue("q", [thread, number])

    at_once(produce)
    arrived = bodies(shared.claim("q", n=1000))
    for thread in range(THREADS):
        assert [number for owner, number in arrived if owner == thread] == list(range(10))


def test_producers_and_consumers_in_many_threads_handle_every_message_once(
    shared: Holdfast, at_once: Callable[..., list[object]]
) -> None:
    total, done = 200, threading.Event()
    handled: Counter[int] = Counter()

    def work(thread: int) -> None:
        if thread % 2:
            for number in range(total // 10):
                shared.enqueue("q", thread // 2 * (total // 10) + number, delay=0 if number % 2 else 0.001)
            return
        while not done.is_set():
            for claim in shared.claim("q", n=3, wait=0.05):
                handled[claim.message.body] += 1
                claim.ack()
            if len(handled) == total:
                done.set()

    at_once(work)
    assert handled == Counter(range(total))
    stats = shared.stats("q")
    assert (stats.pending, stats.waiting, stats.processing) == (0, 0, 0)


def test_one_run_may_be_settled_by_many_threads(shared: Holdfast, at_once: Callable[..., list[object]]) -> None:
    shared.enqueue_many("q", range(THREADS))
    claims = shared.claim("q", n=THREADS)

    def settle(thread: int) -> None:
        if thread % 4 == 3:
            claims[thread].nack("no", delay=0)
        else:
            claims[thread].ack()

    at_once(settle)
    again = shared.claim("q", n=100)
    assert sorted(bodies(again)) == [3, 7, 11, 15, 19]
    assert {claim.attempt for claim in again} == {2}


def test_threads_that_end_the_same_claims_never_both_succeed(
    shared: Holdfast, at_once: Callable[..., list[object]]
) -> None:
    shared.enqueue_many("q", range(30))
    claims = shared.claim("q", n=30)

    def end(thread: int) -> int:
        won = 0
        for claim in claims:
            try:
                shared.nack(claim, "no", delay=600) if thread % 2 else shared.release(claim)
                won += 1
            except LeaseLost:
                pass
        return won

    assert sum(at_once(end, 6)) == 30


def test_threads_that_ack_the_same_claim_all_hear_that_it_is_done(
    shared: Holdfast, at_once: Callable[..., list[object]]
) -> None:
    for _ in range(10):
        shared.enqueue("q", 1)
        claim: Claim = claim_one(shared)
        assert at_once(lambda _, claim=claim: claim.ack(), 8) == [None] * 8


def test_an_ordered_queue_stays_ordered_under_many_threads(
    client: OpenClient, at_once: Callable[..., list[object]]
) -> None:
    clients = [client(clock=None, sweep_every=1) for _ in range(2)]
    clients[0].queue("q", ordering="per_key", lease=600)
    keys = [str(number) for number in range(5)]
    for number in range(8):
        for key in keys:
            clients[0].enqueue("q", number, key=key)
    seen: dict[str, list[int]] = {key: [] for key in keys}
    at_work: Counter[str] = Counter()
    overlaps: list[str] = []
    guard = threading.Lock()

    def consume(thread: int) -> None:
        hf = clients[thread % 2]
        while any(len(numbers) < 8 for numbers in seen.values()):
            for claim in hf.claim("q", n=2, wait=0.05):
                key = claim.message.key
                with guard:
                    at_work[key] += 1
                    if at_work[key] > 1:
                        overlaps.append(key)
                    seen[key].append(claim.message.body)
                with guard:
                    at_work[key] -= 1
                claim.ack()

    at_once(consume, 6)
    assert overlaps == []
    assert seen == {key: list(range(8)) for key in keys}


def test_an_arrival_and_the_end_of_the_head_of_its_key_never_miss_each_other(
    client: OpenClient, at_once: Callable[..., list[object]]
) -> None:
    hf, rival = client(clock=None), client(clock=None)
    hf.queue("q", ordering="fifo", lease=600)
    hf.enqueue("q", 0)
    for number in range(1, 60):
        head = claim_one(hf)
        assert head.message.body == number - 1
        ends = [lambda head=head: hf.ack(head), lambda number=number: rival.enqueue("q", number)]
        at_once(lambda thread, ends=ends: ends[thread](), 2)
    assert bodies(hf.claim("q", n=10)) == [59]


def test_cancel_and_claim_at_the_same_time_leave_nothing_in_between(
    client: OpenClient, at_once: Callable[..., list[object]]
) -> None:
    hf, rival = client(clock=None), client(clock=None)
    hf.queue("q", lease=600)
    ids = [receipt.id for receipt in hf.enqueue_many("q", range(60))]
    canceled: list[str] = []
    acked: list[str] = []
    lost: list[str] = []

    def work(thread: int) -> None:
        if thread == 0:
            canceled.extend(message_id for message_id in ids[::2] if hf.cancel(message_id))
            return
        while claims := rival.claim("q", n=4):
            for claim in claims:
                try:
                    claim.ack()
                    acked.append(claim.message.id)
                except LeaseLost:
                    lost.append(claim.message.id)

    at_once(work, 2)
    assert sorted(canceled + acked) == sorted(ids)
    assert set(lost) <= set(canceled)
    states = Counter(hf.status(message_id).state.value for message_id in ids)
    assert states == Counter(canceled=len(canceled), succeeded=len(acked))
