"""Limits of each key: so many held at once and claimed per time, and no key hides another."""

import random
import threading
from collections import Counter, defaultdict

import pytest

from holdfast import Holdfast
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, counts, drain, together
from tests.stores import LANES

pytestmark = pytest.mark.of_queues


def test_no_more_of_a_key_are_held_at_once_than_allowed(hf: Holdfast, rival: Holdfast) -> None:
    hf.queue("q", key_concurrency=2)
    for number in range(4):
        for key in "ab":
            hf.enqueue("q", key + str(number), key=key)
    hf.enqueue_many("q", ["free-1", "free-2", "free-3"])
    first = hf.claim("q", n=100)
    assert sorted(bodies(first)) == ["a0", "a1", "b0", "b1", "free-1", "free-2", "free-3"]
    assert rival.claim("q", n=100) == []
    hf.nack(next(claim for claim in first if claim.message.body == "a1"), "no", delay=60)
    assert bodies(rival.claim("q", n=100)) == ["a2"]


def test_a_full_key_hides_no_other(hf: Holdfast) -> None:
    """O2: 10^4 of a full key in front, one of another: delivered by one claim."""
    hf.queue("q", key_concurrency=1)
    hf.enqueue_many("q", range(10_000), key="full")
    hf.enqueue("q", "other", key="zebra")
    assert bodies(hf.claim("q", n=5)) == [0]
    assert bodies(hf.claim("q", n=5)) == ["other"]
    assert hf.claim("q", n=5) == []


def test_behind_a_full_key_every_key_has_its_turn(hf: Holdfast) -> None:
    hf.queue("q", key_concurrency=1)
    hf.enqueue_many("q", range(500), key="m")
    assert len(hf.claim("q")) == 1
    for turn in range(3):
        hf.enqueue_many("q", [f"{key}{turn}" for key in "abyz"], key=lambda body: body[0])
    taken = []
    for _ in range(12):
        [claim] = hf.claim("q")
        taken.append(claim.message.body)
        claim.ack()
        hf.enqueue("q", "a9", key="a")
    assert {"a0", "b0", "y0", "z0"} <= set(taken[:4])
    assert {"b2", "y2", "z2"} <= set(taken)


