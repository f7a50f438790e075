"""`holdfast work` under a service manager: what it tells systemd, over a real datagram socket."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.worker.maintenance.leader import Keeper
from holdfast.worker.runner import Runner
from holdfast.worker.sd_notify import Notifier
from holdfast.worker.worker import Worker
from tests.cli.commands import command, environment
from tests.manager import Manager
from tests.waiting import eventually, leave_time

APP = """
import os, subprocess, sys, time

from holdfast import Holdfast

hf = Holdfast(os.environ["APP_DB"])


@hf.consumer("emails")
def send(message):
    print("begin", flush=True)
    subprocess.run(["sh", "-c", "echo sees ${NOTIFY_SOCKET-${WATCHDOG_USEC-${WATCHDOG_PID-none of it}}}"])
    time.sleep(message.body)
    print("end", flush=True)
"""

ASYNC = """
import asyncio, os

from holdfast import AsyncHoldfast

hf = AsyncHoldfast(os.environ["APP_DB"])


@hf.consumer("emails")
async def send(message):
    print("begin", flush=True)
    print("sees none of it", flush=True)
    await asyncio.sleep(message.body)
    print("end", flush=True)
"""

DEAD_MAINTENANCE = """
from holdfast.worker.maintenance.leader import Keeper

Keeper._run = lambda self: None
"""

DEAD_CLAIMS = """
from holdfast.worker.worker import Worker


def turn(self, bell):
    raise SystemExit("the claim loop dies")


