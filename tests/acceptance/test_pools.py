"""Pools with real processes: they grow, shrink, are killed, drained; nothing is lost, and never more run than may."""

import signal
import time
from collections.abc import Callable

import pytest

from holdfast import Holdfast
from tests.acceptance.pools import BOTH, QUICK, once
from tests.acceptance.programs import Programs, Watching, soon


@BOTH
def test_it_grows_under_load_and_shrinks_without_killing(hf: Holdfast, programs: Programs) -> None:
    """The last messages take longer than the grace: those who are drained finish them nevertheless."""
    programs.write(
        f"""
@hf.consumer("jobs", lease="5s")
def job(message):
    slowly(message, 2.5 if message.body >= 200 else 0.05)

hf.pool(job, {QUICK})
"""
    )
    hf.enqueue_many("jobs", list(range(203)))
    with Watching(hf, "job") as seats:
        program = programs.start(APP_GRACE="300ms")
        soon(lambda: seats.now == 3, "three consumers")
        soon(lambda: len([one for one in hf.consumers() if one.pool == "job"]) == 3, "all of them say so")
        soon(lambda: programs.done() == once(203), "all is done")
        soon(lambda: seats.now == 1, "it has become calm")
        soon(lambda: len(program.members) == 1, "the others have ended")
        program.send(signal.SIGTERM)
        assert program.wait() == 0
    assert max(seats.seen) == 3
    assert programs.most_at_once() <= 3
    assert len(programs.log("begin")) == 203, "nothing was begun twice"
    assert seats.now == 0
    assert (hf.stats("jobs").pending, hf.stats("jobs").processing, hf.notices()) == (0, 0, [])
    assert "crash" not in program.said


def test_a_few_messages_that_wait_for_long_are_a_backlog(hf: Holdfast, programs: Programs) -> None:
    programs.write(
        """
@hf.consumer("jobs")
def job(message):
    slowly(message, 60)

hf.pool(job, max=2, scale_up_depth=100, scale_up_age="1s", cooldown="100ms")
"""
    )
    hf.enqueue("jobs", "later", delay="1h")
    hf.enqueue_many("jobs", [0, 1])
    programs.start()
    soon(lambda: len({one.pid for one in programs.log("begin")}) == 2, "a second consumer, for the second message")
    assert programs.log("end") == []


@BOTH
def test_a_killed_supervisor_is_followed_by_another(hf: Holdfast, programs: Programs) -> None:
    """Its consumers finish what they have begun and end; the next supervisor waits for their seats."""
    programs.write(
        """
@hf.consumer("jobs")
def job(message):
    slowly(message, 0.7)

hf.pool(job, min=2, max=2)
"""
    )
    hf.enqueue_many("jobs", list(range(16)))
    with Watching(hf, "job") as seats:
        for _ in range(2):
            program = programs.start()
            begun = len(programs.log("begin"))
            soon(lambda: len(programs.log("begin")) >= begun + 4, "it works")  # noqa: B023
            program.send(signal.SIGKILL)
        last = programs.start()
        soon(lambda: program.members == [], "its consumers have noticed")
        soon(lambda: programs.done() == once(16), "all is done")
        soon(lambda: seats.now == 2, "as many as there should be")
        last.send(signal.SIGTERM)
        assert last.wait() == 0
    assert max(seats.seen) == 2
    assert programs.most_at_once() == 2
    assert len(programs.log("begin")) == 16, "nothing was begun twice"
    assert seats.now == 0


@BOTH
def test_machines_that_start_at_the_same_moment_do_not_start_too_many(hf: Holdfast, programs: Programs) -> None:
    programs.write(
        """
@hf.consumer("jobs")
def job(message):
    slowly(message, 0.2)

hf.pool(job, min=2, max=2)
"""
    )
    hf.enqueue_many("jobs", list(range(10)))
    moment = str(time.monotonic() + 2)
    with Watching(hf, "job") as seats:
        machines = [programs.start(APP_AT=moment) for _ in range(4)]
        soon(lambda: programs.done() == once(10), "all is done")
        assert sum(len(machine.members) for machine in machines) == 2
    assert max(seats.seen) == 2
    assert programs.most_at_once() <= 2


