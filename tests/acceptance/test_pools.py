"""Pools with real processes: they grow, shrink, crash, are killed; nothing is lost, and never more run than may."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import Holdfast
from tests.acceptance.programs import Programs, Watching, soon

BOTH = pytest.mark.parametrize("db", ["sqlite", "postgres"], indirect=True)

QUICK = 'min=1, max=3, scale_up_depth=5, scale_down_depth=1, cooldown="300ms"'


@pytest.fixture
def db(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if getattr(request, "param", "sqlite") == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/work.db"


@pytest.fixture
def hf(db: str, connect: Callable[..., Holdfast]) -> Holdfast:
    client = connect(db)
    client.queues()
    return client


@pytest.fixture
def programs(tmp_path: Path, db: str) -> Iterator[Programs]:
    found = Programs(tmp_path, db)
    yield found
    found.end()


def once(count: int, first: int = 0) -> dict[str, int]:
    """Every one of so many messages, once."""
    return {str(number): 1 for number in range(first, first + count)}


@BOTH
def test_it_grows_under_load_and_shrinks_without_killing(hf: Holdfast, programs: Programs) -> None:
    """The last messages take longer than the grace: those who are drained finish them nevertheless."""
    programs.write(
        f"""
@hf.consumer("jobs", lease="5s")
def job(message):
    slowly(message, 2.5 if message.body >= 40 else 0.02)

hf.pool(job, {QUICK})
"""
    )
    hf.enqueue_many("jobs", list(range(43)))
    with Watching(hf, "job") as seats:
        program = programs.start(APP_GRACE="300ms")
        soon(lambda: seats.now == 3, "three consumers")
        soon(lambda: len([one for one in hf.consumers() if one.pool == "job"]) == 3, "all of them say so")
        soon(lambda: programs.done() == once(43), "all is done")
        soon(lambda: seats.now == 1, "it has become calm")
        soon(lambda: len(program.members) == 1, "the others have ended")
        program.send(signal.SIGTERM)
        assert program.wait() == 0
    assert max(seats.seen) == 3
    assert programs.most_at_once() <= 3
    assert len(programs.log("begin")) == 43, "nothing was begun twice"
    assert seats.now == 0
    assert (hf.stats("jobs").pending, hf.stats("jobs").processing, hf.notices()) == (0, 0, [])
    assert "crash" not in program.said


def test_a_few_messages_that_wait_for_long_are_a_backlog(hf: Holdfast, programs: Programs) -> None:
    programs.write(
        """
@hf.consumer("jobs")
def job(message):
    slowly(message, 4)

hf.pool(job, max=2, scale_up_depth=100, scale_up_age="1s", cooldown="100ms")
"""
    )
    hf.enqueue("jobs", "later", delay="1h")
    hf.enqueue_many("jobs", [0, 1])
    programs.start()
    soon(lambda: len({one.pid for one in programs.log("begin")}) == 2, "a second consumer, for the second message")
    assert programs.log("end") == []


def test_one_that_crashed_is_started_again(hf: Holdfast, programs: Programs) -> None:
    programs.write(
        """
