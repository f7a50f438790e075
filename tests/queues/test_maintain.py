"""What time does to a queue, done by anyone who asks, in bounded turns, and for nothing when there is nothing to do."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from holdfast import Claim, Holdfast, InvalidInput, State
from holdfast.client import settlements
from holdfast.client.client import internals
from holdfast.core.settlement import Settlement
from holdfast.store.api import ClaimRequest
from holdfast.worker.maintenance.duties import DUTIES, Duty
from tests.clock import FakeClock
from tests.steps import OpenClient, counts, kill, state
from tests.stores import LANES

pytestmark = pytest.mark.of_queues


def test_one_call_does_every_duty_of_every_queue(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("leases", lease=5)
    hf.queue("ages", max_age=5)
    hf.queue("done", history=5)
    hf.queue("graves", dead_retention=5, owner="mia")
    hf.queue("keys", idempotency_window=5, history=5)
    hf.owner("mia", escalate_after=5, owner="boss")
    hf.enqueue_many("leases", range(3))
    hf.claim("leases", n=3)
    old = hf.enqueue("ages", 1).id
    short = hf.enqueue("leases", 1, ttl=3).id
    done = hf.enqueue("done", 1).id
    hf.claim("done")[0].ack({"result": 1})
    kill(hf, queue="graves")
    first = hf.enqueue("keys", 1, idempotency_key="k")
    hf.cancel(first.id)
    clock.advance(5)
    assert hf.maintain() > 0
    assert counts(hf, "leases").pending == 3
    assert (state(hf, old), state(hf, short), state(hf, done)) == (State.EXPIRED, State.EXPIRED, None)
    assert hf.dead_letters.list("graves") == []
    assert hf.enqueue("keys", 1, idempotency_key="k").id != first.id
    assert hf.maintain() == 0


@pytest.fixture
def many(hf: Holdfast) -> Holdfast:
    """A topic with thirty groups, of which the last may die."""
    hf.topic("t")
    subscribe(hf, range(30))
    return hf


def subscribe(hf: Holdfast, numbers: range) -> None:
    """Groups of all kinds: that want a part, in order, slowly, or may die."""
    kinds: list[dict[str, Any]] = [{}, {"patterns": ["t.*"]}, {"ordering": "per_key"}, {"rate": "9/s"}]
    for number in numbers:
        more = {"timeout": 60} if number % 30 == 29 else kinds[number % 4]
        hf.subscribe("t", f"g{number:02}", lease=5, **more)


def test_idle_groups_cost_no_statements(many: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their settings, and although they have worked before. (Now and then a client looks up a topic again.)"""
    many.publish_many("t.a", range(3))
    for number in range(30):
        many.ack(many.claim("t", group=f"g{number:02}", n=3))
    many.maintain()
    clock.advance(300)
    many.maintain()
    seen: list[str] = []
    note_statements(internals(many).store.database, seen, monkeypatch)  # type: ignore[attr-defined]
    for duty in (*DUTIES, None):
        few = len(statements(many, duty, seen))
        subscribe(many, range(30, 60))
        more = statements(many, duty, seen)
        assert len(more) < few + 30, f"{duty}: not one for each of 30 more groups, but {more}"
        for number in range(30, 60):
            many.groups.remove("t", f"g{number:02}")


def statements(hf: Holdfast, duty: Duty | None, seen: list[str]) -> list[str]:
    """What is asked of the database in one turn that finds nothing to do."""
    seen.clear()
    assert (hf.maintain() if duty is None else duty.turn(hf)) == 0
    return list(seen)


