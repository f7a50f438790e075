"""Declaring schedules, again and otherwise; pausing, resuming, running and removing them."""

import asyncio
import threading
from typing import Any

import pytest

from holdfast import AsyncHoldfast, Holdfast, InvalidInput, NotFound, Schedule, TooLarge, UnknownQueue
from tests.clock import FakeClock
from tests.steps import OpenClient, the_schedule

pytestmark = pytest.mark.of_queues

HOUR = 3_600_000_000
DAY = 24 * HOUR


# --- declaring --------------------------------------------------------------------------------------------------------


def test_declared_again_as_it_was_it_goes_on_as_if_nothing_had_happened(
    hf: Holdfast, rival: Holdfast, clock: FakeClock
) -> None:
    def declare(hf: Holdfast) -> None:
        hf.schedule("s", queue="q", body={"a": 1}, every="10m", headers={"b": 2}, key="k")

    declare(hf)
    before = the_schedule(hf)
    clock.advance("9m")
    declare(rival)
    assert the_schedule(hf) == before
    clock.advance("2m")
    declare(rival)
    assert rival.schedules.fire() == 1, "a slot that is due is not passed over"
    declare(hf)
    assert hf.schedules.fire() == 0, "and not sent again"
    hf.schedules.pause("s")
    declare(rival)
    assert the_schedule(hf).paused


def test_another_body_leaves_the_slot_as_it_is(hf: Holdfast, clock: FakeClock) -> None:
    hf.schedule("s", queue="q", body="old", cron="*/10 * * * *")
    clock.advance("11m")
    hf.schedule("s", queue="p", body="new", cron="*/10 * * * *", priority="low")
    assert hf.schedules.fire() == 1
    assert [(message.body, message.priority) for message in hf.queues.peek("p")] == [("new", 3)]
    assert [message.headers["holdfast-slot"] for message in hf.queues.peek("p")] == ["2026-01-01T00:10:00+00:00"]


def test_another_timing_counts_from_now(hf: Holdfast, clock: FakeClock) -> None:
    hf.schedule("s", queue="q", cron="@yearly")
    clock.advance("30m")
    hf.schedule("s", queue="q", cron="@hourly")
    assert (the_schedule(hf).cron, the_schedule(hf).next_at_us) == ("@hourly", clock() + HOUR // 2)
    hf.schedules.pause("s")
    hf.schedule("s", queue="q", every="1d", tz="Asia/Tokyo")
    assert (the_schedule(hf).paused, the_schedule(hf).cron, the_schedule(hf).every, the_schedule(hf).tz) == (
        True,
        None,
        86400.0,
        "Asia/Tokyo",
    )
    clock.advance("2d")
    assert hf.schedules.fire() == 0
    hf.schedules.resume("s")
    assert the_schedule(hf).next_at_us == the_schedule(hf).created_at_us + 3 * DAY


def test_clients_that_declare_at_once_make_one_schedule(client: OpenClient, hf: Holdfast) -> None:
    hf.queue("q")
    rivals = [client() for _ in range(4)]
    start = threading.Barrier(len(rivals))
    problems: list[BaseException] = []

    def declare(rival: Holdfast) -> None:
        start.wait(20)
        try:
            for number in range(10):
                rival.schedule("s", queue="q", body=number, every=60)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=declare, args=[rival]) for rival in rivals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert the_schedule(hf).body == 9


def test_what_was_declared_can_be_seen(hf: Holdfast, clock: FakeClock) -> None:
    hf.schedule(
        "s",
        queue="q",
        body=[1],
        cron=" 0  9 * * * ",
        tz="Asia/Tokyo",
        missed="all",
        priority=0,
        key="k",
        headers={"a": 1},
    )
    assert the_schedule(hf) == Schedule(
        name="s",
        queue="q",
        body=[1],
        cron="0 9 * * *",
        every=None,
        tz="Asia/Tokyo",
        missed="all",
        priority=0,
        key="k",
        headers={"a": 1},
        paused=False,
        next_at_us=clock() + DAY,
        last_slot_us=None,
        last_at_us=None,
        created_at_us=clock(),
    )


def test_a_strict_client_schedules_for_declared_queues_only(client: OpenClient) -> None:
    strict = client(strict=True)
    with pytest.raises(UnknownQueue):
        strict.schedule("s", queue="q", every=60)
    strict.queue("q")
    strict.schedule("s", queue="q", every=60)
    assert len(strict.schedules.list()) == 1


def test_what_the_queue_would_refuse_is_refused_when_it_is_declared(hf: Holdfast) -> None:
    hf.queue("numbers", message_type=int)
    hf.queue("small", max_size=20)
    with pytest.raises(InvalidInput, match="Expected `int`"):
        hf.schedule("s", queue="numbers", body="one", every=60)
    with pytest.raises(TooLarge):
        hf.schedule("s", queue="small", body="x" * 30, every=60)
    assert hf.schedules.list() == []


# --- stopping, running ------------------------------------------------------------------------------------------------


def test_a_paused_schedule_fires_nothing_and_misses_nothing(hf: Holdfast, clock: FakeClock) -> None:
    hf.schedule("s", queue="q", cron="@hourly", missed="all")
    hf.schedules.pause("s")
    hf.schedules.pause("s")
    assert (the_schedule(hf).paused, the_schedule(hf).next_at_us) == (True, None)
    clock.advance("5h30m")
    assert hf.schedules.fire() == 0
    hf.schedules.resume("s")
    assert (hf.schedules.fire(), the_schedule(hf).paused, the_schedule(hf).next_at_us) == (
        0,
        False,
        clock() + HOUR // 2,
    )
    clock.advance("30m")
    hf.schedules.resume("s")
    assert hf.schedules.fire() == 1, "resuming what is not paused passes over nothing"


def test_run_now_is_beside_the_plan(hf: Holdfast, clock: FakeClock) -> None:
    hf.schedule("s", queue="q", body="hi", every=60, tz="Asia/Tokyo")
    hf.schedules.pause("s")
    clock.advance(30)
    receipt = hf.schedules.run("s")
    [message] = hf.queues.peek("q")
    assert (message.id, message.body) == (receipt.id, "hi")
    assert message.headers == {"holdfast-schedule": "s", "holdfast-slot": "2026-01-01T09:00:30+09:00"}
    hf.schedules.resume("s")
    clock.advance(30)
    assert hf.schedules.fire() == 1
    assert the_schedule(hf).last_slot_us == clock()


def test_a_schedule_that_is_removed_is_gone(hf: Holdfast, clock: FakeClock) -> None:
    hf.schedule("s", queue="q", every=60)
    clock.advance(60)
    assert [hf.schedules.remove("s"), hf.schedules.remove("s")] == [True, False]
    assert (hf.schedules.list(), hf.schedules.fire()) == ([], 0)
    for act in (hf.schedules.pause, hf.schedules.resume, hf.schedules.run):
        with pytest.raises(NotFound, match="no schedule 's'"):
            act("s")


def test_it_works_from_asyncio(url: str, clock: FakeClock) -> None:
    async def main() -> list[Any]:
        async with AsyncHoldfast(url, clock=clock) as hf:
            await hf.schedule("s", queue="q", body="hi", every=60, missed="all")
            clock.advance(120)
            fired = await hf.schedules.fire()
            await hf.schedules.pause("s")
            await hf.schedules.resume("s")
            receipt = await hf.schedules.run("s")
            [found] = await hf.schedules.list()
            return [fired, len(receipt.id), found.name, await hf.schedules.remove("s"), (await hf.stats("q")).pending]

    assert asyncio.run(main()) == [2, 36, "s", True, 3]