@hf.consumer("jobs", lease="1s")
def job(message, context):
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
    soon(lambda: programs.done() == once(1), "the next one has done it")
    first, second = programs.log("boot")[1:]
    assert first.pid != second.pid
    assert second.at - programs.log("begin")[0].at > 0.5
    assert program.said.count("pool job: a consumer was killed by signal 9") == 1
    assert hf.notices() == []


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
    soon(lambda: hf.notices("ops"), "the owner is told")
    time.sleep(3)
    [notice] = hf.notices()
    assert (notice.kind, notice.about, notice.owner, notice.repeats) == ("crash_loop", "job", "ops", 0)
    assert "3 consumers crashed within 60 s" in notice.error
    assert len(hf.claim("ops.inbox", n=10)) == 1
    [_, first, second, third] = programs.log("boot")
    assert second.at - first.at > 0.5
    assert third.at - second.at > 1.0, "it waits longer each time"
    assert len(programs.log("begin")) == (3 if handler == HANDLER_KILLS else 0)
    assert hf.store.seats.taken("default", "job") == []
    program.send(signal.SIGTERM)
    assert program.wait() == 0


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
    soon(lambda: hf.notices(), "someone is told")
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
    soon(lambda: programs.log("boot"), "it runs")
    time.sleep(1.5)
    assert len(programs.log("boot")) == 1
    for number in range(2):
        hf.enqueue("jobs", number)
        soon(lambda: programs.done() == once(number + 1), "it is done")  # noqa: B023
        soon(lambda: program.members == [], "its consumer has ended")
    assert len({one.pid for one in programs.log("end")}) == 2
    hf.pause("jobs")
    hf.enqueue("jobs", 2)
    time.sleep(1.2)
    assert len(programs.log("boot")) == 3, "what is paused is no work"
    assert hf.notices() == []


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
    slowly(message, 0.3)

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
    program.send(signal.SIGTERM)
    assert program.wait(15) == 0
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
    assert program.wait(20) == 0
    assert programs.log("begin") == []
    assert hf.store.seats.taken("default", "job") == []
    assert hf.notices() == []
    assert "Traceback" not in program.said
    assert "crash" not in program.said


def test_members_may_be_threads(hf: Holdfast, programs: Programs) -> None:
    programs.write(
        f"""
@hf.consumer("jobs")
def job(message):
    slowly(message, 2.5 if message.body >= 20 else 0.1)

hf.pool(job, name="crew", members="thread", {QUICK})
"""
    )
    hf.enqueue_many("jobs", list(range(23)))
    with Watching(hf, "crew") as seats:
        program = programs.start(APP_GRACE="300ms")
        soon(lambda: [one.pool for one in hf.consumers()] == ["crew"] * 3, "three consumers")
        soon(lambda: programs.done() == once(23), "all is done")
        soon(lambda: seats.now == 1, "it has become calm")
        program.send(signal.SIGTERM)
        assert program.wait() == 0
    assert max(seats.seen) == 3
    assert {one.pid for one in programs.log()} == {program.process.pid}
    assert len(programs.log("begin")) == 23, "draining interrupts nobody"
    assert seats.now == 0


def test_a_tier_takes_only_what_is_for_it(hf: Holdfast, programs: Programs) -> None:
    programs.write(
        """
@hf.consumer("easy", labels={"tier": "haiku"})
def drone(message):
    slowly(message, 0.5)

hf.pool(drone, max=2, scale_up_depth=5, scale_down_depth=1, cooldown="100ms")
"""
    )
    hf.queue("easy", requires={"tier": "haiku"})
    hf.queue("hard", requires={"tier": "opus"})
    hf.queue("more")
    hf.enqueue_many("hard", list(range(100, 130)))
    hf.attach("drone", "hard")
    hf.attach("drone", "more")
    with Watching(hf, "drone") as seats:
        programs.start()
        hf.enqueue("easy", 0)
        soon(lambda: programs.done() == once(1), "what it is for")
        time.sleep(1)
        assert max(seats.seen) == 1, "what others have to do is no reason to grow"
        hf.enqueue_many("more", list(range(1, 9)))
        soon(lambda: seats.now == 2, "the depth of an attached queue is")
        soon(lambda: programs.done() == once(9), "that is done too")
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
    soon(lambda: programs.done() == once(1), "the other one works")
    time.sleep(1)
    [notice] = hf.notices()
    assert (notice.kind, notice.about, notice.owner, notice.repeats) == ("preflight", "lame", "ops", 0)
    assert "there is no key" in notice.error
    assert {one.consumer for one in hf.consumers()} == {"fit"}
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
    soon(lambda: len(programs.log("begin")) == 2, "both have begun")
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
    soon(lambda: (found := hf.status(sent.id)) is not None and found.state == "succeeded", "it is done")
    found = hf.status(sent.id)
    assert found is not None
    assert found.result == {"a": 1}