def note_statements(database: Any, seen: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds the name of every query."""
    for name in ("read", "glance", "write"):
        monkeypatch.setattr(database, name, noting(getattr(database, name), seen))


def noting(inner: Callable[[Any], Any], seen: list[str]) -> Callable[[Any], Any]:
    return lambda work: inner(lambda tx: work(tx if isinstance(tx, Noted) else Noted(tx, seen)))


class Noted:
    """A transaction that writes down what it is asked. (A glance may be a read.)"""

    def __init__(self, tx: Any, seen: list[str]) -> None:
        self.__dict__.update(tx=tx, seen=seen)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.tx, name)
        return partial(self._ask, found) if name in ("all", "one", "run", "each") else found

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.tx, name, value)

    def _ask(self, verb: Callable[..., Any], query: str, *more: Any, **parameters: Any) -> Any:
        self.seen.append(query)
        return verb(query, *more, **parameters)


def test_every_duty_is_done_for_the_last_of_many_groups(many: Holdfast, clock: FakeClock) -> None:
    many.publish_many("t", range(3))
    many.claim("t", group="g29", n=2)
    clock.advance(5)
    for duty in DUTIES:
        duty.turn(many)
    assert counts(many, "t/g29").processing == 0, "its leases were taken back"
    for wait in (61, 12, 12):
        clock.advance(wait)
        for duty in DUTIES:
            duty.turn(many)
    assert [one.group for one in many.groups.list("t") if one.state == "dead"] == ["g29"]


def test_nobody_has_to_claim(client: OpenClient, hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_age=5)
    lost = hf.enqueue("q", 1).id
    clock.advance(5)
    assert client(worker="cron").maintain() == 1
    assert state(hf, lost) is State.EXPIRED


def test_a_turn_is_bounded(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", history=1)
    for _ in range(150):
        hf.enqueue("q", 1)
        hf.ack(hf.claim("q"))
    clock.advance(1)
    turns = []
    while done := hf.queues.sweep("q"):
        turns.append(done)
    assert turns == [100, 50]


def test_a_busy_consumer_keeps_pace(hf: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends more messages between two sweeps than one turn removes."""
    monkeypatch.setattr("holdfast.client.claim_loop.LONGEST_SWEEP", 60)
    hf.queue("q", history=1)
    for _ in range(3):
        for number in range(130):
            hf.enqueue("q", number)
        for _ in range(130):
            internals(hf).store.messages.settle(acks(hf))
        clock.advance(2)
    hf.claim("q")
    assert hf.queues.sweep("q") == 0


def acks(hf: Holdfast) -> list[Settlement]:
    """Claims one without the sweep that a client does first."""
    channel = internals(hf).catalog.channel("q")
    grants = internals(hf).store.messages.claim(ClaimRequest([channel], 1, "anna"), partial(Claim, hf)).grants
    return settlements.acked(grants)


@pytest.mark.parametrize("delay", [0, 1], ids=["in a lane", "as rows"])
def test_history_is_capped_by_count(hf: Holdfast, clock: FakeClock, delay: int) -> None:
    hf.queue("q", history_limit=10)
    ids = [receipt.id for receipt in hf.enqueue_many("q", range(30), delay=delay)]
    clock.advance(delay)
    while claims := hf.claim("q", n=5):
        clock.advance(1)
        hf.ack(claims)
    hf.queues.sweep("q")
    known = [one for one in ids if hf.status(one)]
    assert known == ids[-10:]
    assert hf.queues.sweep("q") == 0


@pytest.mark.not_through_sqs(LANES)
@pytest.mark.parametrize("keep", [{"history": 60}, {"history_limit": 2}], ids=["by age", "by count"])
def test_a_long_run_of_history_goes_in_turns(
    hf: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, keep: dict[str, Any]
) -> None:
    monkeypatch.setattr("holdfast.store.engine.history.MOST_MESSAGES", 3)
    hf.queue("q", **keep)
    ids = [receipt.id for receipt in hf.enqueue_many("q", range(8))]
    hf.ack(hf.claim("q", n=8))
    clock.advance(60)
    for left in (5, 2):
        assert hf.queues.sweep("q") == 3
        assert [one for one in ids if hf.status(one)] == ids[-left:]
    rest = 2 if "history" in keep else 0
    assert [hf.queues.sweep("q") for _ in range(2)] == [rest, 0]
    assert [one for one in ids if hf.status(one)] == ids[6 + rest :]


def test_what_ended_otherwise_counts_too(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", history_limit=2, max_age=50)
    ids = [hf.enqueue("q", n).id for n in range(4)]
    hf.cancel(ids[0])
    clock.advance(1)
    hf.cancel(ids[1])
    clock.advance(1)
    hf.ack(hf.claim("q"))
    clock.advance(48)
    hf.queues.sweep("q")
    hf.queues.sweep("q")
    assert [state(hf, one) for one in ids] == [None, None, State.SUCCEEDED, State.EXPIRED]


def test_without_history_nothing_is_kept(hf: Holdfast) -> None:
    hf.queue("q", history_limit=0)
    done = hf.enqueue("q", 1).id
    hf.ack(hf.claim("q"))
    hf.queues.sweep("q")
    assert hf.status(done) is None


@pytest.mark.parametrize("limit", [-1, 1.5, "3", True, None])
def test_a_limit_that_makes_no_sense_is_refused(hf: Holdfast, limit: object) -> None:
    with pytest.raises(InvalidInput, match="history_limit"):
        hf.queue("q", history_limit=limit)  # type: ignore[arg-type]
