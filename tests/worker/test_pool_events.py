"""What a pool in this process tells of: that it grew or shrank, that a consumer crashed, that it was given up."""

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holdfast import Holdfast
from holdfast.client.client import internals
from holdfast.events import MemberCrashed, PoolGaveUp, PoolScaled, RuntimeEvent
from holdfast.worker.worker import Worker
from tests.waiting import eventually
from tests.worker.steps import PATIENCE, ended

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]


class Broken(BaseException):
    """Nothing that a consumer goes on after."""


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.worker.pools.supervisor.LOOK_EVERY", 0.02)


@pytest.fixture
def told(hf: Holdfast) -> list[RuntimeEvent]:
    found: list[RuntimeEvent] = []
    for kind in (PoolScaled, MemberCrashed, PoolGaveUp):
        hf.on(kind, found.append)
    return found


@pytest.fixture
def breaks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """So many consumers crash as soon as they begin."""

    def arrange(count: int) -> None:
        left, turn = iter(range(count)), Worker._turn

        def broken(self: Worker, bell: Any) -> bool:
            if next(left, None) is not None:
                raise Broken
            return turn(self, bell)

        monkeypatch.setattr(Worker, "_turn", broken)

    return arrange


def job(message: Any) -> None:
    pass


def crew(hf: Holdfast, handler: Any = job, **options: Any) -> None:
    pool = hf.pool(hf.consumer("q", name="sell")(handler), name="crew", members="thread", **options)
    pool.restarts = msgspec.structs.replace(pool.restarts, first=0.01)


def of(kind: type[RuntimeEvent], told: list[RuntimeEvent]) -> list[Any]:
    return [one for one in told if isinstance(one, kind)]


def test_a_thread_that_crashed_is_told_of_and_started_again(
    hf: Holdfast, told: list[RuntimeEvent], breaks: Callable[[int], None]
) -> None:
    breaks(1)
    crew(hf, min=1, max=1)
    with hf.running():
        assert ended(hf, hf.enqueue("q", 1).id) == "succeeded"
    [crashed] = of(MemberCrashed, told)
    assert (crashed.pool, crashed.consumer, crashed.worker) == ("crew", "sell", hf.worker)
    assert crashed.words == "ended with exit code 1"
    assert [(one.before, one.wanted) for one in of(PoolScaled, told)] == [(0, 1), (0, 1)]
    assert (of(PoolGaveUp, told), hf.notices.list()) == ([], [])
    assert internals(hf).store.seats.taken("default", "crew") == []


def test_a_pool_that_only_crashes_tells_that_it_was_given_up(
    hf: Holdfast, told: list[RuntimeEvent], breaks: Callable[[int], None]
) -> None:
    breaks(1_000)
    crew(hf, min=1, max=1, max_crashes=2)
    with hf.running():
        [given_up] = eventually(lambda: of(PoolGaveUp, told), "it is given up")
    assert (given_up.pool, given_up.consumer, given_up.worker) == ("crew", "sell", hf.worker)
    assert "the pool 'crew' was given up" in given_up.error
    assert [one.pool for one in of(MemberCrashed, told)] == ["crew", "crew"]


def test_it_tells_what_it_did_and_not_what_it_wanted(
    hf: Holdfast, told: list[RuntimeEvent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another supervisor may be quicker: of three seats two are taken after this one has counted."""
    begun, tries = threading.Event(), threading.Semaphore(0)
    hf.queue("q")
    seats = type(internals(hf).store.seats)
    for _ in range(2):
        internals(hf).store.seats.take("default", "crew", "other", 3, 3_600_000_000)
    take = seats.take

    def noted(*args: Any) -> Any:
        tries.release()
        return take(*args)

    monkeypatch.setattr(seats, "taken", lambda *_: [])
    monkeypatch.setattr(seats, "take", noted)
    crew(hf, lambda message: begun.set(), min=3, max=3)
    hf.enqueue("q", 1)
    with hf.running():
        assert begun.wait(PATIENCE)
        for _ in range(5):  # The one that it gets, and then none, look after look.
            assert tries.acquire(timeout=PATIENCE)
    assert [(one.pool, one.before, one.wanted) for one in of(PoolScaled, told)] == [("crew", 0, 1)]


def test_a_shrinking_pool_tells_so_once(hf: Holdfast, told: list[RuntimeEvent]) -> None:
    crew(hf, min=0, max=1, cooldown=0)
    with hf.running():
        assert ended(hf, hf.enqueue("q", 1).id) == "succeeded"
        eventually(lambda: of(PoolScaled, told)[1:], "it is drained")
        eventually(lambda: internals(hf).store.seats.taken("default", "crew") == [], "it has ended")
    assert [(one.pool, one.before, one.wanted) for one in of(PoolScaled, told)] == [("crew", 0, 1), ("crew", 1, 0)]
