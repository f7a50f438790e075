"""Order: fifo queues and per-key queues. Only the head may be claimed, and nothing overtakes it."""

import pytest

from holdfast import BlockedKey, Holdfast, InvalidInput, LeaseLost
from tests.clock import FakeClock
from tests.steps import bodies, claim_one, drain

pytestmark = [pytest.mark.behind_pooler(long=True), pytest.mark.through_sqs, pytest.mark.of_queues]


@pytest.fixture
def fifo(hf: Holdfast) -> Holdfast:
    hf.queue("q", ordering="fifo", max_attempts=3)
    return hf


@pytest.fixture
def keyed(hf: Holdfast) -> Holdfast:
    hf.queue("q", ordering="per_key", max_attempts=3)
    return hf


def test_a_fifo_queue_gives_out_one_at_a_time(fifo: Holdfast, rival: Holdfast) -> None:
    fifo.enqueue_many("q", range(5))
    for number in range(5):
        claim = claim_one(fifo)
        assert claim.message.body == number
        assert rival.claim("q", n=10) == []
        claim.ack()
    assert fifo.claim("q") == []


def test_a_fifo_queue_keeps_the_order_of_separate_calls(fifo: Holdfast, rival: Holdfast) -> None:
    for number in range(10):
        (fifo if number % 2 else rival).enqueue("q", number, key=str(number % 3))
    assert drain(fifo) == list(range(10))


def test_a_fifo_queue_waits_for_its_retrying_head(fifo: Holdfast, clock: FakeClock) -> None:
    fifo.enqueue_many("q", ["head", "next"])
    claim_one(fifo).nack("no", delay=60)
    assert fifo.claim("q", n=10) == []
    clock.advance(60)
    head = claim_one(fifo)
    assert (head.message.body, head.attempt) == ("head", 2)
    head.ack()
    assert drain(fifo) == ["next"]


def test_a_fifo_queue_waits_for_its_delayed_head(fifo: Holdfast, clock: FakeClock) -> None:
    fifo.enqueue("q", "head", delay=60)
    fifo.enqueue("q", "next")
    assert fifo.claim("q") == []
    clock.advance(60)
    assert drain(fifo) == ["head", "next"]


def test_a_snoozed_or_released_head_stays_the_head(fifo: Holdfast, clock: FakeClock) -> None:
    fifo.enqueue_many("q", ["head", "next"])
    claim_one(fifo).release()
    claim_one(fifo).snooze(10)
    assert fifo.claim("q") == []
    clock.advance(10)
    assert drain(fifo) == ["head", "next"]


