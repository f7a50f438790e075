"""Pools with real processes: they grow, shrink, are killed, drained; nothing is lost, and never more run than may."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.client.client import internals
from tests.acceptance.pools import BOTH, QUICK, TELL_OF_FEWER, once
from tests.acceptance.programs import Programs, Watching
from tests.waiting import eventually, leave_time


@BOTH
def test_it_grows_under_load_and_shrinks_without_killing(hf: Holdfast, programs: Programs, tmp_path: Path) -> None:
    """The last messages take longer than the grace: those who are drained finish them nevertheless.

    They end after the first of them is drained, and the others not before three are there.
    """
    programs.write(
        f"""
{TELL_OF_FEWER}
@hf.consumer("jobs")
def job(message):
    note("begin", message.body)
    until(lambda: os.path.exists("go"))
    if message.body >= 60:
        until(lambda: noted("fewer"))
    time.sleep(0.5 if message.body >= 60 else 0.05)
    note("end", message.body)

hf.pool(job, {QUICK})
"""
    )
    hf.enqueue_many("jobs", list(range(63)))
    with Watching(hf, "job") as seats:
        program = programs.start(APP_GRACE="300ms")
        eventually(lambda: seats.now == 3, "three consumers")
        eventually(lambda: len([one for one in hf.consumers.list() if one.pool == "job"]) == 3, "all of them say so")
        (tmp_path / "go").touch()
        eventually(lambda: programs.done() == once(63), "all is done")
        eventually(lambda: seats.now == 1, "it has become calm")
        eventually(lambda: len(program.members) == 1, "the others have ended")
        program.send(signal.SIGTERM)
        assert program.wait() == 0
    assert max(seats.seen) == 3
    assert programs.most_at_once() <= 3
    assert len(programs.log("begin")) == 63, "nothing was begun twice"
    assert seats.now == 0
    assert (hf.stats("jobs").pending, hf.stats("jobs").processing, hf.notices.list()) == (0, 0, [])
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
    eventually(
        lambda: len({one.pid for one in programs.log("begin")}) == 2, "a second consumer, for the second message"
    )
    assert programs.log("end") == []


@BOTH
def test_a_killed_supervisor_is_followed_by_another(hf: Holdfast, programs: Programs) -> None:
    """Its consumers finish what they have begun and end; the next supervisor waits for their seats."""
    programs.write(
        """
@hf.consumer("jobs")
def job(message):
    note("begin", message.body)
    until_at_work(2)
    time.sleep(0.4)
    note("end", message.body)

hf.pool(job, min=2, max=2)
"""
    )
    with Watching(hf, "job") as seats:
        for first in (0, 6):
            begun = len(programs.log("begin"))
            hf.enqueue_many("jobs", list(range(first, first + 6)))
            program = programs.start()
            eventually(lambda: len(programs.log("begin")) >= begun + 4, "it works")  # noqa: B023
            program.send(signal.SIGKILL)
        hf.enqueue_many("jobs", list(range(12, 16)))
        last = programs.start()
        eventually(lambda: program.members == [], "its consumers have noticed")
        eventually(lambda: programs.done() == once(16), "all is done")
        eventually(lambda: seats.now == 2, "as many as there should be")
        last.send(signal.SIGTERM)
        assert last.wait() == 0
    assert max(seats.seen) == 2
    assert programs.most_at_once() == 2
    assert len(programs.log("begin")) == 16, "nothing was begun twice"
    assert seats.now == 0


@BOTH
def test_machines_that_start_at_the_same_moment_do_not_start_too_many(
    hf: Holdfast, programs: Programs, tmp_path: Path
) -> None:
    programs.write(
        """
@hf.consumer("jobs")
def job(message):
    slowly(message, 0.2)

hf.pool(job, min=2, max=2)
"""
    )
    hf.enqueue_many("jobs", list(range(10)))
    go = tmp_path / "go"
    with Watching(hf, "job") as seats:
        machines = [programs.start(APP_GO=str(go)) for _ in range(4)]
        eventually(lambda: len(programs.log("ready")) == 4, "all are ready")
        go.touch()
        eventually(lambda: programs.done() == once(10), "all is done")
        eventually(lambda: sum(len(machine.members) for machine in machines) == 2 == seats.now, "two, wherever")
    assert max(seats.seen) == 2
    assert programs.most_at_once() <= 2


@BOTH
def test_two_machines_share_a_pool(hf: Holdfast, programs: Programs) -> None:
    """Both of the same name, as clones are. When one supervisor dies, the other keeps the least."""
    programs.write(
        """
@hf.consumer("jobs")
def job(message):
    note("begin", message.body)
    until_at_work(3)
    time.sleep(0.3)
    note("end", message.body)