Worker._turn = turn
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def db(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/work.db"


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    with Manager(str(tmp_path / "notify")) as manager:
        yield manager


@pytest.fixture
def start(db: str, tmp_path: Path) -> Iterator[Start]:
    running: list[subprocess.Popen[str]] = []

    def start(program: str, **more: str) -> subprocess.Popen[str]:
        (tmp_path / "app.py").write_text(program)
        process = subprocess.Popen(
            command("work", "app:hf"),
            cwd=tmp_path,
            env={**environment(tmp_path), "APP_DB": db, **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


# --- what a worker says -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", [APP, ASYNC], ids=["threads", "asyncio"])
def test_it_is_ready_pings_during_a_long_handler_and_tells_that_it_drains(
    db: str, manager: Manager, start: Start, program: str
) -> None:
    with Holdfast(db) as hf:
        hf.enqueue("emails", 2)
        process = start(program, **manager.environment(watchdog=0.4))
        assert manager.next() == ["READY=1", "STATUS=Running 1 consumer(s): send."]
        assert said(process) == "begin\n"
        assert said(process) == "sees none of it\n", "programs that it starts do not notify"
        manager.rest()
        pings = [manager.next() for _ in range(4)]  # Twice as long as the watchdog waits for one.
        assert pings == [["WATCHDOG=1"]] * 4
        process.send_signal(signal.SIGTERM)
        assert manager.until("STOPPING=1")[1] == "STATUS=Draining: handlers have 30 s to finish."
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert out.endswith("end\n")
        assert [message for message in manager.rest() if message != ["WATCHDOG=1"]] == []
        assert hf.stats("emails").pending == hf.stats("emails").processing == 0


def test_pings_that_another_process_is_to_send_are_not_ours(manager: Manager, start: Start) -> None:
    process = start(APP, **manager.environment(watchdog=0.2), WATCHDOG_PID=str(os.getpid()))
    manager.until("READY=1")
    leave_time(0.5)  # For pings that should not come.
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert [message[0] for message in manager.rest()] == ["STOPPING=1"]


# --- when it stops pinging --------------------------------------------------------------------------------------------


def test_dead_maintenance_ends_the_pings(manager: Manager, start: Start) -> None:
    process = start(APP + DEAD_MAINTENANCE, **manager.environment(watchdog=0.4))
    assert manager.next()[0] == "READY=1"
    manager.until("STATUS=Stuck: holdfast-maintenance has ended")
    leave_time(0.5)  # For a ping that should not come.
    process.kill()
    _, errors = process.communicate(timeout=60)
    assert manager.rest() == []
    assert errors.count("holdfast-maintenance has ended; the watchdog is not pinged any more") == 1


def test_a_dead_claim_loop_ends_the_pings_or_the_process(manager: Manager, start: Start) -> None:
    """While another consumer runs, one's death ends the pings; after the last one, the process ends with 1."""
    other = '\n\n@hf.consumer("bills", name="bill")\ndef bill(message):\n    pass\n\n'
    only_send = DEAD_CLAIMS.replace(
        "    raise", '    if self.consumer.name == "bill":\n        return live(self, bell)\n    raise'
    )
    process = start(
        APP + other + only_send.replace("def turn", "live = Worker._turn\n\n\ndef turn"),
        **manager.environment(watchdog=0.4),
    )
    manager.until("STATUS=Stuck: consumer send has failed")
    process.kill()
    alone = start(APP + DEAD_CLAIMS)
    _, errors = alone.communicate(timeout=60)
    assert (alone.returncode, "consumer send has failed" in errors) == (1, True)


def test_loops_that_hang_are_named(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    monkeypatch.setattr("holdfast.worker.maintenance.leader.LOOK_EVERY", 0.05)
    with Holdfast(db, patience=1) as hf:
        hf.consumer("emails", name="send")(lambda message: None)
        hf.pool(hf.consumer("bills", name="bill")(lambda message: None), members="thread")
        with hf.running() as runner, Runner(hf, [], 0) as server:
            assert runner.stuck() is None
            assert server.stuck() is None
            loops = (runner.workers[0], runner.supervisors[0], runner._keeper, server._keeper)
            began = [loop.turned_at for loop in loops]
            hf.enqueue("emails", "wake up")
            eventually(
                lambda: all(loop.turned_at > then for loop, then in zip(loops, began, strict=True)), "all of them turn"
            )
            assert runner.failed() == []
            monkeypatch.setattr(Worker, "_turn", lambda *_: not go_on.wait())
            monkeypatch.setattr(Keeper, "_look", lambda *_: float(go_on.wait()))
            monkeypatch.setattr("holdfast.worker.runner.SLACK", -2.0)
            hf.enqueue("emails", "wake up")
            eventually(
                lambda: runner.stuck() == "consumer send has not claimed or settled anything for 2 s", "claiming hangs"
            )
            eventually(lambda: server.stuck() == "maintenance hangs for 2 s", "maintenance hangs")
            go_on.set()


# --- the protocol -----------------------------------------------------------------------------------------------------


def test_an_abstract_socket_begins_with_an_at_sign() -> None:
    name = f"holdfast-test-{os.getpid()}"
    with Manager(f"\0{name}") as manager:
        Notifier(f"@{name}").ready("Here.")
        assert manager.next() == ["READY=1", "STATUS=Here."]


def test_a_reload_is_told_with_its_time_and_nothing_follows_a_stop(manager: Manager) -> None:
    notifier = Notifier(manager.address)
    notifier.reloading("too early")
    notifier.ready("Works.")
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000
    notifier.reloading("Reloads\na file.")
    notifier.stopping("Ends.")
    notifier.ready("late")
    notifier.reloading("late")
    notifier.stopping("again")
    assert manager.next() == ["READY=1", "STATUS=Works."]
    reloading, moment, status = manager.next()
    assert (reloading, status) == ("RELOADING=1", "STATUS=Reloads a file.")
    assert before <= int(moment.removeprefix("MONOTONIC_USEC=")) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000
    assert manager.next() == ["STOPPING=1", "STATUS=Ends."]
    assert manager.rest() == []


def test_a_manager_that_is_gone_disturbs_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Notifier(str(tmp_path / "nobody")).ready("Works.")
    assert "could not notify systemd" in caplog.text


def test_the_variables_are_taken_out_of_the_environment() -> None:
    mine = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "4000000", "WATCHDOG_PID": str(os.getpid()), "PATH": "/bin"}
    notifier = Notifier.from_environment(mine)
    assert (mine, notifier.is_watched, notifier.pause) == ({"PATH": "/bin"}, True, 0.5)
    for strange in ({"WATCHDOG_USEC": "9"}, {"NOTIFY_SOCKET": "/x"}, {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "soon"}):
        assert not Notifier.from_environment(strange).is_watched