def test_an_abandoned_head_stays_the_head(fifo: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    fifo.enqueue_many("q", ["head", "next"])
    stale = claim_one(fifo)
    clock.advance(30)
    current = claim_one(rival)
    assert (current.message.body, current.attempt) == ("head", 2)
    with pytest.raises(LeaseLost):
        stale.ack()
    assert rival.claim("q") == []
    current.ack()
    assert drain(rival) == ["next"]


def test_a_fifo_queue_goes_on_after_a_death(fifo: Holdfast) -> None:
    fifo.enqueue_many("q", ["head", "next"])
    claim_one(fifo).dead_letter("hopeless")
    assert drain(fifo) == ["next"]


def test_a_fifo_queue_goes_on_when_its_head_is_abandoned_to_death(fifo: Holdfast, clock: FakeClock) -> None:
    fifo.enqueue_many("q", ["head", "next"])
    for _ in range(3):
        assert claim_one(fifo).message.body == "head"
        clock.advance(30)
    assert claim_one(fifo).message.body == "next"


def test_a_fifo_queue_goes_on_after_it_ran_empty(fifo: Holdfast) -> None:
    for number in range(3):
        fifo.enqueue("q", number)
        assert drain(fifo) == [number]


def test_a_fifo_queue_that_is_purged_behind_a_claim_goes_on(fifo: Holdfast) -> None:
    fifo.enqueue_many("q", ["head", "purged", "purged"])
    head = claim_one(fifo)
    assert fifo.queues.purge("q") == 2
    fifo.enqueue("q", "after")
    assert fifo.claim("q") == []
    head.ack()
    assert drain(fifo) == ["after"]


def test_a_fifo_queue_that_is_purged_goes_on(fifo: Holdfast) -> None:
    fifo.enqueue_many("q", range(3))
    assert fifo.queues.purge("q") == 3
    fifo.enqueue_many("q", ["a", "b"])
    assert drain(fifo) == ["a", "b"]


def test_priority_does_not_overtake_in_a_fifo_queue(fifo: Holdfast) -> None:
    fifo.enqueue("q", "head", priority="low")
    fifo.enqueue("q", "next", priority="urgent")
    assert drain(fifo) == ["head", "next"]


def test_without_a_history_a_fifo_queue_goes_on_too(hf: Holdfast) -> None:
    hf.queue("q", ordering="fifo", history=0)
    hf.enqueue_many("q", range(3))
    assert drain(hf) == [0, 1, 2]


def test_only_the_head_of_each_key_is_claimable(keyed: Holdfast) -> None:
    for number in range(3):
        for key in ("a", "b"):
            keyed.enqueue("q", f"{key}{number}", key=key)
    rounds = []
    while claims := keyed.claim("q", n=10):
        rounds.append(sorted(bodies(claims)))
        keyed.ack(claims)
    assert rounds == [["a0", "b0"], ["a1", "b1"], ["a2", "b2"]]


def test_a_blocked_key_does_not_block_the_others(keyed: Holdfast) -> None:
    keyed.enqueue_many("q", ["a"] * 200, key="a")
    keyed.enqueue("q", "b", key="b")
    held = keyed.claim("q")
    assert bodies(held) == ["a"]
    assert bodies(keyed.claim("q")) == ["b"]
    assert keyed.claim("q", n=10) == []


def test_a_retrying_key_does_not_block_the_others(keyed: Holdfast, clock: FakeClock) -> None:
    keyed.enqueue_many("q", ["a0", "a1"], key="a")
    claim_one(keyed).nack("no", delay=60)
    keyed.enqueue_many("q", ["b0", "b1"], key="b")
    assert drain(keyed) == ["b0", "b1"]
    clock.advance(60)
    assert drain(keyed) == ["a0", "a1"]


def test_messages_without_a_key_have_no_order(keyed: Holdfast) -> None:
    keyed.enqueue_many("q", range(3))
    assert sorted(bodies(keyed.claim("q", n=10))) == [0, 1, 2]


def test_an_empty_key_is_a_key(keyed: Holdfast) -> None:
    keyed.enqueue_many("q", [0, 1], key="")
    assert bodies(keyed.claim("q", n=10)) == [0]


def test_keys_that_look_alike_are_different(keyed: Holdfast) -> None:
    keys = ["k", "K", "k ", " k", "ｋ", "k\u0301", "fifo", "=k", "%", "_", "🐙"]
    for key in keys:
        keyed.enqueue("q", key, key=key)
    assert sorted(bodies(keyed.claim("q", n=50))) == sorted(keys)


def test_keys_of_different_queues_do_not_wait_for_each_other(hf: Holdfast) -> None:
    for queue in ("a", "b"):
        hf.queue(queue, ordering="per_key")
        hf.enqueue(queue, queue, key="k")
    assert bodies(hf.claim("a", "b", n=10)) == ["a", "b"]


def test_a_key_goes_on_after_ack_death_and_cancel(keyed: Holdfast) -> None:
    receipts = keyed.enqueue_many("q", range(5), key="k")
    claim_one(keyed).ack()
    claim_one(keyed).dead_letter("hopeless")
    keyed.cancel(receipts[2].id)
    held = claim_one(keyed)
    keyed.cancel(held.message.id)
    assert held.message.body == 3
    assert drain(keyed) == [4]


def test_a_key_does_not_go_on_after_a_failure_that_will_be_retried(keyed: Holdfast) -> None:
    keyed.enqueue_many("q", [0, 1], key="k")
    claim_one(keyed).nack("no", delay=60)
    assert keyed.claim("q") == []


def test_priority_does_not_overtake_inside_a_key(keyed: Holdfast) -> None:
    keyed.enqueue("q", "head", key="k", priority="low")
    keyed.enqueue("q", "next", key="k", priority="urgent")
    assert drain(keyed) == ["head", "next"]


def test_a_shorter_delay_does_not_overtake_inside_a_key(keyed: Holdfast, clock: FakeClock) -> None:
    keyed.enqueue("q", "head", key="k", delay=60)
    keyed.enqueue("q", "next", key="k", delay=1)
    clock.advance(30)
    assert keyed.claim("q") == []
    clock.advance(30)
    assert drain(keyed) == ["head", "next"]


def test_priority_decides_between_the_heads_of_keys(keyed: Holdfast) -> None:
    keyed.enqueue("q", "low", key="a", priority="low")
    keyed.enqueue("q", "urgent", key="b", priority="urgent")
    assert bodies(keyed.claim("q", n=10)) == ["urgent", "low"]


def test_many_heads_settled_at_once_free_their_keys_at_once(keyed: Holdfast) -> None:
    keys = [str(number) for number in range(20)]
    for turn in range(2):
        for key in keys:
            keyed.enqueue("q", f"{key}/{turn}", key=key)
    keyed.ack(keyed.claim("q", n=100))
    assert sorted(bodies(keyed.claim("q", n=100))) == sorted(f"{key}/1" for key in keys)


def test_peek_shows_only_what_may_be_claimed(keyed: Holdfast) -> None:
    keyed.enqueue_many("q", ["a0", "a1"], key="a")
    keyed.enqueue("q", "b0", key="b")
    assert sorted(message.body for message in keyed.queues.peek("q")) == ["a0", "b0"]
    assert keyed.stats("q").pending == 3


# --- a death in the line ----------------------------------------------------------------------------------------------


@pytest.fixture
def strict_order(hf: Holdfast) -> Holdfast:
    """Two keys; the first message of one of them is dead, and the others of that key have to wait."""
    hf.queue("q", ordering="per_key", on_dead="block", max_attempts=2, backoff=None)
    hf.enqueue_many("q", ["a1", "a2", "b1", "a3"], key=lambda body: body[0])
    [claim] = hf.claim("q")
    claim.dead_letter("boom")
    return hf


def test_a_death_blocks_its_key_and_no_other(strict_order: Holdfast, clock: FakeClock) -> None:
    hf = strict_order
    assert drain(hf) == ["b1"]
    hf.enqueue("q", "a4", key="a")
    assert drain(hf) == []
    [letter] = hf.dead_letters.list("q")
    assert hf.queues.blocked("q") == [BlockedKey("a", letter.id, clock(), 3)]


def test_unblocking_goes_on_without_the_dead_one(strict_order: Holdfast) -> None:
    hf = strict_order
    assert hf.queues.unblock("q", "a")
    assert not hf.queues.unblock("q", "a")
    assert drain(hf) == ["a2", "b1", "a3"]
    assert hf.queues.blocked("q") == []


def test_a_replay_goes_first_and_the_others_follow(strict_order: Holdfast) -> None:
    hf = strict_order
    hf.dead_letters.replay(hf.dead_letters.list("q")[0].id)
    hf.enqueue("q", "a4", key="a")
    assert hf.queues.blocked("q") == []
    first = hf.claim("q", n=10)
    assert sorted(bodies(first)) == ["a1", "b1"]
    hf.ack(first)
    assert drain(hf) == ["a2", "a3", "a4"]


def test_a_replay_that_dies_blocks_again(strict_order: Holdfast) -> None:
    hf = strict_order
    drain(hf)
    hf.dead_letters.replay(hf.dead_letters.list("q")[0].id)
    [claim] = hf.claim("q")
    claim.dead_letter("again")
    assert drain(hf) == []
    assert hf.queues.blocked("q")[0].dead_id == hf.dead_letters.list("q")[1].id


def test_a_silent_death_blocks_too(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", ordering="fifo", on_dead="block", max_attempts=1, lease=1)
    hf.enqueue_many("q", ["first", "second"])
    hf.claim("q")
    clock.advance(1)
    assert drain(hf) == []
    assert [blocked.key for blocked in hf.queues.blocked("q")] == [None]
    assert hf.queues.unblock("q")
    assert drain(hf) == ["second"]


def test_a_key_without_followers_is_blocked_for_those_to_come(hf: Holdfast) -> None:
    hf.queue("q", ordering="per_key", on_dead="block")
    hf.enqueue("q", 1, key="a")
    hf.claim("q")[0].dead_letter("boom")
    hf.enqueue("q", 2, key="a")
    assert drain(hf) == []
    hf.queues.unblock("q", "a")
    assert drain(hf) == [2]


def test_without_block_the_next_one_goes_on(hf: Holdfast) -> None:
    hf.queue("q", ordering="per_key")
    hf.enqueue_many("q", [1, 2], key="a")
    hf.claim("q")[0].dead_letter("boom")
    assert drain(hf) == [2]
    assert (hf.queues.blocked("q"), hf.queues.unblock("q", "a")) == ([], False)


def test_another_policy_is_refused(hf: Holdfast) -> None:
    with pytest.raises(InvalidInput, match="on_dead must be one of continue, block"):
        hf.queue("q", on_dead="panic")


def test_a_key_that_was_blocked_before_the_ordering_changed_can_be_unblocked(strict_order: Holdfast) -> None:
    hf = strict_order
    hf.queue("q")
    assert drain(hf) == ["b1"]
    assert hf.queues.unblock("q", "a")
    assert drain(hf) == ["a2", "a3"]
