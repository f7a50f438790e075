"""The ways in which ordered queues are known to break, each by its id in the failure catalogue (O1 to O6)."""

from __future__ import annotations

import os
import random
import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import Claim, Holdfast, LeaseLost
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, claim_one, drain, state

pytestmark = pytest.mark.of_queues

LENGTH = int(os.environ.get("HOLDFAST_ORDERED", "12"))
KEYS, WORKERS = (12, 4) if LENGTH <= 12 else (100, 8)


@pytest.fixture
def keyed(hf: Holdfast) -> Holdfast:
    hf.queue("q", ordering="per_key", max_attempts=3, backoff=None)
    return hf


# --- O1: nobody is overtaken ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_o1_no_attempt_begins_after_one_of_a_later_message_of_its_key(
    client: OpenClient, clock: FakeClock, seed: int
) -> None:
    """O1: many keys, many workers, who ack, fail, hand back, snooze or fall silent at random."""
    hf = client()
    hf.queue("q", ordering="per_key", max_attempts=1_000, backoff=None)
    hf.enqueue_many("q", [(key, n) for n in range(LENGTH) for key in range(KEYS)], key=lambda body: str(body[0]))
    starts: dict[int, list[int]] = defaultdict(list)
    started = threading.Lock()

    consumers = [(random.Random(f"{seed}/{number}"), client()) for number in range(WORKERS)]

    def work(consumer: tuple[random.Random, Holdfast]) -> None:
        chance, worker = consumer
        while claims := worker.claim("q", n=chance.randint(1, 5)):
            with started:
                for claim in claims:
                    key, place = claim.message.body
                    starts[key].append(place)
            for claim in claims:
                end(claim, chance.random())

    rounds = 0
    while is_unfinished(hf):
        with ThreadPoolExecutor(WORKERS) as workers:
            list(workers.map(work, consumers))
        clock.advance(60)
        rounds += 1
        assert rounds < 100 + LENGTH, "nothing moves any more"
    assert {key: order == sorted(order) for key, order in starts.items()} == dict.fromkeys(range(KEYS), True)
    assert {key: set(order) for key, order in starts.items()} == {key: set(range(LENGTH)) for key in range(KEYS)}
    assert sum(map(len, starts.values())) > KEYS * LENGTH, "nobody ever failed"


def is_unfinished(hf: Holdfast) -> bool:
    stats = hf.stats("q")
    return stats.pending + stats.waiting + stats.processing > 0


def end(claim: Claim, chance: float) -> None:
    if chance < 0.1:
        return  # Killed: the lease runs out.
    if chance < 0.2:
        claim.nack("no", delay=0)
    elif chance < 0.25:
        claim.nack("no", delay=5)
    elif chance < 0.3:
        claim.release()
    elif chance < 0.35:
        claim.snooze(5)
    else:
        claim.ack()


# --- O2: a busy key holds nobody up -----------------------------------------------------------------------------------


@pytest.mark.parametrize("head", ["held", "failed", "dead and blocking"])
def test_o2_a_key_behind_ten_thousand_of_a_stuck_one_is_claimed_at_the_first_look(hf: Holdfast, head: str) -> None:
    """O2: what waits behind a stuck head is not even looked at."""
    hf.queue("q", ordering="per_key", on_dead="block")
    hf.enqueue_many("q", range(10_000), key="a")
    hf.enqueue("q", "b", key="b")
    [first] = hf.claim("q")
    if head == "failed":
        first.nack("no", delay=3600)
    elif head == "dead and blocking":
        first.dead_letter("no")
    assert bodies(hf.claim("q")) == ["b"]
    assert hf.claim("q", n=100) == []


# --- O3: neither priority nor time overtakes inside a key -------------------------------------------------------------


@pytest.mark.parametrize("later", [{"priority": "urgent"}, {"delay": 1}, {"priority": "urgent", "delay": 1}])
@pytest.mark.parametrize("ordering", ["per_key", "fifo"])
def test_o3_the_head_wins_over_priority_and_time(
    hf: Holdfast, clock: FakeClock, ordering: str, later: dict[str, int | str]
) -> None:
    """O3: the head is due in an hour; the next could be claimed now, and waits. Why can be seen: the head's time."""
    hf.queue("q", ordering=ordering)
    head = hf.enqueue("q", "head", key="k", priority="low", delay=3600)
    hf.enqueue("q", "next", key="k", **later)
    clock.advance(60)
    assert hf.claim("q", n=10) == []
    found = hf.status(head.id)
    assert found is not None
    assert found.due_at_us == clock() + 3540_000_000
    clock.advance(3540)
    assert drain(hf) == ["head", "next"]


def test_o3_a_retrying_head_keeps_its_place(keyed: Holdfast, clock: FakeClock) -> None:
    """O3: its backoff is a delay like any other."""
    keyed.enqueue("q", "head", key="k", priority="low")
    claim_one(keyed).nack("no", delay=3600)
    keyed.enqueue("q", "next", key="k", priority="urgent")
    clock.advance(3599)
    assert keyed.claim("q", n=10) == []
    clock.advance(1)
    assert drain(keyed) == ["head", "next"]


