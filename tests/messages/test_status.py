"""Where a message is: through its whole life, and until its history is over."""

from datetime import datetime, timedelta

import pytest

from holdfast import Claim, Holdfast, InvalidInput
from holdfast.budgets import spend_reports
from holdfast.client import settlements
from holdfast.client.client import internals
from tests.clock import FakeClock
from tests.steps import OpenClient, claim_one

pytestmark = pytest.mark.of_queues

UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"


def where(hf: Holdfast, message_id: str) -> tuple[str, int]:
    status = hf.status(message_id)
    assert status is not None
    return status.state.value, status.attempts


def test_a_life_in_the_lane(hf: Holdfast) -> None:
    message_id = hf.enqueue("q", 1).id
    assert where(hf, message_id) == ("pending", 0)
    claim = claim_one(hf)
    assert where(hf, message_id) == ("processing", 1)
    claim.ack()
    assert where(hf, message_id) == ("succeeded", 1)


def test_a_life_as_a_row(hf: Holdfast, clock: FakeClock) -> None:
    message_id = hf.enqueue("q", 1, delay=5).id
    assert where(hf, message_id) == ("pending", 0)
    clock.advance(5)
    claim = claim_one(hf)
    assert where(hf, message_id) == ("processing", 1)
    claim.ack()
    assert where(hf, message_id) == ("succeeded", 1)


def test_a_life_with_trouble(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_attempts=3)
    message_id = hf.enqueue("q", 1).id
    claim_one(hf).nack("no", delay=0)
    assert where(hf, message_id) == ("pending", 1)
    claim = claim_one(hf)
    assert where(hf, message_id) == ("processing", 2)
    claim.release()
    assert where(hf, message_id) == ("pending", 1)
    claim_one(hf).snooze(0)
    assert where(hf, message_id) == ("pending", 1)
    claim_one(hf)
    clock.advance(30)
    hf.queues.sweep("q")
    assert where(hf, message_id) == ("pending", 2)
    claim_one(hf).nack("no")
    assert where(hf, message_id) == ("dead", 3)


@pytest.mark.parametrize("delay", [0, 5])
def test_a_life_that_is_canceled(hf: Holdfast, delay: int) -> None:
    message_id = hf.enqueue("q", 1, delay=delay).id
    hf.cancel(message_id)
    assert where(hf, message_id) == ("canceled", 0)


def test_a_life_that_is_canceled_at_work(hf: Holdfast) -> None:
    message_id = hf.enqueue("q", 1).id
    claim_one(hf)
    hf.cancel(message_id)
    assert where(hf, message_id) == ("canceled", 1)


def test_members_of_a_run_are_told_apart(hf: Holdfast) -> None:
    ids = [receipt.id for receipt in hf.enqueue_many("q", range(12))]
    claims = hf.claim("q", n=10)
    hf.ack([claims[0], claims[9]])
    states = [where(hf, message_id)[0] for message_id in ids]
    assert states == ["succeeded"] + ["processing"] * 8 + ["succeeded"] + ["pending"] * 2


def test_a_status_names_queue_and_times(hf: Holdfast, clock: FakeClock) -> None:
    now = clock()
    lane, row = hf.enqueue("q", 1).id, hf.enqueue("q", 2, delay=5).id
    clock.advance(1)
    for message_id, due_at in ((lane, now), (row, now + 5_000_000)):
        found = hf.status(message_id)
        assert (found.queue, found.state, found.attempts, found.enqueued_at_us) == ("q", "pending", 0, now)
        assert (found.due_at_us, found.finished_at_us, found.history) == (due_at, None, [])


@pytest.mark.parametrize("delay", [0, 5])
def test_only_a_pending_message_is_due(hf: Holdfast, clock: FakeClock, delay: int) -> None:
    message_id = hf.enqueue("q", 1, delay=delay).id
    clock.advance(delay)
    claim = claim_one(hf)
    assert hf.status(message_id).due_at_us is None
    claim.ack()
    assert hf.status(message_id).due_at_us is None


def test_an_unknown_message_has_no_status(hf: Holdfast) -> None:
    assert hf.status(UNKNOWN) is None


def test_what_is_no_id_is_refused(hf: Holdfast) -> None:
    with pytest.raises(InvalidInput):
        hf.status("not an id")


