"""What the members of a pool may be: threads, processes with processes, a tier, drones; and all of them are fit."""

import signal
from pathlib import Path

from holdfast import Holdfast
from holdfast.client.client import internals
from tests.acceptance.pools import BOTH, QUICK, TELL_OF_FEWER, once
from tests.acceptance.programs import Programs, Watching
from tests.waiting import eventually, leave_time


def test_members_may_be_threads(hf: Holdfast, programs: Programs, tmp_path: Path) -> None:
    """The last messages end after the first member is drained, and the others not before three are there."""
    programs.write(
        f"""
{TELL_OF_FEWER}
@hf.consumer("jobs")
def job(message):
    note("begin", message.body)
    until(lambda: os.path.exists("go"))
    if message.body >= 20:
        until(lambda: noted("fewer"))
        time.sleep(0.5)
    note("end", message.body)

hf.pool(job, name="crew", members="thread", {QUICK})
"""
    )
    hf.enqueue_many("jobs", list(range(23)))
    with Watching(hf, "crew") as seats:
        program = programs.start(APP_GRACE="300ms")
        eventually(
            lambda: [one.pool for one in hf.consumers.list()] == ["crew"] * 3 and seats.now == 3, "three consumers"
        )
        (tmp_path / "go").touch()
        eventually(lambda: programs.done() == once(23), "all is done")
        eventually(lambda: seats.now == 1, "it has become calm")
        program.send(signal.SIGTERM)
        assert program.wait() == 0
    assert max(seats.seen) == 3
    assert {one.pid for one in programs.log()} == {program.process.pid}
    assert len(programs.log("begin")) == 23, "draining interrupts nobody"
    assert seats.now == 0


@BOTH
def test_handlers_may_be_async(hf: Holdfast, programs: Programs, tmp_path: Path) -> None:
    """Several at a time in one process; those that have begun finish when the pool is stopped."""
    go_on = tmp_path / "go on"
    programs.write(
        f"""
import asyncio

meeting = asyncio.Barrier(3)

@hf.consumer("jobs", concurrency=3)
async def job(message):
    note("begin", message.body)
    await meeting.wait()
    while message.body >= 3 and not os.path.exists({str(go_on)!r}):
        await asyncio.sleep(0.01)
    note("end", message.body)

hf.pool(job, max=1)
"""
    )
    hf.enqueue_many("jobs", list(range(6)))
    program = programs.start()
    eventually(lambda: len(programs.log("begin")) == 6, "three have met, and three more have begun")
    program.send(signal.SIGTERM)
    go_on.touch()
    assert program.wait() == 0
    assert programs.done() == once(6)
    assert {one.pid for one in programs.log("end")} == {programs.log("boot")[1].pid}
    assert internals(hf).store.seats.taken("default", "job") == []


def test_a_tier_takes_only_what_is_for_it(hf: Holdfast, programs: Programs, tmp_path: Path) -> None:
    programs.write(
        """
@hf.consumer("easy", labels={"tier": "haiku"})
def drone(message):
    note("begin", message.body)
    until(lambda: message.body == 0 or os.path.exists("go"))
    note("end", message.body)

hf.pool(drone, max=2, scale_up_depth=5, scale_down_depth=1, cooldown="100ms")
"""
    )
    hf.queue("easy", requires={"tier": "haiku"})
    hf.queue("hard", requires={"tier": "opus"})
    hf.queue("more")
    hf.enqueue_many("hard", list(range(100, 130)))
    hf.consumers.attach("drone", "hard")
    hf.consumers.attach("drone", "more")
    with Watching(hf, 'drone/{"tier":"haiku"}') as seats:
        programs.start()
        hf.enqueue("easy", 0)
        eventually(lambda: programs.done() == once(1), "what it is for")
        leave_time(1)
        assert max(seats.seen) == 1, "what others have to do is no reason to grow"
        hf.enqueue_many("more", list(range(1, 9)))
        eventually(lambda: seats.now == 2, "the depth of an attached queue is")
        (tmp_path / "go").touch()
        eventually(lambda: programs.done() == once(9), "that is done too")
    assert hf.stats("hard").pending == 30


def test_who_is_not_fit_is_not_started_and_others_are(hf: Holdfast, programs: Programs) -> None:
    programs.write(
        """
def no_key():
    raise RuntimeError("there is no key")

@hf.consumer("hard", preflight=no_key)
def lame(message):
    slowly(message, 0)

@hf.consumer("easy")
def fit(message):
    slowly(message, 0)

hf.pool(lame, min=2)
hf.pool(fit)
"""
    )
    hf.queue("hard", owner="ops")
    hf.enqueue("hard", 7)
    hf.enqueue("easy", 0)
    program = programs.start()
    eventually(lambda: programs.done() == once(1), "the other one works")
    leave_time(1)
    [notice] = hf.notices.list()
    assert (notice.kind, notice.about, notice.owner, notice.repeats) == ("preflight", "lame", "ops", 0)
    assert "there is no key" in notice.error
    assert {one.consumer for one in hf.consumers.list()} == {"fit"}
    assert len(program.members) == 1


def test_members_may_have_handlers_in_processes_of_their_own(hf: Holdfast, programs: Programs) -> None:
    programs.write(
        """
@hf.consumer("jobs", isolation="process", concurrency=2)
def job(message):
    slowly(message, 1)

hf.pool(job, min=1, max=1)
"""
    )
    hf.enqueue_many("jobs", [0, 1])
    program = programs.start()
    eventually(lambda: len(programs.log("begin")) == 2, "both have begun")
    program.send_to_all(signal.SIGINT)
    assert program.wait() == 0
    assert programs.done() == once(2)
    assert not {one.pid for one in programs.log("end")} & {program.process.pid, *program.members}


def test_drones_are_found_by_their_client(hf: Holdfast, programs: Programs) -> None:
    """Neither the handler stands in the program's module, nor has the consumer a name there."""
    programs.write(
        """
hf.consumer("jobs", name="echo")(exec_handler("cat"))
hf.pool("echo")
"""
    )
    sent = hf.enqueue("jobs", {"a": 1})
    programs.start()
    eventually(lambda: (found := hf.status(sent.id)) is not None and found.state == "succeeded", "it is done")
    found = hf.status(sent.id)
    assert found is not None
    assert found.result == {"a": 1}