# --- O4: the head dies ------------------------------------------------------------------------------------------------


def test_o4_the_key_goes_on_and_a_replay_goes_to_its_end(keyed: Holdfast) -> None:
    """O4: with `on_dead="continue"` a replayed message has lost its place."""
    keyed.enqueue_many("q", ["first", "second", "third"], key="k")
    for _ in range(3):
        claim_one(keyed).nack("no")
    second = claim_one(keyed)
    assert second.message.body == "second"
    keyed.dead_letters.replay(keyed.dead_letters.list("q")[0].id)
    assert keyed.claim("q") == []
    second.ack()
    assert drain(keyed) == ["third", "first"]


def test_o4_a_blocked_key_waits_and_a_replay_takes_its_old_place(hf: Holdfast) -> None:
    """O4: with `on_dead="block"` nothing has passed it, so it comes first again."""
    hf.queue("q", ordering="per_key", on_dead="block", max_attempts=1)
    hf.enqueue_many("q", ["first", "second", "third"], key="k")
    claim_one(hf).nack("no")
    assert hf.claim("q") == []
    hf.dead_letters.replay(hf.dead_letters.list("q")[0].id)
    assert drain(hf) == ["first", "second", "third"]


# --- O5: a key is held by the lease of its head, and by nothing else --------------------------------------------------

STALE: dict[str, Callable[[Claim], None]] = {
    "ack": lambda claim: claim.ack(),
    "nack": lambda claim: claim.nack("late", delay=0),
    "release": lambda claim: claim.release(),
    "dead_letter": lambda claim: claim.dead_letter("late"),
}


@pytest.mark.parametrize("ending", STALE)
def test_o5_a_stale_holder_does_not_free_the_key_a_second_time(
    keyed: Holdfast, rival: Holdfast, clock: FakeClock, ending: str
) -> None:
    """O5: the one who was given up comes back while another holds the key."""
    keyed.enqueue_many("q", ["head", "next"], key="k")
    stale = claim_one(keyed)
    clock.advance(30)
    current = claim_one(rival)
    assert current.message.id == stale.message.id
    with pytest.raises(LeaseLost):
        STALE[ending](stale)
    assert rival.claim("q", n=10) == []
    current.ack()
    with pytest.raises(LeaseLost):
        STALE[ending](stale)
    following = claim_one(rival)
    assert following.message.body == "next"
    with pytest.raises(LeaseLost):
        STALE[ending](stale)
    assert rival.claim("q", n=10) == []
    following.ack()


def test_o5_a_killed_holder_leaves_no_lock_behind(keyed: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    """O5: killed again and again, until its head is dead; the key goes on by itself."""
    keyed.enqueue_many("q", ["head", "next"], key="k")
    for attempt in (1, 2, 3):
        assert claim_one(rival).attempt == attempt
        clock.advance(30)
    assert drain(keyed) == ["next"]
    keyed.enqueue("q", "after", key="k")
    assert drain(keyed) == ["after"]


# --- O6: an ack is for one message, not for all before it -------------------------------------------------------------


@pytest.mark.parametrize("third", ["failed", "silent"])
@pytest.mark.parametrize("delay", [0, 1], ids=["lane", "rows"])
def test_o6_what_was_not_acked_comes_again_after_a_crash_and_nothing_else(
    client: OpenClient, clock: FakeClock, third: str, delay: int
) -> None:
    """O6: 1, 2 and 4 are acked, 3 is not, and then everything that was in memory is gone."""
    hf = client()
    receipts = hf.enqueue_many("q", [1, 2, 3, 4], delay=delay)
    clock.advance(delay)
    claims = hf.claim("q", n=4)
    for number in (0, 1, 3):
        claims[number].ack()
    if third == "failed":
        claims[2].nack("no", delay=0)
    hf.close()
    clock.advance(30)
    survivor = client()
    assert [(claim.message.body, claim.attempt) for claim in survivor.claim("q", n=10)] == [(3, 2)]
    assert [state(survivor, receipt.id) for receipt in receipts] == [
        "succeeded",
        "succeeded",
        "processing",
        "succeeded",
    ]


def test_o6_the_ack_of_a_later_one_does_not_let_a_key_go_on(keyed: Holdfast, clock: FakeClock) -> None:
    """O6: heads of other keys under the same lease are acked; the one that is not still holds its own key."""
    keyed.enqueue_many("q", ["a1", "b1", "c1", "a2", "b2", "c2"], key=lambda body: body[0])
    first, middle, last = keyed.claim("q", n=10)
    keyed.ack([first, last])
    assert bodies(keyed.claim("q", n=10)) == ["a2", "c2"]
    clock.advance(30)
    assert middle.message.body in bodies(keyed.claim("q", n=10))