def test_behind_a_full_key_those_without_one_have_their_turn_too(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", key_concurrency=1, lease="1h")
    hf.enqueue_many("q", range(500), key="m")
    assert len(hf.claim("q")) == 1
    hf.enqueue_many("q", ["x1", "x2", "x3"], delay=1)
    hf.enqueue_many("q", ["y", "z", ""], key=lambda body: body)
    clock.advance(1)
    assert sorted(bodies(claim for _ in range(4) for claim in hf.claim("q"))) == ["", "x1", "y", "z"]
    assert bodies(hf.claim("q", n=9)) == ["x2"]
    assert bodies(hf.claim("q")) == ["x3"]
    assert hf.claim("q") == []


@pytest.mark.not_through_sqs(
    "one without a key in a lane is claimed beside rows of full keys; if it is a row too, with the next claim"
)
def test_messages_from_before_the_limit_keep_it_too(hf: Holdfast) -> None:
    hf.queue("q", history=0)
    hf.enqueue_many("q", range(600), key=lambda body: "even" if body % 2 == 0 else "odd")
    hf.enqueue_many("q", ["free"])
    hf.queue("q", key_concurrency=1, history=0)
    assert sorted(bodies(hf.claim("q", n=9)), key=str) == [0, 1, "free"]
    assert counts(hf) == (598, 0, 3, 0)
    hf.queue("q", key_concurrency=None)
    assert drain(hf) == list(range(2, 600))


@pytest.mark.not_through_sqs(LANES)
def test_a_run_ends_before_the_first_message_that_has_a_key(hf: Holdfast) -> None:
    """Those within reach of the claim have become rows; behind them there may be others."""
    hf.enqueue_many("q", range(500), key=lambda body: "k" if body in (0, 1, 251, 252) else None)
    hf.queue("q", key_concurrency=1)
    assert bodies(hf.claim("q")) == [0]
    assert bodies(hf.claim("q", n=250)) == list(range(2, 251))
    assert bodies(hf.claim("q", n=250)) == list(range(253, 500))


def test_a_run_from_before_the_limit_counts_for_its_keys(hf: Holdfast) -> None:
    hf.enqueue_many("q", range(9), key=lambda body: "even" if body % 2 == 0 else "odd")
    before = hf.claim("q", n=3)
    hf.queue("q", key_concurrency=2)
    assert bodies(hf.claim("q", n=9)) == [3]
    hf.ack(before)
    assert bodies(hf.claim("q", n=9)) == [4, 5, 6]


def test_messages_from_a_client_that_has_not_heard_of_the_limit_keep_it(hf: Holdfast, rival: Holdfast) -> None:
    rival.enqueue("q", 0, key="k")
    hf.queue("q", key_concurrency=1)
    rival.enqueue_many("q", [1, 2], key="k")
    rival.enqueue("q", "free")
    hf.enqueue("q", 3, key="k")
    claims = hf.claim("q", n=9)
    assert len(claims) == 2
    hf.ack(claims)
    assert len(hf.claim("q", n=9)) == 1


def test_the_limits_of_keys_are_lowered_and_raised(hf: Holdfast) -> None:
    hf.queue("q", key_concurrency=2)
    hf.enqueue_many("q", range(10), key="k")
    held = hf.claim("q", n=9)
    hf.queue("q", key_concurrency=1)
    hf.ack(held[0])
    assert hf.claim("q", n=9) == []
    hf.queue("q", key_concurrency=3)
    assert bodies(hf.claim("q", n=9)) == [2, 3]


def test_in_an_ordered_queue_the_head_needs_room_too(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", ordering="per_key", key_rate="1/s")
    hf.enqueue_many("q", ["a1", "a2", "b1"], key=lambda body: body[0])
    first = hf.claim("q", n=9)
    assert bodies(first) == ["a1", "b1"]
    hf.ack(first)
    assert hf.claim("q", n=9) == []
    clock.advance(1)
    assert bodies(hf.claim("q", n=9)) == ["a2"]


@pytest.mark.parametrize("key", ["", "=", "Ä", "a'b"])
def test_any_text_is_a_key(hf: Holdfast, key: str) -> None:
    hf.queue("q", key_concurrency=1, key_rate="1/s")
    hf.enqueue_many("q", range(300), key=key)
    assert bodies(hf.claim("q", n=9)) == [0]
    hf.enqueue("q", "other", key="key")
    assert bodies(hf.claim("q", n=9)) == ["other"]


def test_limits_of_queue_and_keys_hold_together(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", concurrency=4, rate="6/m", key_concurrency=2, key_rate="3/m")
    for key in "abcd":
        hf.enqueue_many("q", [f"{key}{number}" for number in range(9)], key=key)
    first = hf.claim("q", n=99)
    assert bodies(first) == ["a0", "a1", "b0", "b1"]
    hf.ack(first)
    second = hf.claim("q", n=99)
    assert bodies(second) == ["a2", "b2"]
    hf.ack(second)
    assert hf.claim("q", n=99) == []
    clock.advance(60)
    assert len(hf.claim("q", n=99)) == 4


def test_fifty_keys_and_eight_threads(client: OpenClient) -> None:
    hf = client(clock=None)
    hf.queue("q", key_concurrency=2, backoff=None, max_attempts=1000)
    hf.enqueue_many("q", range(300), key=lambda body: f"key-{body * body % 50}")
    held: Counter[str | None] = Counter()
    most: dict[str | None, int] = defaultdict(int)
    done, lock, chance = set(), threading.Lock(), random.Random(3)

    def work(number: int) -> None:
        while len(done) < 300:
            claims = hf.claim("q", n=5)
            with lock:
                for claim in claims:
                    held[claim.message.key] += 1
                    most[claim.message.key] = max(most[claim.message.key], held[claim.message.key])
            for claim in claims:
                with lock:
                    held[claim.message.key] -= 1
                if chance.random() < 0.2:
                    claim.release()
                else:
                    claim.ack()
                    done.add(claim.message.body)

    together(work, range(8))
    assert max(most.values()) == 2
    assert done == set(range(300))
