"""PostgreSQL: answers and requests that are lost on the way; what was done counts, and counts once."""

import threading
from collections.abc import Callable, Iterator
from copy import copy

import psycopg
import pytest

from holdfast import Claim, Holdfast, LeaseLost, State
from holdfast.client.client import internals
from tests.acceptance.proxy import LossyProxy
from tests.servers import HOST, PostgresAddress
from tests.waiting import eventually

Connect = Callable[..., Holdfast]


@pytest.fixture
def lossy(postgres_server: PostgresAddress) -> Iterator[LossyProxy]:
    with LossyProxy(HOST, postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
def far(lossy: LossyProxy, postgres_server: PostgresAddress, postgres_url: str, connect: Connect) -> Holdfast:
    """A client behind the proxy, with a queue and no connection yet: each statement's text is sent on first use."""
    plain = postgres_url.replace(f":{postgres_server.port}/", f":{lossy.port}/")
    hf = connect(f"{plain}?sslmode=disable&gssencmode=disable")
    hf.queue("q", backoff=None)
    hf.close()
    return hf


@pytest.fixture
def near(postgres_url: str, connect: Connect) -> Holdfast:
    return connect(postgres_url)


COMMIT = b"COMMIT\0"
"""The statement itself: a new session says READ COMMITTED first."""


@pytest.mark.parametrize("reaches", [True, False], ids=["answer lost", "request lost"])
@pytest.mark.parametrize(
    ("delay", "statement"), [(0, b"INSERT INTO holdfast_message"), (0.001, COMMIT)], ids=["lane", "row"]
)
def test_an_enqueue_whose_answer_is_lost_is_stored_once(
    far: Holdfast, near: Holdfast, lossy: LossyProxy, delay: float, statement: bytes, reaches: bool
) -> None:
    """P13: the outcome is unknown, so it is tried again under the same id."""
    lossy.lose(statement, reaches=reaches)

    receipts = far.enqueue_many("q", ["a", "b", "c"], delay=delay)

    assert lossy.losses == 1
    found = [claim.message.id for claim in near.claim("q", n=10, wait=10)]
    assert found == [receipt.id for receipt in receipts]
    assert near.claim("q", n=10) == []


@pytest.mark.parametrize("reaches", [True, False], ids=["answer lost", "request lost"])
def test_an_enqueue_to_a_limited_queue_whose_answer_is_lost_is_stored_once(
    far: Holdfast, near: Holdfast, lossy: LossyProxy, reaches: bool
) -> None:
    """P13: and it needs no second place."""
    near.queue("q", max_depth=3)
    with psycopg.connect(near.settings.url, autocommit=True) as connection:
        connection.execute("UPDATE holdfast_depth SET settled_at = 0, bound = 0")
    internals(far).catalog._known.clear()
    lossy.lose(b"INSERT INTO holdfast_message", reaches=reaches)

    receipts = far.enqueue_many("q", ["a", "b", "c"])

    assert lossy.losses == 1
    found = [claim.message.id for claim in near.claim("q", n=10, wait=10)]
    assert found == [receipt.id for receipt in receipts]
    assert near.claim("q", n=10) == []


def test_an_enqueue_that_was_stored_and_claimed_meanwhile_is_not_stored_again(
    far: Holdfast, near: Holdfast, lossy: LossyProxy
) -> None:
    """P13: by the time of the second try somebody may have finished the message."""
    done: list[Claim] = []

    def work() -> None:
        done.extend(near.claim("q", wait=30))
        near.ack(done)

    working = threading.Thread(target=work)
    working.start()
    lossy.lose(b"INSERT INTO holdfast_message")

    receipt = far.enqueue("q", "once")

    working.join()
    assert lossy.losses == 1
    assert [claim.message.id for claim in done] == [receipt.id]
    assert near.claim("q", wait=0.2) == []


def statement_of(case: str, op: str) -> bytes:
    """What makes it happen: one function call where that is enough, otherwise the commit."""
    if case == "rows" or op == "dead_letter":
        return COMMIT
    return b"holdfast_close" if case == "whole run" and op == "ack" else b"holdfast_split"


@pytest.mark.parametrize("reaches", [True, False], ids=["answer lost", "request lost"])
@pytest.mark.parametrize("op", ["ack", "nack", "release", "dead_letter"])
@pytest.mark.parametrize("case", ["whole run", "part of a run", "rows"])
def test_a_settlement_whose_answer_is_lost_counts_and_is_not_called_lost(
    far: Holdfast, near: Holdfast, lossy: LossyProxy, case: str, op: str, reaches: bool
) -> None:
    """P13: no LeaseLost for a lease that was ended by the first try."""
    ids = [receipt.id for receipt in near.enqueue_many("q", ["a", "b", "c"], delay=0.001 if case == "rows" else 0)]
    eventually(lambda: near.stats("q").waiting == 0, "all is due")
    claims = far.claim("q", n=3)
    chosen = claims[:2] if case == "part of a run" else claims
    far.close()
    lossy.lose(statement_of(case, op), reaches=reaches)

    getattr(far, op)(chosen, *(["because"] if op in ("nack", "dead_letter") else []))

    assert lossy.losses == 1
    states = [status.state for id in ids if (status := near.status(id))]
    ended = {"ack": State.SUCCEEDED, "dead_letter": State.DEAD}.get(op, State.PENDING)
    rest = [State.PROCESSING] if case == "part of a run" else []
    assert states == [ended] * len(chosen) + rest
    assert near.stats("q").dead == (len(chosen) if op == "dead_letter" else 0)


@pytest.mark.parametrize("op", ["ack", "nack", "release", "dead_letter"])
@pytest.mark.parametrize("case", ["whole run", "rows"])
def test_a_settlement_of_a_canceled_message_is_refused_also_if_an_answer_is_lost(
    far: Holdfast, near: Holdfast, lossy: LossyProxy, case: str, op: str
) -> None:
    """P13: a lease that is gone early need not have been ended by the first try."""
    id = near.enqueue("q", "a", delay=0.001 if case == "rows" else 0).id
    [claim] = far.claim("q", wait=10)
    assert near.cancel(id)
    far.close()
    lossy.lose(statement_of(case, op))

    with pytest.raises(LeaseLost):
        getattr(far, op)(claim, *(["because"] if op in ("nack", "dead_letter") else []))

    assert lossy.losses == 1
    status = near.status(id)
    assert status is not None
    assert status.state is State.CANCELED


@pytest.mark.parametrize(("first", "second"), [("ack", "dead_letter"), ("dead_letter", "ack"), ("release", "ack")])
def test_a_second_ending_of_a_claim_is_refused_also_if_an_answer_is_lost(
    far: Holdfast, near: Holdfast, lossy: LossyProxy, first: str, second: str
) -> None:
    """P13: nor is it the second of two that has ended it."""
    near.enqueue("q", "a", delay=0.001)
    [claim] = far.claim("q", wait=10)
    again = copy(claim)  # As if nobody knew how the first one went.
    getattr(far, first)(claim, *(["because"] if first == "dead_letter" else []))
    far.close()
    lossy.lose(COMMIT)

    with pytest.raises(LeaseLost):
        getattr(far, second)(again, *(["because"] if second == "dead_letter" else []))

    assert lossy.losses == 1


def test_a_settlement_that_may_have_counted_says_so(far: Holdfast, near: Holdfast, lossy: LossyProxy) -> None:
    """P13: after the lease's end nobody can tell whose work it was that the message is done."""
    receipt = near.enqueue("q", "a")
    [claim] = far.claim("q", lease=0.1)
    eventually(
        lambda: internals(near).store.database.read(lambda tx: tx.clock()) > claim.lease.until_us, "the lease is over"
    )
    far.close()
    lossy.lose(b"holdfast_close")

    with pytest.raises(LeaseLost, match=r"perhaps by a first try of this call .* hf\.status tells"):
        far.ack(claim)

    assert lossy.losses == 1
    status = near.status(receipt.id)
    assert status is not None
    assert status.state is State.SUCCEEDED


def test_an_ack_with_a_claim_whose_answer_is_lost_counts_too(far: Holdfast, near: Holdfast, lossy: LossyProxy) -> None:
    """P13: what the lost claim took comes back when its lease ends, like that of a killed worker."""
    near.enqueue_many("q", ["a", "b", "c", "d"])
    claims = far.claim("q", n=2, lease=60)
    far.close()
    lossy.lose(b"holdfast_claim")

    after = far.claim("q", n=1, lease=2, ack=claims)
    far.extend(after, 300)  # Only the lease of the lost claim is to end.

    assert lossy.losses == 1
    assert [claim.message.body for claim in after] == ["d"]
    assert [claim.message.body for claim in near.claim("q", wait=60)] == ["c"]
    for claim in claims:
        status = near.status(claim.message.id)
        assert status is not None
        assert status.state is State.SUCCEEDED


def test_an_operators_act_whose_answer_is_lost_is_reported_as_done(
    far: Holdfast, near: Holdfast, lossy: LossyProxy
) -> None:
    """P13: it happened once, and whoever asked for it is told so."""
    ids = [receipt.id for receipt in near.enqueue_many("q", ["dies", "claimed", "pending"])]
    near.dead_letter(near.claim("q"), "on purpose")
    near.claim("q")
    (letter,) = near.dead_letters.list("q")

    for id in ids[1:]:
        far.close()
        lossy.lose(COMMIT)
        assert far.cancel(id), "it was cancelled, by the first try"
    far.close()
    lossy.lose(COMMIT)
    replayed = far.dead_letters.replay(letter.id)

    assert lossy.losses == 3
    assert [claim.message.id for claim in near.claim("q", n=10)] == [replayed.id]


def test_a_seat_whose_answer_is_lost_is_taken_and_left_once(far: Holdfast, near: Holdfast, lossy: LossyProxy) -> None:
    """P13: the second try finds the seat of the first, instead of sitting beside itself until that lapses."""
    far.close()
    lossy.lose(COMMIT)
    seat = internals(far).store.seats.take("default", "pool", "anna", 3, 60_000_000)

    assert internals(near).store.seats.taken("default", "pool") == [seat]
    far.close()
    lossy.lose(COMMIT)
    assert seat is not None
    assert internals(far).store.seats.leave("default", "pool", seat), "it was left, by the first try"
    assert lossy.losses == 2
    assert internals(near).store.seats.taken("default", "pool") == []


def test_a_leader_whose_answer_is_lost_leads(far: Holdfast, near: Holdfast, lossy: LossyProxy) -> None:
    """P13: the lease is its own by now."""
    lossy.lose(COMMIT)

    assert internals(far).store.leaders.lead("default", "maintain", "anna", 60_000_000)
    assert lossy.losses == 1
    assert not internals(near).store.leaders.lead("default", "maintain", "ben", 60_000_000)


def test_a_report_whose_answer_is_lost_is_one_notice(far: Holdfast, near: Holdfast, lossy: LossyProxy) -> None:
    """P13: the second try meets the notice of the first. It may count one repeat too many, and tells nobody twice."""
    near.owner("mia")
    lossy.lose(COMMIT)
    notice_id = far.notices.report("crash_loop", "mailers", "boom", owner="mia")

    assert lossy.losses == 1
    assert [notice.id for notice in near.notices.list()] == [notice_id]
    assert len(near.queues.peek("mia.inbox")) == 1
