"""Consumers of a pool that end by themselves: started again, given up in the end, and told of once."""

import signal
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.client.client import internals
from tests.acceptance.pools import once
from tests.acceptance.programs import Programs
from tests.waiting import eventually, leave_time


@pytest.mark.parametrize("define", ["def", "async def"])
def test_one_that_crashed_is_started_again(hf: Holdfast, programs: Programs, define: str) -> None:
    programs.write(
        f"""
@hf.consumer("jobs", lease="1s")
{define} job(message, context):
    note("begin", message.body)
    if context.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    note("end", message.body)

hf.pool(job, max=1)
"""
    )
    hf.queue("jobs", backoff=None)
    hf.enqueue("jobs", 0)
    program = programs.start()
    eventually(lambda: programs.done() == once(1), "the next one has done it")
    first, second = programs.log("boot")[1:]
    assert first.pid != second.pid
    assert second.at - programs.log("begin")[0].at > 0.5
    assert program.said.count("pool job: a consumer was killed by signal 9") == 1
    assert hf.notices.list() == []


IMPORT_FAILS = """
if __name__ != "__main__":
    raise RuntimeError("broken on purpose")
"""

HANDLER_KILLS = """
    note("begin", message.body)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("module", "handler"), [(IMPORT_FAILS, "    pass"), ("", HANDLER_KILLS)], ids=["import", "handler"]
)
def test_a_crash_loop_is_given_up_and_the_owner_told_once(
    hf: Holdfast, programs: Programs, module: str, handler: str
) -> None:
    programs.write(
        f"""
{module}
@hf.consumer("jobs", lease="1m")
def job(message):
{handler}

hf.pool(job, min=1, max=1, max_crashes=3, owner="ops")
"""
    )
    hf.owner("ops")
    hf.enqueue_many("jobs", list(range(10)))
    program = programs.start()
    eventually(lambda: hf.notices.list("ops"), "the owner is told")
    leave_time(3)  # For further notices.
    [notice] = hf.notices.list()
    assert (notice.kind, notice.about, notice.owner, notice.repeats) == ("crash_loop", "job", "ops", 0)
    assert "3 consumers crashed within 60 s without having done anything" in notice.error
    assert len(hf.claim("ops.inbox", n=10)) == 1
    [_, first, second, third] = programs.log("boot")
    assert second.at - first.at > 0.5
    assert third.at - second.at > 1.0, "it waits longer each time"
    assert len(programs.log("begin")) == (3 if handler == HANDLER_KILLS else 0)
    assert internals(hf).store.seats.taken("default", "job") == []
    program.send(signal.SIGTERM)
    assert program.wait() == 0


def test_one_that_takes_too_long_to_start_has_crashed(hf: Holdfast, programs: Programs) -> None:
    programs.write(
        """
from holdfast.worker.pools import supervisor

supervisor.STARTING_TERM = 0.2
if __name__ != "__main__":
    time.sleep(0.5)

@hf.consumer("jobs")
def job(message):
    slowly(message, 0)

hf.pool(job, min=1, max=1, max_crashes=1)
"""
    )
    hf.enqueue("jobs", 0)
    program = programs.start()
    eventually(lambda: hf.notices.list(), "it is given up")
    assert "pool job: a consumer needed more than 60 s to start" in program.said
    assert "needed more than 60 s to start" in hf.notices.list()[0].error
    assert programs.log("begin") == []


def test_a_poison_message_is_the_only_one_that_dies(hf: Holdfast, programs: Programs) -> None:
    """It takes a consumer down with every attempt, more often than a pool may crash; the pool lives."""
    programs.write(
        """
@hf.consumer("jobs", lease="1s")
def job(message):
    note("begin", message.body)
    if message.body == "poison":
        os.kill(os.getpid(), signal.SIGKILL)
    note("end", message.body)

