"""A program per message: however it is stopped, nothing of it is ever left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import ProgramFailed, exec_handler
from holdfast.worker.programs import run as programs
from tests.acceptance.children import ROOT
from tests.waiting import eventually
from tests.worker.attempts import Attempt, is_alive, run, sh
from tests.worker.steps import PATIENCE

pytestmark = [pytest.mark.usefixtures("temporary"), pytest.mark.of_queues, pytest.mark.above_the_stores]


class Running:
    """A program at work on a thread of its own, which says the numbers of its processes into a file."""

    def __init__(self, command: list[str], pids: Path, **options: Any) -> None:
        self.context, self._pids = Attempt(), pids
        self.problem: BaseException | None = None
        self.result: Any = None
        self._handler = exec_handler(command, env={"PIDS": str(pids)}, **options)
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        try:
            self.result = self._handler(self.context.message, self.context)
        except Exception as problem:
            self.problem = problem

    def pids(self, count: int) -> list[int]:
        """Waits until so many have said their numbers."""
        return eventually(lambda: said if len(said := self._said()) == count else None, "all have begun")

    def _said(self) -> list[int]:
        return [int(line) for line in self._pids.read_text().split("\n")[:-1]] if self._pids.exists() else []

    def join(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Running]:
    return lambda command, **options: Running(command, tmp_path / "pids", **options)


def assert_gone(pids: list[int]) -> None:
    for pid in pids:
        eventually(lambda pid=pid: not is_alive(pid), f"{pid} is gone")


def test_cancelling_sends_sigterm_to_all(start: Callable[..., Running]) -> None:
    running = start(sh('sleep 60 & echo $! >>"$PIDS"; trap "echo bye >&2; exit 0" TERM; echo $$ >>"$PIDS"; wait'))
    pids = running.pids(2)
    running.context.cancel()
    running.join()
    assert str(running.problem) == "sh was stopped before it had finished: bye"
    assert_gone(pids)


def test_who_ignores_sigterm_is_killed_after_the_grace(start: Callable[..., Running]) -> None:
    running = start(sh('trap "" TERM; echo $$ >>"$PIDS"; sleep 60 & sleep 60; wait'), stop_grace=0.3)
    pids = running.pids(1)
    cancelled = time.monotonic()
    running.context.cancel()
    running.join()
    assert time.monotonic() - cancelled >= 0.3
    assert "was stopped" in str(running.problem)
    assert_gone(pids)


def test_what_was_cancelled_before_does_not_begin(tmp_path: Path) -> None:
    context = Attempt()
    context.cancel()
    with pytest.raises(ProgramFailed, match="was not started"):
        run(sh("touch begun"), context=context, cwd=tmp_path)
    assert list(tmp_path.glob("begun")) == []


def test_what_is_cancelled_while_it_begins_ends_at_once() -> None:
    ended = programs.run(sh("sleep 3600"), env={}, out=programs.Head(10), on_cancel=lambda stop: stop())
    assert ended.stopped == "cancelled"


def test_a_thread_that_blocks_signals_does_not_make_programs_deaf(start: Callable[..., Running]) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        running = start(sh('trap "echo bye >&2; exit 1" TERM; echo $$ >>"$PIDS"; sleep 60 & wait'))
        running.pids(1)
        running.context.cancel()
        running.join()
        assert signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert str(running.problem) == "sh was stopped before it had finished: bye"


def test_a_late_cancel_touches_nothing() -> None:
    """By then the numbers of its pipes and of its process may be someone else's."""
    context = Attempt()
    assert run("echo done", context=context) == "done"
    end, other = os.pipe()
    os.set_blocking(end, False)
    context.cancel()
    with pytest.raises(BlockingIOError):
        os.read(end, 1)
    for file in (end, other):
        os.close(file)


def test_a_grandchild_that_holds_the_pipes_keeps_nobody_waiting(start: Callable[..., Running]) -> None:
    running = start(sh('(echo started; exec sleep 60) & echo $! >>"$PIDS"; echo result'))
    pids = running.pids(1)
    running.join()
    assert sorted(running.result.split()) == ["result", "started"]
    assert_gone(pids)


