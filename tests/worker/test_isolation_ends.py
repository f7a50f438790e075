"""Handlers in processes of their own: they can be killed, they may die, and they start and stop with their worker."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, State
from holdfast.events import HandlerStopped
from holdfast.worker.lease_renewal import HandlerWatch
from tests.waiting import eventually
from tests.worker import cells
from tests.worker.isolation_steps import all_gone, declare, done, is_running, pids
from tests.worker.steps import PATIENCE, Calls, ended, let_time_pass

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]

ROOT = Path(__file__).parents[2]

# --- being killed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["sleep", "c", "clings"])
def test_a_timeout_kills_whatever_it_does(hf: Holdfast, tmp_path: Path, how: str) -> None:
    hf.queue("q", max_attempts=1)
    declare(hf, cells.stuck, timeout=60)
    sent = hf.enqueue("q", {"how": how, "note": str(tmp_path / "note")})
    with hf.running() as runner:
        running = pids(tmp_path / "note")
        let_time_pass(runner)
        assert ended(hf, sent.id) is State.DEAD
        eventually(lambda: all_gone(running))
    assert hf.dead_letters.list("q")[0].error == "timed out after 60 s"


def test_after_a_kill_another_process_goes_on(one: Holdfast, tmp_path: Path) -> None:
    one.queue("q", max_attempts=1)
    declare(one, cells.stuck, timeout=3600)
    notes = [tmp_path / str(number) for number in range(3)]
    sent = one.enqueue_many("q", [{"how": "sleep", "note": str(note)} for note in notes])
    with one.running() as runner:
        for receipt, note in zip(sent, notes, strict=True):
            pids(note)
            let_time_pass(runner)
            assert ended(one, receipt.id) is State.DEAD
    assert len({pids(note)[0] for note in notes}) == 3


def test_a_lost_lease_kills_at_once(hf: Holdfast, tmp_path: Path) -> None:
    stops = Calls()
    hf.on(HandlerStopped, lambda event: stops.note(event.reason))
    declare(hf, cells.stuck, lease=60)
    sent = hf.enqueue("q", {"how": "clings", "note": str(tmp_path / "note")})
    with hf.running() as runner:
        running = pids(tmp_path / "note")
        assert hf.cancel(sent.id)
        [held] = runner.workers[0].ledger.held()
        held.renewed -= 30  # The next renewal is due, which learns of it.
        eventually(lambda: all_gone(running))
        [reason] = stops.wait(1)
    assert "the lease was lost" in reason
    assert not (tmp_path / "note.told").exists()
    assert hf.status(sent.id).state is State.CANCELED  # type: ignore[union-attr]


def test_it_is_dead_before_a_lease_ends_that_cannot_be_renewed(one: Holdfast, tmp_path: Path) -> None:
    """There is half a second for it, in which a busy machine may do something else: one of three has to be in time."""
    one.queue("q", lease=20, max_attempts=1)
    stops = Calls()
    one.on(HandlerStopped, lambda event: stops.note(event.reason))
    declare(one, cells.stuck, lease=20)
    assert any(dies_in_time(one, tmp_path / f"note{number}") for number in range(3))
    assert "could not be renewed" in stops.wait(1)[0]


def dies_in_time(one: Holdfast, note: Path) -> bool:
    one.enqueue("q", {"how": "clings", "note": str(note)})
    with one.running() as runner, pytest.MonkeyPatch.context() as patched:
        running = pids(note)
        patched.setattr(runner._renewal, "_renew", lambda worker, leases, term: None)
        [held] = runner.workers[0].ledger.held()
        held.renewed -= 16
        held.lease.until_us -= 16_000_000
        eventually(lambda: all_gone(running))
        return time.monotonic() < held.ends


def test_a_handler_that_is_told_may_still_finish(
    one: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.worker.executors.process.WARNING", 30.0)
    declare(one, cells.stop_when_told, timeout=0.3)
    sent = one.enqueue("q", str(tmp_path / "note"))
    with one.running():
        assert done(one, sent.id) == "stopped well"


# --- dying by itself ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "error"),
    [
        ("exit", "the process of the handler ended: exit code 7"),
        ("kill", "the process of the handler ended: killed by signal 9"),
    ],
)
def test_a_poison_message_takes_only_its_own_process_along(hf: Holdfast, way: str, error: str) -> None:
    hf.queue("q", max_attempts=3, backoff=0)
    declare(hf, cells.poison)
    sent = hf.enqueue_many("q", [way if number == 77 else number for number in range(200)])
    with hf.running():
        states = [ended(hf, receipt.id) for receipt in sent]
    assert [number for number, state in enumerate(states) if state is not State.SUCCEEDED] == [77]
    assert [hf.status(receipt.id).attempts for receipt in sent if receipt is not sent[77]] == [1] * 199  # type: ignore[union-attr]
    [letter] = hf.dead_letters.list("q")
    assert [failure.error for failure in letter.history] == [error] * 3


@pytest.mark.parametrize("pipes", [False, True], ids=["alone", "with its pipes"])
def test_what_a_dead_process_has_started_is_ended_too(one: Holdfast, tmp_path: Path, pipes: bool) -> None:
    one.queue("q", max_attempts=1)
    declare(one, cells.leave_a_program)
    sent = one.enqueue("q", {"note": str(tmp_path / "note"), "pipes": pipes})
    with one.running():
        assert ended(one, sent.id) is State.DEAD
        eventually(lambda: all_gone(pids(tmp_path / "note")))
    assert one.dead_letters.list("q")[0].error == "the process of the handler ended: exit code 7"


def test_a_process_that_dies_between_two_messages_costs_no_attempt(one: Holdfast) -> None:
    one.queue("q", max_attempts=1)
    declare(one, cells.pid)
    with one.running() as runner:
        first = done(one, one.enqueue("q", 1).id)
        process = runner.workers[0].hands[0]._process  # type: ignore[attr-defined]
        os.kill(first, signal.SIGKILL)
        eventually(lambda: not process.is_free)
        assert done(one, one.enqueue("q", 2).id) != first


def test_after_an_unexpected_error_of_the_worker_no_answer_is_taken_for_another(
    one: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    one.queue("q", max_attempts=1)
    declare(one, cells.echo)
    errors = iter([KeyError("in the middle of it")])
    with one.running() as runner:

        def note_progress() -> None:
            for error in errors:
                raise error

        monkeypatch.setattr(runner.workers[0], "on_progress", note_progress)
        first, second = one.enqueue_many("q", [1, 2])
        assert ended(one, first.id) is State.DEAD
        assert done(one, second.id) == 2


# --- starting and stopping ----------------------------------------------------------------------------------------


def test_stopping_lets_it_finish_within_the_grace(hf: Holdfast, tmp_path: Path) -> None:
    declare(hf, cells.slow)
    sent = hf.enqueue("q", str(tmp_path / "note"))
    with hf.running(grace=30):
        eventually((tmp_path / "note").exists)
    assert done(hf, sent.id) == "finished"


def test_stopping_without_grace_kills(hf: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.worker.runner.STUBBORN", PATIENCE)  # It is killed at once, or as soon as possible.
    hf.queue("q", max_attempts=1)
    declare(hf, cells.stuck)
    sent = hf.enqueue("q", {"how": "clings", "note": str(tmp_path / "note")})
    with hf.running() as runner:
        running = pids(tmp_path / "note")
        assert runner.stop(grace=0)
    eventually(lambda: all_gone(running))
    assert ended(hf, sent.id) is State.DEAD
    assert hf.dead_letters.list("q")[0].error == "the worker had to stop while this was running"


def test_a_process_that_does_not_end_by_itself_is_ended(one: Holdfast) -> None:
    declare(one, cells.hangs_at_exit)
    sent = one.enqueue("q", 1)
    with one.running() as runner:
        assert ended(one, sent.id) is State.SUCCEEDED
        process = runner.workers[0].hands[0]._process._process  # type: ignore[attr-defined]
    eventually(lambda: process.poll() is not None)


def test_the_processes_end_when_the_worker_is_killed(sqlite_path: Path, tmp_path: Path) -> None:
    """Both: one that never lets another thread run, and one that sleeps; and what they have started."""
    url = f"sqlite:///{sqlite_path}"
    with Holdfast(url) as hf:
        for how in ("sleep", "c"):
            hf.enqueue("q", {"how": how, "note": str(tmp_path / how)})
    worker = subprocess.Popen([sys.executable, "-m", "tests.worker.cells", url], cwd=ROOT)
    running: list[int] = []
    try:
        running = pids(tmp_path / "sleep") + pids(tmp_path / "c")
        assert all(map(is_running, running))
        worker.kill()
        worker.wait()
        eventually(lambda: all_gone(running))
    finally:
        worker.kill()
        for pid in filter(is_running, running):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Writes and imports a module of the test's own."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(text: str) -> Any:
        (tmp_path / "homemade.py").write_text(text)
        __import__("homemade")
        return sys.modules["homemade"]

    yield write
    sys.modules.pop("homemade", None)


def test_the_process_leaves_the_database_alone(one: Holdfast, module: Any, sqlite_path: Path) -> None:
    text = f"""
