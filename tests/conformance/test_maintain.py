"""What time does to a queue, done by anyone who asks, in bounded turns, and for nothing when there is nothing to do."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from holdfast import Claim, Holdfast, InvalidInput, State, endings
from holdfast.core.settlement import Settlement
from holdfast.runtime.maintenance import ageing, history, reaper, wakeups
from holdfast.runtime.maintenance.keeper import DUTIES
from holdfast.store.api import ClaimRequest
from tests.clock import FakeClock
from tests.conformance.steps import OpenClient, counts, kill, state


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
    clock.advance(5)
    assert hf.maintain() > 0
    assert counts(hf, "leases").pending == 3
    assert (state(hf, old), state(hf, short), state(hf, done)) == (State.EXPIRED, State.EXPIRED, None)
    assert hf.dead_letters("graves") == []
    assert hf.enqueue("keys", 1, idempotency_key="k").id != first.id
    assert hf.maintain() == 0


@pytest.fixture
def many(hf: Holdfast) -> Holdfast:
    """A topic with thirty groups, of which the last may die."""
    hf.topic("t")
    for number in range(30):
        hf.subscribe("t", f"g{number:02}", lease=5, timeout=60 if number == 29 else None)
    return hf


@pytest.mark.parametrize("duty", [reaper, ageing, history, wakeups])
def test_a_turn_over_many_groups_takes_one_look_at_each(
    many: Holdfast, monkeypatch: pytest.MonkeyPatch, duty: ModuleType
) -> None:
    seen: list[Callable[[Any], Any]] = []
    for name in ("read", "glance", "write"):
        note_work(many.store.database, name, seen, monkeypatch)  # type: ignore[attr-defined]
    assert [one.name for one in many._book.readers()] == [f"t/g{number:02}" for number in range(30)]
    assert len(seen) == 1
    assert duty.turn(many) == 0
    assert len(seen) == 1 + 1 + 30, "who there is, and whether each has something to do"


def note_work(database: Any, name: str, seen: list[Callable[[Any], Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds the work of every transaction of this kind; a glance may be a read, with the same work."""
    inner = getattr(database, name)

    def noted(work: Callable[[Any], Any]) -> Any:
        if work not in seen:
            seen.append(work)
        return inner(work)

    monkeypatch.setattr(database, name, noted)


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
    assert [one.group for one in many.groups("t") if one.state == "dead"] == ["g29"]


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
    while done := hf.sweep("q"):
        turns.append(done)
    assert turns == [100, 50]


def test_a_busy_consumer_keeps_pace(hf: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends more messages between two sweeps than one turn removes."""
    monkeypatch.setattr("holdfast.claiming.LONGEST_SWEEP", 60)
    hf.queue("q", history=1)
    for _ in range(3):
        for number in range(130):
            hf.enqueue("q", number)
        for _ in range(130):
            hf.store.messages.settle(acks(hf))
        clock.advance(2)
    hf.claim("q")
    assert hf.sweep("q") == 0


def acks(hf: Holdfast) -> list[Settlement]:
    """Claims one without the sweep that a client does first."""
    channel = hf._book.channel("q")
    grants = hf.store.messages.claim(ClaimRequest([channel], 1, "anna", kind=Claim)).grants
    return endings.acked([one for one in grants if isinstance(one, Claim)])


@pytest.mark.parametrize("delay", [0, 1], ids=["in a lane", "as rows"])
def test_history_is_capped_by_count(hf: Holdfast, clock: FakeClock, delay: int) -> None:
    hf.queue("q", history_limit=10)
    ids = [receipt.id for receipt in hf.enqueue_many("q", range(30), delay=delay)]
    clock.advance(delay)
    while claims := hf.claim("q", n=5):
        clock.advance(1)
        hf.ack(claims)
    hf.sweep("q")
    known = [one for one in ids if hf.status(one)]
    assert known == ids[-10:]
    assert hf.sweep("q") == 0


def test_what_ended_otherwise_counts_too(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", history_limit=2, max_age=50)
    ids = [hf.enqueue("q", n).id for n in range(4)]
    hf.cancel(ids[0])
    clock.advance(1)
    hf.cancel(ids[1])
    clock.advance(1)
    hf.ack(hf.claim("q"))
    clock.advance(48)
    hf.sweep("q")
    hf.sweep("q")
    assert [state(hf, one) for one in ids] == [None, None, State.SUCCEEDED, State.EXPIRED]


def test_without_history_nothing_is_kept(hf: Holdfast) -> None:
    hf.queue("q", history_limit=0)
    done = hf.enqueue("q", 1).id
    hf.ack(hf.claim("q"))
    hf.sweep("q")
    assert hf.status(done) is None


@pytest.mark.parametrize("limit", [-1, 1.5, "3", True, None])
def test_a_limit_that_makes_no_sense_is_refused(hf: Holdfast, limit: object) -> None:
    with pytest.raises(InvalidInput, match="history_limit"):
        hf.queue("q", history_limit=limit)  # type: ignore[arg-type]
