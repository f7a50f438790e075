"""Messages by the clock: one per slot, whoever fires, whatever was missed, whatever is in the way."""

import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import Holdfast, QueueFull
from holdfast.client.client import internals
from holdfast.schedules import steps as schedules
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, claim_one, drain, sleepers, the_schedule

pytestmark = pytest.mark.of_queues

HOUR = 3_600_000_000
DAY = 24 * HOUR


def sent(hf: Holdfast, queue: str = "q") -> list[str]:
    """The slots of the messages in a queue."""
    return [message.headers["holdfast-slot"] for message in hf.queues.peek(queue, 1000)]


def missed(hf: Holdfast, queue: str = "q") -> list[int]:
    return [message.headers.get("holdfast-missed", 0) for message in hf.queues.peek(queue, 1000)]


def text(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1_000_000, UTC).isoformat()


# --- firing -----------------------------------------------------------------------------------------------------------


def test_a_slot_is_sent_once_when_it_is_due(hf: Holdfast, clock: FakeClock) -> None:
    hf.schedule("report", queue="q", body={"kind": "daily"}, cron="0 9 * * *", tz="Europe/Berlin")
    assert hf.schedules.fire() == 0
    clock.advance("7h59m59s")
    assert hf.schedules.fire() == 0
    clock.advance(1)
    assert [hf.schedules.fire() for _ in range(3)] == [1, 0, 0]
    [message] = hf.queues.peek("q")
    assert message.body == {"kind": "daily"}
    assert message.headers == {"holdfast-schedule": "report", "holdfast-slot": "2026-01-01T09:00:00+01:00"}
    assert (the_schedule(hf).last_slot_us, the_schedule(hf).last_at_us, the_schedule(hf).next_at_us) == (
        clock(),
        clock(),
        clock() + DAY,
    )
    assert (the_schedule(hf).next_at_us, the_schedule(hf).error) == (clock() + DAY, None)
    clock.advance("1d")
    assert hf.schedules.fire() == 1
    assert sent(hf) == ["2026-01-01T09:00:00+01:00", "2026-01-02T09:00:00+01:00"]