@pytest.mark.parametrize("delay", [0, 1])
def test_without_a_history_a_success_is_forgotten_at_once(hf: Holdfast, clock: FakeClock, delay: int) -> None:
    hf.queue("q", history=0)
    ids = [receipt.id for receipt in hf.enqueue_many("q", range(3), delay=delay)]
    clock.advance(delay)
    hf.ack(hf.claim("q", n=3))
    assert [hf.status(message_id) for message_id in ids] == [None] * 3


def test_without_a_history_a_split_run_is_forgotten_with_its_last_member(hf: Holdfast) -> None:
    hf.queue("q", history=0)
    hf.enqueue_many("q", range(3))
    claims = hf.claim("q", n=3)
    for claim in claims:
        claim.ack()
    assert [hf.status(claim.message.id) for claim in claims] == [None] * 3


def test_without_a_history_a_death_is_still_known(hf: Holdfast) -> None:
    hf.queue("q", history=0)
    message_id = hf.enqueue("q", 1).id
    claim_one(hf).dead_letter("boom")
    assert where(hf, message_id) == ("dead", 1)


def test_the_history_of_a_run_is_pruned_when_it_is_over(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", history="10m")
    ids = [receipt.id for receipt in hf.enqueue_many("q", range(3))]
    hf.ack(hf.claim("q", n=3))
    clock.advance(599)
    assert hf.queues.sweep("q") == 0
    assert where(hf, ids[0]) == ("succeeded", 1)
    clock.advance(1)
    assert hf.queues.sweep("q") == 3
    assert [hf.status(message_id) for message_id in ids] == [None] * 3


def test_the_history_of_rows_is_pruned_when_it_is_over(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", history="10m")
    acked, canceled = (receipt.id for receipt in hf.enqueue_many("q", range(2), delay=1))
    hf.cancel(canceled)
    clock.advance(1)
    claim_one(hf).ack()
    clock.advance(598)
    assert hf.queues.sweep("q") == 0
    clock.advance(1)
    hf.queues.sweep("q")
    assert hf.status(canceled) is None
    assert where(hf, acked) == ("succeeded", 1)
    clock.advance(1)
    hf.queues.sweep("q")
    assert hf.status(acked) is None


def test_a_claim_prunes_what_is_over_without_being_asked(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", history=10)
    message_id = hf.enqueue("q", 1).id
    claim_one(hf).ack()
    clock.advance(10)
    hf.claim("q")
    assert hf.status(message_id) is None


def test_pruning_takes_only_what_is_finished(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", history=10, lease=3600)
    pending, held, delayed = hf.enqueue("q", 1), hf.enqueue("q", 2, priority="urgent"), hf.enqueue("q", 3, delay=9999)
    claim = hf.claim("q")[0]
    clock.advance(1000)
    assert hf.queues.sweep("q") == 0
    assert [where(hf, receipt.id)[0] for receipt in (pending, held, delayed)] == ["pending", "processing", "pending"]
    claim.ack()


def test_more_history_than_one_sweep_takes_is_pruned_by_the_next(client: OpenClient, clock: FakeClock) -> None:
    hf = client(sweep_every=10_000)
    hf.queue("q", history=10)
    ids = [receipt.id for receipt in hf.enqueue_many("q", range(110))]
    while claims := hf.claim("q"):
        hf.ack(claims)
    clock.advance(10)
    while hf.queues.sweep("q"):
        pass
    assert [message_id for message_id in ids if hf.status(message_id)] == []


def test_a_purged_message_is_never_called_a_success(hf: Holdfast) -> None:
    message_id = hf.enqueue("q", 1).id
    claim_one(hf).nack("no", delay=60)
    assert hf.queues.purge("q") == 1
    status = hf.status(message_id)
    assert status is None or status.state == "canceled"


def test_a_canceled_member_is_never_called_a_success_while_its_run_is_open(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", history=10, lease=3600)
    hf.enqueue_many("q", range(2))
    canceled, held = hf.claim("q", n=2)
    hf.cancel(canceled.message.id)
    clock.advance(11)
    hf.queues.sweep("q")
    status = hf.status(canceled.message.id)
    assert status is None or status.state == "canceled"
    held.ack()


def claimed_at(hf: Holdfast, message_id: str) -> datetime | None:
    found = hf.status(message_id)
    assert found is not None
    return found.claimed_at


def end_as_canceled(hf: Holdfast, claim: Claim) -> None:
    """As a handler does that returns Cancel."""
    assert internals(hf).store.messages.settle(settlements.canceled([claim], "nobody wants it")) == [True]


@pytest.mark.parametrize("delay", [0, 5])
def test_a_status_tells_since_when_a_message_is_worked_on(hf: Holdfast, clock: FakeClock, delay: int) -> None:
    message_id = hf.enqueue("q", 1, delay=delay).id
    assert claimed_at(hf, message_id) is None
    clock.advance(7)
    claim, begun = claim_one(hf), clock.utc
    assert claimed_at(hf, message_id) == claim.lease.since == begun
    clock.advance(10)
    claim.extend(60)
    assert claimed_at(hf, message_id) == begun
    assert hf.status(message_id).until == clock.utc + timedelta(seconds=60)


@pytest.mark.parametrize("delay", [0, 5])
def test_another_attempt_is_another_claim(hf: Holdfast, clock: FakeClock, delay: int) -> None:
    hf.queue("q", max_attempts=3)
    message_id, begun = hf.enqueue("q", 1, delay=delay).id, []
    for end in ("nack", "silence", "snooze"):
        clock.advance(5)
        claim = claim_one(hf)
        begun.append(clock.utc)
        assert claimed_at(hf, message_id) == begun[-1]
        clock.advance(1)
        if end == "nack":
            claim.nack("no", delay=0)
        elif end == "snooze":
            claim.snooze(1)
        else:
            clock.advance(30)
            hf.queues.sweep("q")
        assert claimed_at(hf, message_id) is None
    assert [failure.claimed_at for failure in hf.status(message_id).history] == begun[:2]
    clock.advance(1)
    last = claim_one(hf)
    begun[-1] = clock.utc
    clock.advance(1)
    last.nack("no")
    assert claimed_at(hf, message_id) == begun[-1]
    [letter] = hf.dead_letters.list("q")
    assert [failure.claimed_at for failure in letter.history] == begun


def test_a_row_tells_of_the_claim_that_ended_it(hf: Holdfast, clock: FakeClock) -> None:
    acked, canceled, expired, waiting = (hf.enqueue("q", n, delay=1, ttl=60).id for n in range(4))
    clock.advance(1)
    begun = clock.utc
    first, second, _, last = hf.claim("q", n=4)
    last.nack("no", delay=50)
    clock.advance(1)
    first.ack()
    end_as_canceled(hf, second)
    hf.cancel(waiting)
    assert (claimed_at(hf, acked), claimed_at(hf, canceled), claimed_at(hf, waiting)) == (begun, begun, None)
    clock.advance(60)
    hf.queues.sweep("q")
    assert (where(hf, expired)[0], claimed_at(hf, expired)) == ("expired", None)


def test_a_run_tells_of_its_claim_as_long_as_it_is_open(hf: Holdfast, clock: FakeClock) -> None:
    ids = [receipt.id for receipt in hf.enqueue_many("q", range(4))]
    begun = clock.utc
    claims = hf.claim("q", n=4)
    clock.advance(1)
    claims[0].ack()
    end_as_canceled(hf, claims[1])
    hf.cancel(ids[2])
    assert [claimed_at(hf, message_id) for message_id in ids] == [begun] * 4
    assert [where(hf, message_id)[0] for message_id in ids] == ["succeeded", "canceled", "canceled", "processing"]


@pytest.mark.parametrize("delay", [0, 5])
def test_a_status_tells_what_its_handlers_keep_with_it(hf: Holdfast, clock: FakeClock, delay: int) -> None:
    hf.queue("q", max_attempts=2)
    ids = [receipt.id for receipt in hf.enqueue_many("q", range(2), delay=delay)]
    clock.advance(delay)
    kept, other = hf.claim("q", n=2)
    spend_reports.remember(internals(hf), kept, "thread-7")
    assert [hf.status(message_id).session for message_id in ids] == ["thread-7", None]
    kept.nack("no", delay=0)
    assert hf.status(kept.message.id).session == "thread-7"
    again = claim_one(hf)
    assert hf.status(kept.message.id).session == "thread-7"
    again.nack("no")
    assert (where(hf, kept.message.id)[0], hf.status(kept.message.id).session) == ("dead", "thread-7")
    spend_reports.remember(internals(hf), other, "thread-8")
    other.ack()
    assert (where(hf, other.message.id)[0], hf.status(other.message.id).session) == ("succeeded", "thread-8")


def test_a_claim_within_the_limit_of_a_key_is_told_too(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", key_concurrency=1)
    first, second = (hf.enqueue("q", n, key="k").id for n in range(2))
    clock.advance(3)
    claim_one(hf)
    assert (claimed_at(hf, first), claimed_at(hf, second)) == (clock.utc, None)
