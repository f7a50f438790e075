"""A queue that is delivered another way from now on, while messages are everywhere: none is lost, none doubled."""

import random
from collections import Counter
from typing import Any

import pytest

from holdfast import Claim, Holdfast
from tests.clock import FakeClock
from tests.sqs.fake_sqs import FakeSQS
from tests.sqs.steps import Seen, claim_all, hand_over, pointers, try_to_claim, work_off
from tests.steps import bodies

pytestmark = pytest.mark.above_the_stores

TIMES = 60


def test_from_sqs_to_the_database(hf: Holdfast, rival: Holdfast, clock: FakeClock, sqs: FakeSQS) -> None:
    hf.enqueue_many("q", list(range(6)))
    held = hf.claim("q", n=2)
    hand_over(hf)
    assert hf.stats("q").enqueued == 4
    hf.enqueue("q", "later", delay="1h")
    hf.queue("q", delivery="database")
    before = sqs.count()
    assert hf.stats("q").enqueued == 0
    assert sorted(work_off(hf) + bodies(held)) == list(range(6))
    hf.ack(held)
    clock.advance("1h")
    assert work_off(hf) == ["later"]
    asked = {request.action for request in sqs.requests[before:]}
    assert asked <= {"DeleteMessageBatch"}, "nobody asks SQS any more"


def test_a_pointer_from_before_leads_to_nothing(hf: Holdfast, sqs: FakeSQS) -> None:
    hf.enqueue("q", 1)
    hand_over(hf)
    hf.queue("q", delivery="database")
    [claim] = hf.claim("q")
    hf.queue("q", delivery="sqs")
    sqs.resurrect()
    hf.enqueue("q", 2)
    assert work_off(hf) == [2]
    hf.ack(claim)
    assert claim_all(hf) == []


def test_from_the_database_to_sqs(client: Any, sqs: FakeSQS) -> None:
    hf = client(worker="anna", delivery="database")
    sent = hf.enqueue_many("q", list(range(6)))
    held = hf.claim("q", n=2)
    hf.enqueue("q", "urgent", priority="high")
    hf.queue("q", delivery="sqs")
    found = claim_all(hf)
    assert sorted(map(str, bodies(found) + bodies(held))) == sorted(map(str, [*range(6), "urgent"]))
    hf.ack(found + held)
    assert {hf.status(one.id).attempts for one in sent} == {1}
    assert pointers(sqs) == []


def test_another_queue_of_sqs_gets_what_the_old_one_has(hf: Holdfast, rival: Holdfast, sqs: FakeSQS) -> None:
    """At once, for nobody looks there any more. What is being worked on is deleted where it came from."""
    hf.queue("q", sqs_queue="old")
    sent = hf.enqueue_many("q", [1, 2, 3])
    [held] = hf.claim("q")
    hand_over(hf)
    assert len(sqs.bodies("old")) == 3
    hf.queue("q", sqs_queue="new")
    assert hf.stats("q").enqueued == 0
    hf.ack(held)
    assert len(sqs.bodies("old")) == 2
    assert sorted(work_off(hf) + bodies([held])) == [1, 2, 3]
    assert {hf.status(one.id).attempts for one in sent} == {1}
    hf.queue("q", sqs_queue="old")
    hf.enqueue("q", 4)
    assert work_off(hf) == [4]
    assert (sqs.bodies("old"), sqs.bodies("new")) == ([], [])


def test_what_changes_nothing_withdraws_nothing(hf: Holdfast, sqs: FakeSQS) -> None:
    hf.queue("q", lease="1m")
    hf.enqueue("q", 1)
    hand_over(hf)
    hf.queue("q", lease="2m")
    assert hf.stats("q").enqueued == 1


def test_under_running_consumers(url: str, sqs: FakeSQS) -> None:
    """Back and forth, and to another queue of SQS, while messages come and are worked off, with copies of pointers."""
    sqs.faults.copies = 2
    ways: list[dict[str, Any]] = [
        {"delivery": "database"},
        {"delivery": "sqs"},
        {"delivery": "sqs", "sqs_queue": "elsewhere"},
    ]
    with Holdfast(url, delivery="sqs", sqs_create=True) as hf, Holdfast(url, delivery="sqs") as operator:
        hf.queue("q")
        seen = Seen()
        hf.consumer("q", concurrency=2)(seen.note)
        with hf.running():
            for turn in range(2 * len(ways)):
                hf.enqueue_many("q", list(range(turn * 5, turn * 5 + 5)))
                operator.queue("q", **ways[turn % len(ways)])
                hf.enqueue("q", -1 - turn)
                seen.wait((turn + 1) * 6)
        assert sorted(seen.bodies) == list(range(-2 * len(ways), 10 * len(ways)))


@pytest.mark.parametrize("seed", range(4))
def test_back_and_forth_at_random(hf: Holdfast, rival: Holdfast, clock: FakeClock, sqs: FakeSQS, seed: int) -> None:
    """With pointers that come twice, late or never; every attempt is seen once, and everything ends well."""
    chance = random.Random(seed)
    sqs.faults.copies, sqs.faults.shuffled = 2, chance
    hf.queue("q", lease="1m", backoff=[0], max_attempts=100)
    clients, count = [hf, rival], 0
    attempts: Counter[tuple[int, int]] = Counter()
    given_back: Counter[tuple[int, int]] = Counter()
    acked: Counter[int] = Counter()
    held: list[tuple[Holdfast, Claim]] = []

    def claim(consumer: Holdfast) -> None:
        for one in try_to_claim(consumer, n=chance.randint(1, 5)):
            attempts[one.message.body, one.attempt] += 1
            held.append((consumer, one))

    def end(well: bool) -> None:
        while held:
            consumer, one = held.pop(chance.randrange(len(held)))
            if well or chance.random() < 0.6:
                consumer.ack(one)
                acked[one.message.body] += 1
            elif chance.random() < 0.5:
                consumer.nack(one, "again")
            else:
                consumer.release(one)
                given_back[one.message.body, one.attempt] += 1

    for _ in range(TIMES):
        step = chance.random()
        if step < 0.3:
            clients[chance.randrange(2)].enqueue("q", count)
            count += 1
        elif step < 0.7:
            claim(clients[chance.randrange(2)])
        elif step < 0.85:
            end(well=False)
        else:
            how = chance.choice(["database", "sqs"])
            clients[chance.randrange(2)].queue("q", delivery=how, lease="1m", backoff=[0], max_attempts=100)
        if chance.random() < 0.1:
            sqs.resurrect()
        if chance.random() < 0.2:
            hand_over(clients[chance.randrange(2)])
    end(well=True)
    hf.queue("q", delivery="database", lease="1m", backoff=[0], max_attempts=100)
    while claims := hf.claim("q", n=10):
        attempts.update((one.message.body, one.attempt) for one in claims)
        acked.update(bodies(claims))
        hf.ack(claims)
    ended = hf.stats("q")
    assert (ended.pending, ended.processing, ended.waiting, ended.dead) == (0, 0, 0, 0)
    assert acked == Counter(range(count)), "each is done, and once"
    assert set((attempts - given_back).values()) == {1}, "an attempt is seen once, unless given back"
    assert all((body, attempt - 1) in attempts for body, attempt in attempts if attempt > 1)