def test_a_message_has_what_the_schedule_says(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", ordering="per_key")
    hf.schedule("s", queue="q", every=60, priority="high", key="k", headers={"a": 1, "holdfast-slot": "mine"})
    clock.advance(60)
    hf.schedules.fire()
    [claim] = hf.claim("q")
    message = claim.message
    assert (message.body, message.priority, message.key, message.headers["a"]) == (None, 1, "k", 1)
    assert message.headers["holdfast-slot"] == text(clock())
    assert (hf.stats("q").processing, hf.stats("q").pending) == (1, 0)


def test_messages_of_an_ordered_queue_keep_their_order(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", ordering="fifo")
    hf.schedule("s", queue="q", every=60, missed="all")
    start = clock()
    clock.advance(180)
    assert hf.schedules.fire() == 3
    for seconds in (60, 120, 180):
        claim = claim_one(hf)
        assert claim.message.headers["holdfast-slot"] == text(start + seconds * 1_000_000)
        claim.ack()


def test_a_period_is_counted_from_the_declaration(hf: Holdfast, clock: FakeClock) -> None:
    start = clock()
    hf.schedule("s", queue="q", every="10m")
    for seconds in (599, 1, 607, 593):
        clock.advance(seconds)
        hf.schedules.fire()
    assert sent(hf) == [text(start + 600_000_000), text(start + 1_200_000_000), text(start + 1_800_000_000)]


def test_a_sleeping_consumer_wakes_up(
    hf: Holdfast, rival: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.client.claim_loop.LONGEST_NAP", 3600.0)  # Only a ring wakes it.
    hf.schedule("s", queue="q", body="now", every=60)
    asleep, found = sleepers(rival), []
    sleeper = threading.Thread(target=lambda: found.extend(bodies(rival.claim("q", wait=600))))
    sleeper.start()
    assert asleep.acquire(timeout=60)
    clock.advance(60)
    hf.schedules.fire()
    sleeper.join(100)
    assert found == ["now"]


@pytest.mark.parametrize("missed", ["once", "all", "skip"])
def test_many_clients_that_fire_at_once_send_each_slot_once(
    client: OpenClient, hf: Holdfast, clock: FakeClock, missed: str
) -> None:
    """T4."""
    for number in range(5):
        hf.schedule(f"s{number}", queue="q", body=number, cron="* * * * *", missed=missed)
    rivals = [client() for _ in range(4)]
    for rival in rivals:
        rival.schedules.list()
    for _ in range(4):
        clock.advance(60)
        start = threading.Barrier(len(rivals))

        def fire(rival: Holdfast, start: threading.Barrier = start) -> None:
            start.wait(20)
            rival.schedules.fire()

        threads = [threading.Thread(target=fire, args=[rival]) for rival in rivals]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        hf.schedules.fire()  # Whoever found a schedule in someone's hands has left it alone.
    slots = [(message.body, message.headers["holdfast-slot"]) for message in hf.queues.peek("q", 100)]
    assert len(slots) == len(set(slots)) == 5 * 4


def test_a_fire_that_is_undone_never_was(hf: Holdfast, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after the message is in, before the schedule has moved on: neither has happened."""
    hf.schedule("s", queue="q", every=60)
    clock.advance(60)
    send = schedules._send

    def send_and_fall(*args: Any) -> None:
        send(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(schedules, "_send", send_and_fall)
    with pytest.raises(KeyboardInterrupt):
        hf.schedules.fire()
    assert (hf.stats("q").pending, the_schedule(hf).last_slot_us, the_schedule(hf).next_at_us) == (0, None, clock())
    monkeypatch.undo()
    assert (hf.schedules.fire(), hf.stats("q").pending) == (1, 1)


def test_a_clock_that_is_adjusted_fires_nothing_twice(hf: Holdfast, clock: FakeClock) -> None:
    """T2: back by a minute at most."""
    hf.schedule("s", queue="q", cron="*/10 * * * *")
    clock.advance("10m")
    assert hf.schedules.fire() == 1
    clock.advance(-60)
    assert hf.schedules.fire() == 0
    hf.schedule("s", queue="q", body="changed", cron="*/5 * * * *")
    hf.schedules.pause("s")
    hf.schedules.resume("s")
    for _ in range(16):
        clock.advance(30)
        hf.schedules.fire()
    assert sent(hf) == ["2026-01-01T00:10:00+00:00", "2026-01-01T00:15:00+00:00"]


@pytest.mark.parametrize("policy", ["once", "all", "skip"])
def test_a_schedule_goes_on_after_the_clock_has_jumped_forward_and_back(
    hf: Holdfast, clock: FakeClock, policy: str
) -> None:
    """T2: with the next slot of the corrected clock, and then with each."""
    hf.schedule("s", queue="q", every=1, missed=policy)
    for _ in range(3):
        clock.advance(1)
        assert hf.schedules.fire() == 1
    clock.advance("2h")
    for _ in range(3):
        clock.advance(1)
        assert hf.schedules.fire() >= 1
    clock.advance(-7200)
    hf.queues.purge("q")
    hf.schedules.fire()
    hf.queues.purge("q")
    start = clock()
    for _ in range(5):
        clock.advance(1)
        assert hf.schedules.fire() == 1
    assert sent(hf) == [text(start + number * 1_000_000) for number in range(1, 6)]
    assert missed(hf) == [0] * 5


@pytest.mark.parametrize("act", ["declare", "change", "resume", "postpone"])
def test_what_a_wrong_clock_has_worked_out_is_corrected(hf: Holdfast, clock: FakeClock, act: str) -> None:
    """T2: whatever set the slot that the schedule waits for."""
    if act != "declare":
        hf.schedule("s", queue="q", every=20, missed="skip")
    if act == "resume":
        hf.schedules.pause("s")
    clock.advance("2h")
    if act in ("declare", "change"):
        hf.schedule("s", queue="q", every=10)
    elif act == "resume":
        hf.schedules.resume("s")
    else:
        hf.queue("q", max_depth=1)
        hf.enqueue("q", "in the way")
        assert hf.schedules.fire() == 0
        assert the_schedule(hf).error
        hf.queues.purge("q")
    clock.advance(-7200)
    hf.schedule("s", queue="q", body="changed by the corrected clock")
    for _ in range(3):
        clock.advance(10)
        hf.schedules.fire()
    slots = sent(hf)
    assert slots
    assert all(slot <= text(clock()) for slot in slots)


def test_a_paused_schedule_stays_paused_when_the_clock_is_set_back(hf: Holdfast, clock: FakeClock) -> None:
    clock.advance("2h")
    hf.schedule("s", queue="q", every=1)
    hf.schedules.pause("s")
    clock.advance(-7200)
    for _ in range(3):
        clock.advance(1)
        assert hf.schedules.fire() == 0
    hf.schedules.resume("s")
    clock.advance(1)
    assert hf.schedules.fire() == 1


def test_maintain_fires_too(hf: Holdfast, clock: FakeClock) -> None:
    hf.schedule("s", queue="q", every=60)
    clock.advance(60)
    assert hf.maintain() == 1
    assert hf.stats("q").pending == 1


def test_the_store_knows_when_the_next_is_due(hf: Holdfast, clock: FakeClock) -> None:
    assert hf.schedules.list() == []
    assert internals(hf).store.schedules.next_due("default") is None
    hf.schedule("late", queue="q", every=60)
    hf.schedule("early", queue="q", every=20)
    assert internals(hf).store.schedules.next_due("default") == 20
    clock.advance(25)
    assert internals(hf).store.schedules.next_due("default") == -5
    hf.schedules.pause("early")
    assert internals(hf).store.schedules.next_due("default") == 35
    hf.schedules.pause("late")
    assert internals(hf).store.schedules.next_due("default") is None


def test_more_schedules_than_one_call_fires_are_fired_by_the_next(hf: Holdfast, clock: FakeClock) -> None:
    for number in range(130):
        hf.schedule(f"s{number:03}", queue="q", every=60)
    clock.advance(60)
    assert [hf.schedules.fire() for _ in range(3)] == [100, 30, 0]


# --- missed -----------------------------------------------------------------------------------------------------------


def test_after_three_days_once_sends_one_for_all(hf: Holdfast, clock: FakeClock) -> None:
    """T4."""
    hf.schedule("s", queue="q", cron="@hourly")
    clock.advance("3d30m")
    assert [hf.schedules.fire(), hf.schedules.fire()] == [1, 0]
    assert (sent(hf), missed(hf)) == (["2026-01-04T00:00:00+00:00"], [71])
    clock.advance("30m")
    hf.schedules.fire()
    assert missed(hf) == [71, 0]


def test_after_three_days_all_sends_each_in_turns(hf: Holdfast, clock: FakeClock) -> None:
    """T4."""
    start = clock()
    hf.schedule("s", queue="q", cron="*/30 * * * *", missed="all")
    clock.advance("3d")
    assert [hf.schedules.fire() for _ in range(3)] == [100, 44, 0]
    assert sent(hf) == [text(start + number * HOUR // 2) for number in range(1, 145)]
    assert set(missed(hf)) == {0}


def test_after_three_days_skip_sends_only_what_is_of_now(hf: Holdfast, clock: FakeClock) -> None:
    """T4."""
    hf.schedule("s", queue="q", cron="@hourly", missed="skip")
    clock.advance("3d5m")
    assert hf.schedules.fire() == 0
    assert (hf.stats("q").pending, the_schedule(hf).next_at_us, the_schedule(hf).last_slot_us) == (
        0,
        clock() + 55 * 60_000_000,
        None,
    )
    clock.advance("55m30s")
    assert hf.schedules.fire() == 1
    assert sent(hf) == ["2026-01-04T01:00:00+00:00"]


# --- in the way -------------------------------------------------------------------------------------------------------


def test_a_full_queue_holds_up_its_own_schedule_only(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("full", max_depth=1)
    hf.enqueue("full", "already there")
    hf.schedule("a", queue="full", body="waits", every=60)
    hf.schedule("b", queue="q", body="goes", every=60)
    clock.advance(60)
    assert hf.schedules.fire() == 1
    refused, fine = hf.schedules.list()
    assert "max_depth" in (refused.error or "")
    assert (fine.error, refused.last_slot_us, refused.next_at_us) == (None, None, clock())
    slot = clock()
    assert drain(hf, "full") == ["already there"]
    assert hf.schedules.fire() == 0
    clock.advance(1)
    assert hf.schedules.fire() == 1
    [message] = hf.queues.peek("full")
    assert (message.body, message.headers["holdfast-slot"]) == ("waits", text(slot))
    assert hf.schedules.list()[0].error is None
    with pytest.raises(QueueFull):
        hf.schedules.run("a")


def test_all_missed_slots_go_into_a_small_queue_as_there_is_room(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", max_depth=2)
    hf.schedule("s", queue="q", every=60, missed="all")
    clock.advance(300)
    found = []
    for _ in range(20):
        hf.schedules.fire()
        if hf.stats("q").pending == 2:
            found += sent(hf)
            drain(hf)
        clock.advance(1)
    found += sent(hf)
    assert found == [text(clock() - 20_000_000 - (240 - 60 * number) * 1_000_000) for number in range(5)]


def test_a_schedule_that_this_machine_cannot_read_holds_up_no_other(hf: Holdfast, clock: FakeClock) -> None:
    """Its time zone may be known elsewhere only."""
    hf.schedule("a", queue="q", cron="* * * * *", tz="Europe/Berlin")
    hf.schedule("b", queue="q", body="goes", every=60)
    raw = b'{"queue":"q","body":null,"cron":"* * * * *","tz":"Mars/Olympus"}'
    internals(hf).store.database.write(  # type: ignore[attr-defined]
        lambda tx: tx.run("schedules.change", tenant="default", name="a", spec=raw, next_at=clock(), due_at=clock())
    )
    clock.advance(60)
    assert hf.schedules.fire() == 1
    assert "Mars/Olympus" in (hf.schedules.list()[0].error or "")
