"""Pools inside of one process: where their consumers are found, and what happens while they start."""

import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import AsyncHoldfast, Holdfast, InvalidInput, exec_handler
from holdfast.client.client import internals
from holdfast.events import PoolScaled
from holdfast.worker.consumer import Consumer
from holdfast.worker.find_consumer import ConsumerAddress, address_of, located
from holdfast.worker.pools.members import SeatKeeper
from holdfast.worker.pools.pool import Pool
from holdfast.worker.pools.scaling import Load, Scaler
from tests.waiting import eventually
from tests.worker.steps import PATIENCE, Calls, ended

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    made = types.ModuleType("shop")
    monkeypatch.setitem(sys.modules, "shop", made)
    return made


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Holdfast]:
    with Holdfast(f"sqlite:///{tmp_path}/work.db") as client:
        yield client


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What supervisors decide, look by look; they look often."""
    decided: list[int] = []
    wanted = Scaler.wanted

    def noted(self: Scaler, load: Load, running: int, now: float) -> int:
        decided.append(wanted(self, load, running, now))
        return decided[-1]

    monkeypatch.setattr(Scaler, "wanted", noted)
    monkeypatch.setattr("holdfast.worker.pools.supervisor.LOOK_EVERY", 0.02)
    return decided


def job(message: Any) -> None:
    pass


def test_a_consumer_is_found_by_its_name(mine: Holdfast, module: types.ModuleType) -> None:
    module.work = mine.consumer("q", name="sell")(job)
    assert address_of(module.work) == ConsumerAddress("shop", "work", "sell")
    assert located(ConsumerAddress("shop", "work", "sell")) is module.work


@pytest.mark.parametrize("handler", [exec_handler("true"), lambda message: None], ids=["program", "lambda"])
def test_or_by_its_client(mine: Holdfast, module: types.ModuleType, handler: Any) -> None:
    module.hf = mine
    consumer = mine.consumer("q", name="sell")(handler)
    assert address_of(consumer) == ConsumerAddress("shop", "hf", "sell")
    assert located(ConsumerAddress("shop", "hf", "sell")) is consumer


def test_or_by_its_asyncio_client(tmp_path: Path, module: types.ModuleType) -> None:
    module.app = AsyncHoldfast(f"sqlite:///{tmp_path}/work.db")
    consumer = module.app.consumer("q", name="sell")(job)
    assert address_of(consumer) == ConsumerAddress("shop", "app", "sell")
    assert located(ConsumerAddress("shop", "app", "sell")) is consumer


def test_two_consumers_of_one_name_are_not_mixed_up(tmp_path: Path, module: types.ModuleType) -> None:
    with Holdfast(f"sqlite:///{tmp_path}/a.db") as module.a, Holdfast(f"sqlite:///{tmp_path}/b.db") as module.b:
        first = module.a.consumer("q", name="sell")(job)
        module.second = module.b.consumer("q", name="sell")(job)
        assert located(address_of(first)) is first
        assert located(address_of(module.second)) is module.second


def test_what_no_process_could_find_is_refused_at_once(mine: Holdfast) -> None:
    mine.pool(mine.consumer("q", name="sell")(job))
    with pytest.raises(InvalidInput, match="cannot be found by the processes of a pool"):
        mine.running().start()
    assert internals(mine).store.seats.taken("default", "sell") == []


@pytest.mark.parametrize("place", ["hf", "nothing", "sys"])
def test_what_is_gone_is_said(mine: Holdfast, module: types.ModuleType, place: str) -> None:
    module.hf, module.sys = mine, sys
    with pytest.raises(InvalidInput, match="has no consumer 'sell' here"):
        located(ConsumerAddress("shop", place, "sell"))


def test_asked_to_stop_while_it_starts(hf: Holdfast) -> None:
    """A preflight check may take its time; who asks meanwhile is heard."""
    checking, go_on, calls = threading.Event(), threading.Event(), Calls()

    def slow() -> None:
        checking.set()
        go_on.wait(30)

    hf.consumer("q", name="sell", preflight=slow)(lambda message: calls.note(message.body))
    hf.enqueue("q", 1)
    thread = threading.Thread(target=hf.run)
    thread.start()
    assert checking.wait(30)
    hf.stop()
    go_on.set()
    thread.join(30)
    assert not thread.is_alive()
    assert hf.stats("q").processing == 0


def test_a_pool_without_a_queue_waits_for_one(hf: Holdfast) -> None:
    scaled: list[PoolScaled] = []
    hf.on(PoolScaled, scaled.append)
    hf.pool(hf.consumer(name="sell")(job), members="thread", min=1)
    with hf.running():
        eventually(lambda: scaled, "a consumer")
        hf.queue("q")
        hf.consumers.attach("sell", "q")
        assert ended(hf, hf.enqueue("q", 1).id) == "succeeded"
    assert (scaled[0].pool, scaled[0].before, scaled[0].wanted) == ("sell", 0, 1)
    assert internals(hf).store.seats.taken("default", "sell") == []


def test_the_last_consumer_is_there_for_others_while_it_works(hf: Holdfast, looks: list[int]) -> None:
    """A pool that may be empty is not, as long as anything is in its hands."""
    begun, go_on, calls = threading.Event(), threading.Event(), Calls()

    def work(message: Any) -> None:
        if message.body == "long":
            begun.set()
            go_on.wait(PATIENCE)
        calls.note(message.body)

    hf.pool(hf.consumer("q", name="sell", concurrency=4)(work), members="thread", min=0, max=1, cooldown=0)
    long = hf.enqueue("q", "long")
    with hf.running():
        assert begun.wait(PATIENCE)
        seen = len(looks)
        eventually(lambda: len(looks) > seen + 5, "some looks, each of which could drain it")
        assert ended(hf, hf.enqueue("q", "quick").id) == "succeeded"
        assert calls.seen == ["quick"]
        go_on.set()
        assert ended(hf, long.id) == "succeeded"
        eventually(lambda: internals(hf).store.seats.taken("default", "sell") == [], "now it is empty")


def test_tiers_of_one_name_do_not_take_each_others_seats(connect: Callable[..., Holdfast]) -> None:
    """A pool is named after its function, and programs for two tiers may well call it the same."""
    haiku, opus = (connect(worker=tier) for tier in ("haiku", "opus"))
    for tier, client in (("haiku", haiku), ("opus", opus)):
        client.queue(tier, requires={"tier": tier})
        client.pool(client.consumer(tier, name="work", labels={"tier": tier})(job), members="thread", max=1)
    with haiku.running():
        assert ended(haiku, haiku.enqueue("haiku", 1).id) == "succeeded"
        with opus.running():
            assert ended(opus, opus.enqueue("opus", 1).id) == "succeeded"
            eventually(lambda: [one.pool for one in opus.consumers.list()] == ["work", "work"], "both say so")


def test_seats_are_counted_by_name_and_labels(mine: Holdfast) -> None:
    def key(name: str, **labels: str) -> str:
        return Pool(Consumer(mine, job, ["q"], name=name, labels=labels), {}).key

    assert key("work") == "work"
    assert key("work", tier="haiku", at="eu") == key("work", at="eu", tier="haiku") == 'work/{"at":"eu","tier":"haiku"}'
    assert key("work", a='b","c":"d') != key("work", a="b", c="d")
    long = [key("work", **{"a" * 200: "b" * 200, "c": text}) for text in "de"]
    assert long[0] != long[1]
    assert all(len(one) < 100 for one in long), "what PostgreSQL has in an index is short"


def test_a_seat_that_cannot_be_kept_is_lost_whatever_the_reason(
    hf: Holdfast, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> bool:
        raise RuntimeError("broken on purpose")

    consumer, lost = hf.consumer("q", name="sell")(job), threading.Event()
    hf.queue("q")
    seat = internals(hf).store.seats.take("default", "sell", "anna", 1, 60_000_000)
    assert seat is not None
    monkeypatch.setattr("holdfast.worker.pools.members.SEAT_TERM", 0.1)
    monkeypatch.setattr(type(internals(hf).store.seats), "keep", broken)
    keeper = SeatKeeper("sell", consumer, seat, lost.set)
    assert lost.wait(PATIENCE)
    assert "a seat of the pool sell could not be kept: broken on purpose" in caplog.text
    keeper.stop()
    assert internals(hf).store.seats.taken("default", "sell") == []