def test_one_that_left_the_group_does_not_either(start: Callable[..., Running]) -> None:
    running = start(
        sh('setsid sh -c \'echo $$ >>"$PIDS"; exec sleep 60\' & until [ -s "$PIDS" ]; do :; done; echo result')
    )
    [escaped] = running.pids(1)
    try:
        running.join()
        assert running.result == "result"
    finally:
        os.kill(escaped, signal.SIGKILL)


def test_what_is_still_in_the_pipe_of_a_slow_child_is_read() -> None:
    assert run(sh("(sleep 0.1; echo late) & echo early")) == "early\nlate"


def test_a_program_that_kills_its_group_harms_nobody_else() -> None:
    with pytest.raises(ProgramFailed, match="was killed by SIGKILL"):
        run(sh("kill -KILL 0"))
    with pytest.raises(ProgramFailed, match="was killed by SIGTERM"):
        run(sh("kill -TERM 0"))


def test_runs_leave_no_files_open_and_no_process(temporary: Path) -> None:
    def count() -> tuple[int, int, int]:
        children = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
        return len(os.listdir("/proc/self/fd")), threading.active_count(), sum(map(len, children))

    run("true")
    before = count()
    for _ in range(20):
        run("true")
    eventually(lambda: all(now <= then for now, then in zip(count(), before, strict=True)), "all is closed")


def test_nobody_but_the_program_holds_its_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise their end would never come, and every run would wait for it in vain: here, for an hour."""
    monkeypatch.setattr(programs, "DRAIN", 3600.0)
    assert run("true") is None


def test_a_run_with_a_timeout_is_stopped() -> None:
    ended = programs.run(sh("sleep 60"), env={}, out=programs.Head(10), timeout=0.1)
    assert (ended.stopped, ended.code) == ("timed out", -signal.SIGTERM)


WORKER = """
import os, sys, threading
from holdfast import exec_handler
from tests.worker.attempts import Attempt, sh
context = Attempt()
handler = exec_handler(sh(sys.argv[1]), env={"PIDS": sys.argv[2]})
work = threading.Thread(target=handler, args=(context.message, context))
work.start()
if sys.argv[3:] == ["forks"]:
    while not os.path.exists(sys.argv[2]):
        pass
    if os.fork() == 0:
        open(sys.argv[2] + ".forked", "w")
        sys.stdin.read()
        os._exit(0)
work.join()
"""


@pytest.mark.parametrize("options", [[], ["forks"]], ids=["alone", "forks"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
def test_a_program_dies_with_its_worker(
    tmp_path: Path, temporary: Path, number: signal.Signals, options: list[str]
) -> None:
    """By kill -9 too: with its children, and with its private folder; though it ignores whatever can be ignored."""
    pids = tmp_path / "pids"
    deaf = 'trap "" TERM HUP INT; kill -TERM 0; kill -HUP 0; kill -INT 0; '
    text = deaf + 'sleep 60 & echo $! >>"$PIDS"; echo $$ >>"$PIDS"; sleep 60; sleep 60'
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, text, str(pids), *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
    )
    try:
        said = lambda: pids.read_text().split() if pids.exists() else []  # noqa: E731
        family = [int(pid) for pid in eventually(lambda: said() if len(said()) == 2 else None, "it runs")]
        if options:
            eventually(pids.with_suffix(".forked").exists, "the worker has forked")
        assert all(map(is_alive, family))
        assert len(list(temporary.iterdir())) == 1
        worker.send_signal(number)
        worker.wait(PATIENCE)
        assert_gone(family)
        eventually(lambda: list(temporary.iterdir()) == [], "its folder is gone")
    finally:
        worker.kill()
        worker.wait()
        assert worker.stdin is not None
        worker.stdin.close()


FIRST_PROCESS = """
import ctypes, os
from holdfast import exec_handler
from tests.worker.attempts import Attempt, sh
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
context = Attempt()
for _ in range(3):
    exec_handler(sh("sleep 60 >/dev/null 2>&1 & echo done"))(context.message, context)
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("no one is left")
"""


def test_a_worker_that_inherits_orphans_buries_them() -> None:
    """As the first process of a container does: a zombie per message would fill its table."""
    answer = subprocess.run(
        [sys.executable, "-c", FIRST_PROCESS],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == "no one is left\n"
