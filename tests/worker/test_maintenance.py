"""Maintenance goes on: while every consumer of the process sleeps, and when one of its duties fails."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from holdfast import Holdfast, Step, Unavailable, Wait
from holdfast.client.client import internals
from holdfast.store.api import Channel
from holdfast.worker.maintenance import leader
from holdfast.worker.maintenance.duties import escalation, reaper, schedules, wakeups
from tests.waiting import eventually
from tests.worker.steps import Calls, swallow_rings
from tests.worker.test_empty import asleep

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]


@pytest.fixture
def deep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody wakes up for safety. Who falls asleep is noticed soon."""
    monkeypatch.setattr("holdfast.worker.worker.SAFETY_NAP", 3600.0)
    monkeypatch.setattr(leader, "SAFETY", 3600.0)
    monkeypatch.setattr(leader, "LOOK_EVERY", 0.05)


def sleeper(hf: Holdfast, queue: str) -> Calls:
    calls = Calls()
    hf.consumer(queue, name="sleeper", empty="hibernate")(lambda message: calls.note(message.body))
    return calls


# --- while all sleep --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("deep")
def test_a_schedule_is_fired_while_all_sleep(hf: Holdfast) -> None:
    hf.schedule("s", queue="ticks", body="tick", every=1)
    calls = sleeper(hf, "ticks")
    with hf.running():
        assert calls.wait(2) == ["tick"] * 2


@pytest.mark.usefixtures("deep")
@pytest.mark.parametrize("change", ["new", "sooner", "resumed"])
def test_who_sleeps_is_told_of_a_changed_schedule(hf: Holdfast, change: str) -> None:
    if change != "new":
        hf.schedule("s", queue="ticks", body="tick", every=3600 if change == "sooner" else 1)
    if change == "resumed":
        hf.schedules.pause("s")
    calls = sleeper(hf, "ticks")
    with hf.running() as runner:
        asleep(runner)
        if change == "resumed":
            hf.schedules.resume("s")
        else:
            hf.schedule("s", queue="ticks", body="tick", every=1)
        assert calls.wait(1) == ["tick"]


@pytest.mark.usefixtures("deep")
def test_a_saga_goes_on_while_all_sleep(hf: Holdfast) -> None:
    """Its step wakes the consumer, which then sleeps through the wait, and through the timeout that nobody keeps."""
    hf.saga("s", steps=[Step("a", "work"), Wait("a while", delay=0.5), Step("b", "nobody", timeout=0.5)])
    calls = sleeper(hf, "work")
    with hf.running() as runner:
        asleep(runner)
        hf.start_saga("s", id="s")
        calls.wait(1)
        eventually(lambda: (found := hf.sagas.get("s")) and found.ended_at_us is not None, "the end")
    saga = hf.sagas.get("s")
    assert saga is not None
    assert (saga.steps[1].status, saga.steps[2].status) == ("completed", "failed")


def test_there_is_a_look_for_safety(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease of a queue that nobody here takes from is taken back, also if all sleep."""
    monkeypatch.setattr(leader, "SAFETY", 0.5)
    monkeypatch.setattr(leader, "LOOK_EVERY", 0.05)
    hf.queue("other", lease=0.1, backoff=0)
    sleeper(hf, "q")
    with hf.running() as runner:
        asleep(runner)
        hf.enqueue("other", 1)
        hf.claim("other")
        eventually(lambda: hf.stats("other").pending == 1, "the lease is taken back")


def test_who_has_missed_the_bell_is_rung_for_again(
    hf: Holdfast, connect: Callable[..., Holdfast], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whoever leads, once something is due that the sleeper knows nothing of."""
    monkeypatch.setattr("holdfast.worker.worker.LONGEST_NAP", 3600.0)
    monkeypatch.setattr(wakeups, "every", 0.1)
    monkeypatch.setattr(leader, "LOOK_EVERY", 0.1)
    calls, other = Calls(), connect()
    hf.consumer("q", name="poller", empty="poll")(lambda message: calls.note(message.body))
    swallow_rings(monkeypatch, other)
    with hf.running() as runner:
        eventually(lambda: runner.workers[0].naps > 0, "it sleeps")
        for number in range(3):
            other.enqueue("q", number, delay=0.2)
            calls.wait(number + 1)


def test_a_look_that_fails_is_made_again(one: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "LOOK_EVERY", 0.01)
    looks: list[str] = []

    def look(tenant: str) -> None:
        looks.append(tenant)
        if len(looks) < 3:
            raise Unavailable("not now")

    monkeypatch.setattr(internals(one).store.schedules, "next_due", look)
    sleeper(one, "q")
    with one.running() as runner:
        asleep(runner)
    assert len(looks) >= 3


# --- a duty that fails ------------------------------------------------------------------------------------------------


def test_a_duty_that_fails_does_not_keep_others_from_theirs(
    one: Holdfast, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(leader, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(leader, "TERM", 0.0)
    turns = {duty: Calls() for duty in (reaper, schedules, escalation)}
    for duty, calls in turns.items():
        monkeypatch.setattr(duty, "every", 0.02)
        monkeypatch.setattr(duty, "turn", lambda hf, calls=calls: calls.note(hf) or 0)

    def fail(hf: Holdfast) -> int:
        turns[reaper].note(hf)
        raise RuntimeError("this queue is cursed")

    monkeypatch.setattr(reaper, "turn", fail)
    one.consumer("q")(lambda message: None)
    with caplog.at_level(logging.WARNING, "holdfast"), one.running() as runner:
        for calls in turns.values():
            calls.wait(3)
        assert runner.trouble() == "this queue is cursed"
        monkeypatch.setattr(reaper, "turn", lambda hf: 0)
        eventually(lambda: runner.trouble() is None)
    assert [record.getMessage() for record in caplog.records if "cursed" in record.getMessage()] == [
        "maintenance (reaper): this queue is cursed; it goes on as soon as it can"
    ]


def test_a_queue_that_fails_does_not_keep_others_from_their_turn(one: Holdfast) -> None:
    for name in ("a", "b", "c"):
        one.queue(name, lease=0.1, backoff=0)
        one.enqueue(name, 1)
        one.claim(name)
    due, take_back = internals(one).store.upkeep.due, internals(one).store.upkeep.take_back

    class Upkeep:
        def due(self, channels: Sequence[Channel]) -> list[Channel]:
            return due(channels)

        def take_back(self, channel: Any, limit: int) -> int:
            if channel.name == "a":
                raise RuntimeError("cursed")
            return take_back(channel, limit)

    internals(one).store.upkeep = Upkeep()  # type: ignore[misc, assignment]

    def others_are_back() -> bool:
        with suppress(RuntimeError):
            reaper.turn(one)
        return [one.stats(name).processing for name in ("b", "c")] == [0, 0]

    eventually(others_are_back)
    with pytest.raises(RuntimeError, match="cursed"):
        reaper.turn(one)
    assert one.stats("a").processing == 1