hf.pool(job, min=1, max=1, max_crashes=2, owner="ops")
"""
    )
    hf.owner("ops")
    hf.queue("jobs", max_attempts=4, backoff=None, owner="ops")
    hf.enqueue_many("jobs", [*range(5), "poison", *range(5, 10)])
    programs.start()
    eventually(
        lambda: hf.stats("jobs").dead == 1 and hf.stats("jobs").pending + hf.stats("jobs").processing == 0, "the end"
    )
    hf.enqueue("jobs", 10)
    eventually(lambda: set(programs.done()) == set(once(11)), "the pool lives")
    assert [letter.message.body for letter in hf.dead_letters.list("jobs")] == ["poison"]
    assert [one.body for one in programs.log("begin")].count("poison") == 4
    assert [notice.kind for notice in hf.notices.list()] == ["dead_letter"]


def test_a_pool_that_was_given_up_is_tried_again(hf: Holdfast, programs: Programs, tmp_path: Path) -> None:
    """With one consumer; and when that does its work, all is well.

    The first two crash, whatever they do; those after them wait for the cause to be mended. Nobody does all the work
    alone: who has ended one message waits until another has too.
    """
    mended = tmp_path / "mended"
    programs.write(
        f"""
import msgspec

@hf.consumer("jobs", lease="1m")
def job(message):
    if [line.split("\\t")[1] for line in noted("boot")].index(str(os.getpid())) <= 2:
        os.kill(os.getpid(), signal.SIGKILL)
    note("waits")
    until(lambda: os.path.exists({str(mended)!r}))
    others = [line.split("\\t")[1] for line in noted("end")]
    until(lambda: str(os.getpid()) not in others or len({{line.split("\\t")[1] for line in noted("end")}}) == 2)
    note("end", message.body)

pool = hf.pool(job, min=2, max=2, max_crashes=2, owner="ops")
pool.restarts = msgspec.structs.replace(pool.restarts, again=2.0)
"""
    )
    hf.owner("ops")
    hf.enqueue_many("jobs", list(range(30)))
    program = programs.start()
    eventually(lambda: hf.notices.list("ops"), "it is given up")
    eventually(lambda: programs.log("waits"), "and tried again")
    assert len(programs.log("boot")) > 3
    mended.touch()
    eventually(lambda: len({one.pid for one in programs.log("end")}) == 2, "both do their work")
    assert "pool job works again" in program.said
    [notice] = hf.notices.list("ops")
    assert (notice.kind, notice.repeats) == ("crash_loop", 0)


def test_without_a_guard_around_run_nothing_is_started_for_ever(hf: Holdfast, programs: Programs) -> None:
    programs.write(
        """
@hf.consumer("jobs")
def job(message):
    pass

hf.pool(job, min=1, max=1, max_crashes=2)
""",
        ending="hf.run()\n",
    )
    program = programs.start()
    eventually(lambda: hf.notices.list(), "someone is told")
    assert 'put hf.run() under  if __name__ == "__main__":' in program.said
    assert program.members == []


def test_consumers_that_end_on_an_empty_queue_have_not_crashed(hf: Holdfast, programs: Programs) -> None:
    """And are not started before there is work: said by the queue, which only the database knows."""
    programs.write(
        """
@hf.consumer("jobs")
def job(message):
    slowly(message, 0)

hf.pool(job, min=1, max=2, max_crashes=1)
"""
    )
    hf.queue("jobs", empty="terminate")
    program = programs.start()
    eventually(lambda: programs.log("boot"), "it runs")
    leave_time(1.5)
    assert len(programs.log("boot")) == 1
    for number in range(2):
        hf.enqueue("jobs", number)
        eventually(lambda: programs.done() == once(number + 1), "it is done")  # noqa: B023
        eventually(lambda: program.members == [], "its consumer has ended")
    assert len({one.pid for one in programs.log("end")}) == 2
    hf.queues.pause("jobs")
    hf.enqueue("jobs", 2)
    leave_time(1.2)
    assert len(programs.log("boot")) == 3, "what is paused is no work"
    assert hf.notices.list() == []
