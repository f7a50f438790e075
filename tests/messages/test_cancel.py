"""Cancelling: whatever is pending or being worked on, wherever it is."""

import pytest

from holdfast import Claim, Holdfast, InvalidInput, LeaseLost
from tests.clock import FakeClock
from tests.steps import bodies, claim_one, drain, kill

pytestmark = pytest.mark.of_queues

UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"


def assert_refused(claim: Claim) -> None:
    for act in (claim.ack, claim.extend, claim.release, lambda: claim.nack("no"), lambda: claim.dead_letter("no")):
        with pytest.raises(LeaseLost):
            act()


def test_a_pending_message_of_a_lane_is_never_claimed(hf: Holdfast) -> None:
    receipts = hf.enqueue_many("q", range(3))
    assert hf.cancel(receipts[1].id) is True
    assert bodies(hf.claim("q", n=10)) == [0, 2]
    assert hf.status(receipts[1].id).state == "canceled"


def test_a_pending_row_is_never_claimed(hf: Holdfast) -> None:
    receipt = hf.enqueue("q", 1)
    claim_one(hf).release()
    assert hf.cancel(receipt.id) is True
    assert hf.claim("q") == []
    assert hf.status(receipt.id).state == "canceled"


def test_a_delayed_message_is_never_claimed(hf: Holdfast, clock: FakeClock) -> None:
    receipt = hf.enqueue("q", 1, delay=60)
    assert hf.cancel(receipt.id) is True
    clock.advance(60)
    assert hf.claim("q") == []
    assert hf.status(receipt.id).state == "canceled"


def test_a_message_that_waits_for_its_backoff_is_never_claimed_again(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue("q", 1)
    claim = claim_one(hf)
    claim.nack("no", delay=60)
    assert hf.cancel(claim.message.id) is True
    clock.advance(60)
    assert hf.claim("q") == []


def test_the_holder_of_a_canceled_member_of_a_run_has_lost_it(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("q", range(3))
    claims = hf.claim("q", n=3)
    assert hf.cancel(claims[1].message.id) is True
    assert_refused(claims[1])
    clock.advance(60)
    hf.queues.sweep("q")
    assert hf.status(claims[1].message.id).state == "canceled"


def test_the_neighbours_of_a_canceled_member_of_a_run_are_fine(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("q", range(3))
    first, canceled, last = hf.claim("q", n=3)
    hf.cancel(canceled.message.id)
    last.extend(60)
    first.ack()
    last.nack("no", delay=0)
    assert [(claim.message.body, claim.attempt) for claim in hf.claim("q", n=10)] == [(2, 2)]


def test_cancelling_all_of_a_run_ends_it(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("q", range(3))
    claims = hf.claim("q", n=3)
    assert [hf.cancel(claim.message.id) for claim in claims] == [True] * 3
    clock.advance(60)
    assert hf.queues.sweep("q") == 0
    assert hf.stats("q").processing == 0
    assert hf.claim("q") == []


def test_cancelling_the_last_open_member_ends_the_run(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("q", range(2))
    first, second = hf.claim("q", n=2)
    first.ack()
    assert hf.cancel(second.message.id) is True
    clock.advance(60)
    assert hf.queues.sweep("q") == 0
    assert hf.status(first.message.id).state == "succeeded"


def test_the_holder_of_a_canceled_row_has_lost_it(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue("q", 1, delay=1)
    clock.advance(1)
    claim = claim_one(hf)
    assert hf.cancel(claim.message.id) is True
    assert_refused(claim)
    clock.advance(60)
    assert hf.claim("q") == []
    assert hf.status(claim.message.id).state == "canceled"


def test_a_message_whose_lease_ended_unnoticed_can_be_canceled(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue("q", 1)
    claim = claim_one(hf)
    clock.advance(60)
    assert hf.cancel(claim.message.id) is True
    assert hf.claim("q") == []


@pytest.mark.parametrize("delay", [0, 1])
def test_a_finished_message_cannot_be_canceled(hf: Holdfast, clock: FakeClock, delay: int) -> None:
    receipt = hf.enqueue("q", 1, delay=delay)
    clock.advance(delay)
    claim_one(hf).ack()
    assert hf.cancel(receipt.id) is False
    assert hf.status(receipt.id).state == "succeeded"


def test_an_acked_member_of_a_run_cannot_be_canceled(hf: Holdfast) -> None:
    hf.enqueue_many("q", range(2))
    first, second = hf.claim("q", n=2)
    first.ack()
    assert hf.cancel(first.message.id) is False
    assert hf.status(first.message.id).state == "succeeded"
    second.ack()


@pytest.mark.parametrize("delay", [0, 60])
def test_a_canceled_message_cannot_be_canceled_again(hf: Holdfast, delay: int) -> None:
    receipt = hf.enqueue("q", 1, delay=delay)
    assert [hf.cancel(receipt.id) for _ in range(3)] == [True, False, False]


def test_a_dead_message_cannot_be_canceled(hf: Holdfast) -> None:
    kill(hf)
    [dead] = hf.dead_letters.list("q")
    assert hf.cancel(dead.message.id) is False
    assert hf.status(dead.message.id).state == "dead"


def test_a_dead_member_of_an_open_run_cannot_be_canceled(hf: Holdfast) -> None:
    hf.enqueue_many("q", range(2))
    first, second = hf.claim("q", n=2)
    first.dead_letter("boom")
    assert hf.cancel(first.message.id) is False
    assert hf.status(first.message.id).state == "dead"
    second.ack()


def test_an_unknown_message_cannot_be_canceled(hf: Holdfast) -> None:
    assert hf.cancel(UNKNOWN) is False


def test_what_is_no_id_is_refused(hf: Holdfast) -> None:
    with pytest.raises(InvalidInput):
        hf.cancel("not an id")


def test_a_purged_message_cannot_be_canceled(hf: Holdfast) -> None:
    receipt = hf.enqueue("q", 1)
    hf.queues.purge("q")
    assert hf.cancel(receipt.id) is False


@pytest.mark.parametrize("ordering", ["fifo", "per_key"])
@pytest.mark.parametrize("claimed", [False, True])
def test_the_key_goes_on_when_its_head_is_canceled(hf: Holdfast, ordering: str, claimed: bool) -> None:
    hf.queue("q", ordering=ordering)
    head, *_ = hf.enqueue_many("q", ["head", "next", "last"], key="k")
    if claimed:
        claim_one(hf)
    assert hf.cancel(head.id) is True
    assert drain(hf) == ["next", "last"]


def test_the_key_goes_on_when_one_in_its_middle_is_canceled(hf: Holdfast) -> None:
    hf.queue("q", ordering="fifo")
    _, middle, _ = hf.enqueue_many("q", ["head", "middle", "last"])
    head = claim_one(hf)
    assert hf.cancel(middle.id) is True
    assert hf.claim("q") == []
    head.ack()
    assert drain(hf) == ["last"]


def test_canceled_messages_are_not_counted(hf: Holdfast) -> None:
    receipts = [hf.enqueue("q", 1), hf.enqueue("q", 2, delay=60)]
    for receipt in receipts:
        hf.cancel(receipt.id)
    stats = hf.stats("q")
    assert (stats.pending, stats.waiting, stats.processing, stats.dead) == (0, 0, 0, 0)
    assert hf.queues.peek("q") == []