@BOTH
def test_two_machines_share_a_pool(hf: Holdfast, programs: Programs) -> None:
    """Both of the same name, as clones are. When one supervisor dies, the other keeps the least."""
    programs.write(
        """
@hf.consumer("jobs")
def job(message):
    slowly(message, 0.5)

hf.pool(job, min=2, max=3, scale_up_depth=4, scale_down_depth=1, cooldown="200ms")
"""
    )
    hf.enqueue_many("jobs", list(range(30)))
    with Watching(hf, "job") as seats:
        one, other = (programs.start(APP_WORKER="clone") for _ in range(2))
        soon(lambda: seats.now == 3, "the most there may be")
        soon(lambda: len(programs.done()) >= 8, "they work")
        victim, survivor = (one, other) if one.members else (other, one)
        victim.send(signal.SIGKILL)
        soon(lambda: programs.done() == once(30), "all is done")
        soon(lambda: victim.members == [] and len(survivor.members) == 2 == seats.now, "the other has the least")
        survivor.send(signal.SIGTERM)
        assert survivor.wait() == 0
    assert max(seats.seen) == 3
    assert programs.most_at_once() == 3
    assert len(programs.log("begin")) == 30, "nothing was begun twice"


def test_a_machine_that_is_gone_loses_its_seats(hf: Holdfast, programs: Programs) -> None:
    programs.write(
        """
@hf.consumer("jobs", lease="2s")
def job(message):
    slowly(message, 0.1)

hf.pool(job, min=2, max=2)
"""
    )
    hf.queue("jobs", backoff=None)
    program = programs.start()
    soon(lambda: len(hf.consumers()) == 2, "it works")
    with Watching(hf, "job") as seats:
        program.send_to_all(signal.SIGKILL)
        other = programs.start()
        hf.enqueue_many("jobs", list(range(4)))
        soon(lambda: programs.done() == once(4), "the other one does it")
        soon(lambda: len(other.members) == 2, "all seats are taken over")
    assert max(seats.seen) == 2


HOW_TO_STOP = [
    pytest.param(lambda program: program.send(signal.SIGTERM), id="SIGTERM"),
    pytest.param(lambda program: program.send_to_all(signal.SIGINT), id="Ctrl-C"),
    pytest.param(lambda program: program.send_to_all(signal.SIGTERM), id="SIGTERM to all"),
]


@pytest.mark.parametrize("stop", HOW_TO_STOP)
def test_all_are_drained_once(hf: Holdfast, programs: Programs, stop: Callable[..., None]) -> None:
    """What runs finishes, what was not begun is as if it had never been claimed."""
    programs.write(
        """
@hf.consumer("jobs", concurrency=2)
def job(message):
    slowly(message, 2)

hf.pool(job, min=2, max=2)
"""
    )
    hf.enqueue_many("jobs", list(range(10)))
    program = programs.start()
    soon(lambda: len({one.pid for one in programs.log("begin")}) == 2, "both work")
    time.sleep(0.3)
    stop(program)
    assert program.wait() == 0
    begun = {one.body for one in programs.log("begin")}
    assert programs.done() == dict.fromkeys(begun, 1)
    assert hf.stats("jobs").pending == 10 - len(begun)
    assert {claim.attempt for claim in hf.claim("jobs", n=10)} == {1}
    assert hf.store.seats.taken("default", "job") == []
    assert program.members == []
    assert "Traceback" not in program.said


def test_a_second_signal_ends_it_at_once(hf: Holdfast, programs: Programs) -> None:
    programs.write(
        """
@hf.consumer("jobs")
def job(message):
    note("begin", message.body)
    while True:
        time.sleep(0.01)

hf.pool(job, min=2, max=2)
"""
    )
    hf.queue("jobs", backoff=None)
    hf.enqueue_many("jobs", [0, 1])
    program = programs.start()
    soon(lambda: len(programs.log("begin")) == 2, "both work")
    program.send(signal.SIGTERM)
    time.sleep(1)
    assert program.process.poll() is None
    assert len(program.members) == 2
    program.send(signal.SIGINT)
    assert program.wait() == 0
    assert program.members == []
    assert (hf.stats("jobs").pending, hf.stats("jobs").processing) == (2, 0), "they have said so in time"
    assert hf.store.seats.taken("default", "job") == []


def test_stopped_while_its_consumers_are_just_starting(hf: Holdfast, programs: Programs) -> None:
    programs.write(
        """
if __name__ != "__main__":
    time.sleep(1.5)

@hf.consumer("jobs")
def job(message):
    slowly(message, 0)

hf.pool(job, min=2, max=2, max_crashes=1)
"""
    )
    hf.enqueue("jobs", 0)
    program = programs.start()
    soon(lambda: len(programs.log("boot")) == 3, "both are starting")
    program.send_to_all(signal.SIGINT)
    assert program.wait() == 0
    assert programs.log("begin") == []
    assert hf.store.seats.taken("default", "job") == []
    assert hf.notices() == []
    assert "Traceback" not in program.said
    assert "crash" not in program.said
