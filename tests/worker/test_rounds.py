"""Who renews leases and who stops handlers: asleep while nothing is held, and never late for what is."""

import threading
from typing import Any

import pytest

from holdfast import Holdfast, Message, State
from holdfast.worker import lease_renewal
from holdfast.worker.held_leases import HeldLease
from holdfast.worker.lease_renewal import RENEW_AFTER, TICK, HandlerWatch, Renewal, Rounds
from tests.waiting import eventually
from tests.worker.steps import PATIENCE, Calls, ended

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]


class Lease(HeldLease):
    """One that is held since a moment."""

    def __init__(self, term: float, since: float) -> None:
        super().__init__(None, term, since)  # type: ignore[arg-type]


class Holder:
    """A worker, as far as rounds look at it."""

    def __init__(self) -> None:
        self.ended, self.leases = threading.Event(), list[Lease]()
        self.hf = self.ledger = self

    def held(self) -> list[Lease]:
        return list(self.leases)


class Counted(Rounds):
    """Counts its rounds; `meanwhile` happens in the next one, after it has looked."""

    def __init__(self, holder: Holder) -> None:
        super().__init__(lambda: [], "counted", 1 / 12)
        self.rounds = Calls()
        self.holder, self.meanwhile = holder, list[Any]()

    def round(self, now: float) -> float | None:
        terms = [lease.term for lease in self.holder.held()]
        if self.meanwhile:
            self.meanwhile.pop()()
        self.rounds.note(terms)
        return min(terms, default=None)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(lease_renewal, "LINGER", 0.0)
    rounds = Counted(Holder())
    rounds.start()
    rounds.rounds.wait(1)
    yield rounds
    rounds.stop()
    assert not rounds._thread.is_alive()


def take(rounds: Counted, term: float) -> None:
    rounds.holder.leases.append(Lease(term, 0.0))
    rounds.expect(term)


def test_it_sleeps_until_something_is_held(counted: Counted) -> None:
    """Nothing but a lease wakes it; while that is held it goes on, and then it sleeps again."""
    eventually(lambda: not counted._rung.is_set())
    assert counted._next == float("inf")
    assert len(counted.rounds.seen) == 1
    take(counted, 30.0)
    assert counted.rounds.wait(3)[1:3] == [[30.0], [30.0]]
    counted.holder.leases.clear()
    eventually(lambda: counted.rounds.seen[-1] == [] and counted._next == float("inf"), "it sleeps")


def test_a_lease_that_is_taken_during_a_round_is_not_overlooked(counted: Counted) -> None:
    """The round has looked before, found nothing, and would sleep for ever."""
    looked = threading.Event()

    def late() -> None:
        take(counted, 30.0)
        looked.set()

    counted.meanwhile.append(late)
    counted._rung.set()
    assert looked.wait(30)
    assert [30.0] in counted.rounds.wait(4)


def test_a_stop_wakes_it(counted: Counted) -> None:
    eventually(lambda: counted._next == float("inf"))
    counted.stop()
    assert not counted._thread.is_alive()


def test_a_shorter_lease_wakes_it_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    rounds = Counted(Holder())
    rounds._next = 100.0 + TICK
    rounds.expect(30.0)
    assert not rounds._rung.is_set(), "the next round comes in time"
    rounds.expect(0.2)
    assert rounds._rung.is_set()


@pytest.mark.parametrize("term", [0.1, 0.3, 1.0, 2.0, 30.0, 3600.0])
@pytest.mark.parametrize("other", [None, 0.1, 3600.0])
@pytest.mark.parametrize("phase", [0.0, 0.3, 0.99])
def test_a_lease_is_renewed_before_a_third_of_it_is_over(term: float, other: float | None, phase: float) -> None:
    """Wherever between two rounds it was taken, and whatever else is held; and not much too early."""
    holder = Holder()
    rounds = Renewal(lambda: [holder])  # type: ignore[list-item, return-value]
    renewed: list[Lease] = []
    rounds._renew = lambda hf, leases, length: renewed.extend(leases)  # type: ignore[assignment, method-assign, misc]
    pause = rounds._pause(min(term, other or term))
    lease = Lease(term, 1_000.0 - phase * pause)
    holder.leases = [lease] if other is None else [lease, Lease(other, float("inf"))]
    now = 1_000.0 + max(0.0, term * RENEW_AFTER - 20 * pause)
    while lease not in renewed:
        now += pause
        rounds.round(now)
    assert now - lease.renewed <= term * RENEW_AFTER
    assert now - lease.renewed >= term * RENEW_AFTER - 4 * pause


def test_both_sleep_while_a_consumer_waits_and_wake_for_its_next_message(
    one: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler takes longer than its lease, after a rest in which nobody made a round."""
    monkeypatch.setattr(lease_renewal, "LINGER", 0.0)
    calls = Calls()

    finish = threading.Event()

    @one.consumer("q", lease=60)
    def slow(message: Message) -> None:
        calls.note(message.body)
        if message.body == "long":
            assert finish.wait(PATIENCE)

    with one.running() as runner:
        one.enqueue("q", "short")
        calls.wait(1)
        asleep: list[Rounds] = [runner._renewal, runner._watch]
        eventually(lambda: all(rounds._next == float("inf") for rounds in asleep), "they sleep")
        sent = one.enqueue("q", "long")
        calls.wait(2)
        [held] = runner.workers[0].ledger.held()
        for _ in range(2):
            held.renewed = earlier = held.renewed - 50  # Nearly all of the lease has passed.
            eventually(lambda earlier=earlier: held.renewed > earlier, "it is renewed")
        finish.set()
        assert ended(one, sent.id) is State.SUCCEEDED
    assert calls.seen == ["short", "long"], "once each"
    assert isinstance(runner._watch, HandlerWatch)