import os
from pathlib import Path
from holdfast import Holdfast
hf = Holdfast({one.settings.url!r})
@hf.consumer("q", isolation="process")
def handler(message):
    return [str(open.resolve()) for open in Path("/proc/self/fd").iterdir()]
"""
    with module(text).hf as hf:
        sent = hf.enqueue("q", 1)
        with hf.running():
            found = done(hf, sent.id)
    assert found
    assert not [path for path in found if str(sqlite_path.parent) in path]


FIRST = "import os\nfirst = not os.environ.get('IN_A_CELL')\nos.environ['IN_A_CELL'] = '1'\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("if not first:\n    raise ValueError('no import')\n", "could not start: ValueError: no import"),
        ("if not first:\n    os._exit(5)\n", "the process of the handler ended: exit code 5"),
        ("if not first:\n    del handler\n", "has no attribute 'handler'"),
    ],
)
def test_a_process_that_cannot_start_is_a_failed_attempt(
    one: Holdfast, module: Any, monkeypatch: pytest.MonkeyPatch, text: str, error: str
) -> None:
    monkeypatch.setenv("IN_A_CELL", "")
    one.queue("q", max_attempts=2, backoff=0)
    declare(one, module(f"{FIRST}def handler(message): ...\n{text}").handler)
    sent = one.enqueue("q", 1)
    with one.running():
        assert ended(one, sent.id) is State.DEAD
    assert [error in failure.error for failure in one.dead_letters.list("q")[0].history] == [True, True]


def test_the_time_of_a_handler_begins_when_its_process_is_ready(
    one: Holdfast, module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its start takes until someone lets it go on; a timeout that ran meanwhile would be over."""
    monkeypatch.setenv("IN_A_CELL", "")
    begun, go_on = tmp_path / "begun", tmp_path / "go on"
    waits = f"    open({str(begun)!r}, 'w').close()\n    while not os.path.exists({str(go_on)!r}): time.sleep(0.01)\n"
    slow = module(f"{FIRST}import time\nif not first:\n{waits}def handler(message): return 'in time'\n")
    one.queue("q", max_attempts=1)
    declare(one, slow.handler, timeout=60)
    sent = one.enqueue("q", 1)
    rounds, look = Calls(), HandlerWatch.round
    monkeypatch.setattr(HandlerWatch, "round", lambda watch, now: (look(watch, now), rounds.note(1))[0])
    with one.running() as runner:
        eventually(begun.exists, "the process starts")
        let_time_pass(runner)
        for held in runner.workers[0].ledger.held():
            for context in held.contexts:
                context.started -= 7200
        rounds.wait(len(rounds.seen) + 2)
        go_on.touch()
        assert done(one, sent.id) == "in time"


def test_stopping_does_not_wait_for_a_start(
    one: Holdfast, module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IN_A_CELL", "")
    begun = f"open({str(tmp_path / 'begun')!r}, 'w').close()"
    slow = module(f"{FIRST}import time\ndef handler(message): ...\nif not first:\n    {begun}\n    time.sleep(1000)\n")
    declare(one, slow.handler)
    sent = one.enqueue("q", 1)
    with one.running() as runner:
        eventually((tmp_path / "begun").exists)
        assert runner.stop(grace=PATIENCE), "it would take a thousand seconds"
    status = one.status(sent.id)
    assert status is not None
    assert (status.state, status.attempts) == (State.PENDING, 0)