hf.pool(job, min=2, max=3, scale_up_depth=4, scale_down_depth=1, cooldown="200ms")
"""
    )
    hf.enqueue_many("jobs", list(range(30)))
    with Watching(hf, "job") as seats:
        one, other = (programs.start(APP_WORKER="clone") for _ in range(2))
        eventually(lambda: seats.now == 3, "the most there may be")
        eventually(lambda: len(programs.done()) >= 8, "they work")
        victim, survivor = (one, other) if one.members else (other, one)
        victim.send(signal.SIGKILL)
        eventually(lambda: programs.done() == once(30), "all is done")
        eventually(lambda: victim.members == [] and len(survivor.members) == 2 == seats.now, "the other has the least")
        survivor.send(signal.SIGTERM)
        assert survivor.wait() == 0
    assert max(seats.seen) == 3
    assert programs.most_at_once() == 3
    assert len(programs.log("begin")) == 30, "nothing was begun twice"


def test_a_machine_that_is_gone_loses_its_seats(hf: Holdfast, programs: Programs) -> None:
    programs.write(
        """
from holdfast.worker.pools import members

members.SEAT_TERM = 4.0

@hf.consumer("jobs", lease="5s")
def job(message):
    slowly(message, 0.1)

hf.pool(job, min=2, max=2)
"""
    )
    hf.queue("jobs", backoff=None)
    program = programs.start()
    eventually(lambda: len(hf.consumers.list()) == 2, "it works")
    with Watching(hf, "job") as seats:
        program.send_to_all(signal.SIGKILL)
        other = programs.start()
        hf.enqueue_many("jobs", list(range(4)))
        eventually(lambda: programs.done() == once(4), "the other one does it")
        eventually(lambda: len(other.members) == 2, "all seats are taken over")
    assert max(seats.seen) == 2


HOW_TO_STOP = [
    pytest.param(lambda program: program.send(signal.SIGTERM), id="SIGTERM"),
    pytest.param(lambda program: program.send_to_all(signal.SIGINT), id="Ctrl-C"),
    pytest.param(lambda program: program.send_to_all(signal.SIGTERM), id="SIGTERM to all"),
]


@pytest.mark.parametrize("stop", HOW_TO_STOP)
def test_all_are_drained_once(hf: Holdfast, programs: Programs, stop: Callable[..., None], tmp_path: Path) -> None:
    """What runs finishes, what was not begun is as if it had never been claimed."""
    programs.write(
        """
@hf.consumer("jobs", concurrency=2)
def job(message):
    note("begin", message.body)
    until(lambda: os.path.exists("go"))
    time.sleep(0.5)
    note("end", message.body)

hf.pool(job, min=2, max=2)
"""
    )
    hf.enqueue_many("jobs", list(range(60)))
    program = programs.start()
    eventually(lambda: len({one.pid for one in programs.log("begin")}) == 2, "both work")
    leave_time(0.3)
    stop(program)
    (tmp_path / "go").touch()
    assert program.wait() == 0
    begun = {one.body for one in programs.log("begin")}
    assert programs.done() == dict.fromkeys(begun, 1)
    assert hf.stats("jobs").pending == 60 - len(begun)
    assert {claim.attempt for claim in hf.claim("jobs", n=60)} == {1}
    assert internals(hf).store.seats.taken("default", "job") == []
    assert program.members == []
    assert "Traceback" not in program.said


def test_a_second_signal_ends_it_at_once(hf: Holdfast, programs: Programs) -> None:
    programs.write(
        """
from holdfast.worker.pools import supervisor

supervisor.INSIST_AFTER = 60.0  # Nobody is killed for being slow: they have to end by themselves.

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
    eventually(lambda: len(programs.log("begin")) == 2, "both work")
    program.send(signal.SIGTERM)
    leave_time(1)
    assert program.process.poll() is None
    assert len(program.members) == 2
    program.send(signal.SIGINT)
    assert program.wait() == 0
    assert program.members == []
    assert (hf.stats("jobs").pending, hf.stats("jobs").processing) == (2, 0), "they have said so in time"
    assert internals(hf).store.seats.taken("default", "job") == []


def test_stopped_while_its_consumers_are_just_starting(hf: Holdfast, programs: Programs) -> None:
    programs.write(
        """
from holdfast.worker.pools.supervisor import Supervisor

stop = Supervisor.stop

def stop_and_say_so(self, grace):
    stop(self, grace)
    note("stops")

Supervisor.stop = stop_and_say_so

if __name__ != "__main__":
    until(lambda: noted("stops"))
    time.sleep(1)

@hf.consumer("jobs")
def job(message):
    slowly(message, 0)

hf.pool(job, min=2, max=2, max_crashes=1)
"""
    )
    hf.enqueue("jobs", 0)
    program = programs.start()
    eventually(lambda: len(programs.log("boot")) == 3, "both are starting")
    program.send_to_all(signal.SIGINT)
    assert program.wait() == 0
    assert programs.log("begin") == []
    assert internals(hf).store.seats.taken("default", "job") == []
    assert hf.notices.list() == []
    assert "Traceback" not in program.said
    assert "crash" not in program.said
