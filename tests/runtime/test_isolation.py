"""Handlers in processes of their own: everything as in a thread, and they can be killed."""

import inspect
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, InvalidInput, State
from holdfast.events import HandlerStopped, MessageStarted
from holdfast.runtime.cell import CellContext
from holdfast.runtime.consumer import Consumer
from holdfast.runtime.context import Context
from tests.runtime import cells
from tests.runtime.steps import Calls, ended, until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def one(sqlite_path: Path) -> Iterator[Holdfast]:
    """A client of one store, for what has nothing to do with stores."""
    with Holdfast(f"sqlite:///{sqlite_path}") as client:
        yield client


def declare(hf: Holdfast, handler: Callable[..., Any], **options: Any) -> Consumer:
    return hf.consumer("q", isolation="process", **options)(handler)


def done(hf: Holdfast, message_id: str) -> Any:
    """The result of a message."""
    assert ended(hf, message_id) is State.SUCCEEDED
    return hf.status(message_id).result  # type: ignore[union-attr]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pids(note: Path) -> list[int]:
    """Who a `stuck` handler is, and what it started."""
    return [int(pid) for pid in until(lambda: note.exists() and note.read_text(), "the handler's note").split()]


def all_gone(running: list[int]) -> bool:
    return not any(map(is_running, running))


# --- as in a thread -----------------------------------------------------------------------------------------------


def test_a_result(hf: Holdfast) -> None:
    declare(hf, cells.double)
    sent = hf.enqueue("q", 21)
    with hf.running():
        assert done(hf, sent.id) == {"twice": 42}


def test_the_message_and_its_context_arrive_as_they_are(one: Holdfast) -> None:
    one.queue("q", max_attempts=7)
    declare(one, cells.tell_all, timeout=60)
    body = {"text": "ü\u2028\x00\n", "numbers": [1.5, 2**63, -0.0, 1e300], "deep": [[[None, True]]]}
    options = {"headers": {"h": [1]}, "key": "k", "correlation_id": "c", "reply_to": "r", "priority": 1, "ttl": 3600}
    sent = one.enqueue("q", body, **options)  # type: ignore[arg-type]
    message = one.status(sent.id).message  # type: ignore[union-attr]
    assert message is not None
    with one.running():
        told = done(one, sent.id)
    assert told.pop("deadline") == pytest.approx(time.time() + 60, abs=30)
    assert told == {
        "id": sent.id,
        "raw": [list(message.raw_id), message.raw_body.decode(), '{"h":[1]}'],
        "body": body,
        "headers": {"h": [1]},
        "key": "k",
        "correlation_id": "c",
        "reply_to": "r",
        "priority": 1,
        "times": [message.enqueued_at, message.expires_at],
        "context": ["q", 1, 7, False, sent.id],
    }


def test_bodies_have_the_type_of_their_queue(one: Holdfast) -> None:
    one.queue("q", message_type=cells.Letter)
    declare(one, cells.typed)
    sent = one.enqueue("q", {"to": "a@b.c"})
    with one.running():
        assert done(one, sent.id) == "a@b.c"


def test_a_type_that_cannot_be_found_is_a_failure_that_says_so(one: Holdfast) -> None:
    one.queue("q", message_type=list[cells.Letter], max_attempts=1)
    declare(one, cells.typed)
    sent = one.enqueue("q", [])
    with one.running():
        assert ended(one, sent.id) is State.DEAD
    assert "cannot be found by another process" in one.dead_letters("q")[0].error


@pytest.mark.parametrize(
    ("body", "state", "result"),
    [
        ("retry", State.SUCCEEDED, 2),
        ("snooze", State.SUCCEEDED, 1),
        ("snooze until", State.SUCCEEDED, 1),
        ("cancel", State.CANCELED, None),
        ("dead", State.DEAD, None),
    ],
)
def test_outcomes(one: Holdfast, body: str, state: State, result: Any) -> None:
    one.queue("q", backoff=3600, max_attempts=2)
    declare(one, cells.decide)
    sent = one.enqueue("q", body)
    with one.running():
        assert ended(one, sent.id) is state
    status = one.status(sent.id)
    assert status is not None
    assert status.result == result
    assert [letter.error for letter in one.dead_letters("q")] == (["no such address"] if body == "dead" else [])
    assert [failure.error for failure in status.history if body == "retry"] == (["not yet"] if body == "retry" else [])


@pytest.mark.parametrize(
    ("body", "attempts", "error"),
    [
        ("plain", 2, "RuntimeError: no luck"),
        ("permanent", 1, "cells.VeryBroken: for good"),
        ("unspeakable", 2, "Unspeakable: <exception str() failed>"),
        ("no json", 2, "result cannot be written as JSON"),
        ("exit", 2, "SystemExit: 3"),
    ],
)
def test_errors(one: Holdfast, body: str, attempts: int, error: str) -> None:
    one.queue("q", max_attempts=2, backoff=0)
    declare(one, cells.fail, permanent=[cells.Broken, ValueError])
    sent = one.enqueue("q", body)
    with one.running():
        assert ended(one, sent.id) is State.DEAD
    [letter] = one.dead_letters("q")
    assert error in letter.error
    assert letter.attempts == attempts
    if body == "plain":
        assert letter.error.startswith("Traceback")
        assert "in fail\n" in letter.error
        assert "process.py" not in letter.error


def test_what_follows_arrives_with_the_ack(hf: Holdfast) -> None:
    hf.queue("q", max_attempts=2, backoff=0)
    declare(hf, cells.split)
    two, three = hf.enqueue_many("q", [[1, 2], [3, 4, 5]])
    with hf.running():
        ids = done(hf, two.id) + done(hf, three.id)
    parts = hf.peek("parts")
    assert {message.id for message in parts} == set(ids)
    assert sorted(message.body for message in parts) == [1, 2, 3, 4, 5]
    assert {(message.key, message.priority) for message in parts} == {("k", 1)}


def test_errors_of_an_enqueue_are_raised_in_the_handler(one: Holdfast) -> None:
    one.queue("small", max_size=100)
    declare(one, cells.ask_nonsense)
    sent = one.enqueue("q", 1)
    with one.running():
        said = done(one, sent.id)
    assert [text.partition(" ")[0] for text in said] == [*["InvalidInput:"] * 4, "TooLarge:", "progress"]
    assert one.stats("small").pending == 0


def test_progress_is_seen_while_it_runs(one: Holdfast, tmp_path: Path) -> None:
    declare(one, cells.report)
    sent = one.enqueue("q", str(tmp_path / "go on"))
    with one.running() as runner:
        [worker] = runner.workers
        until(lambda: [work.work().progress for work in worker.running()] == [{"part": 0.5}])
        (tmp_path / "go on").touch()
        assert ended(one, sent.id) is State.SUCCEEDED


def test_what_a_handler_leaves_running_does_not_speak_for_the_next_message(one: Holdfast) -> None:
    declare(one, cells.leave_a_thread)
    _, second = one.enqueue_many("q", ["first", "second"])
    with one.running():
        assert done(one, second.id).startswith("the handler has ended, and its context with it")
    assert one.queues() == ["q"]


def test_middleware_and_events_stay_in_the_worker(one: Holdfast) -> None:
    calls = Calls()
    one.on(MessageStarted, lambda event: calls.note(event.id))

    @one.around_execute
    def around(context: Context, proceed: Callable[[], Any]) -> Any:
        calls.note(context.queue)
        result = proceed()
        calls.note(result)
        return {"around": result}

    declare(one, cells.double)
    sent = one.enqueue("q", 1)
    with one.running():
        assert done(one, sent.id) == {"around": {"twice": 2}}
    assert calls.seen == [sent.id, "q", {"twice": 2}]


def test_a_failure_passes_through_middleware(one: Holdfast) -> None:
    seen = []

    @one.around_execute
    def around(context: Context, proceed: Callable[[], Any]) -> Any:
        try:
            return proceed()
        except Exception as problem:
            seen.append(str(problem))
            return "mended"

    declare(one, cells.fail)
    first, second = one.enqueue_many("q", ["plain", "plain"])
    with one.running():
        assert (done(one, first.id), done(one, second.id)) == ("mended", "mended")
    assert seen[0].endswith("RuntimeError: no luck")


def test_a_context_has_the_same_names() -> None:
    def public(kind: type) -> dict[str, Any]:
        return {name: thing for name, thing in vars(kind).items() if inspect.isfunction(thing) and name[0] != "_"}

    inside, outside = public(CellContext), public(Context)
    verbs = {"on_cancel", "progress", "extend", "enqueue"}
    assert inside.keys() == verbs | {"halt"}
    for verb in verbs:
        assert inspect.signature(inside[verb]) == inspect.signature(outside[verb])


# --- processes ----------------------------------------------------------------------------------------------------


def test_as_many_processes_as_hands(one: Holdfast) -> None:
    declare(one, cells.pid, concurrency=3)
    sent = one.enqueue_many("q", range(30))
    with one.running():
        found = {done(one, receipt.id) for receipt in sent}
        assert len(found) == 3
        assert os.getpid() not in found
    assert all_gone([*found])


def test_a_process_is_used_for_many_messages(one: Holdfast) -> None:
    declare(one, cells.count)
    sent = one.enqueue_many("q", range(500))
    with one.running():
        assert [done(one, receipt.id) for receipt in sent] == list(range(1, 501))


def test_what_it_prints_goes_where_the_worker_prints(
    one: Holdfast, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    declare(one, cells.shout)
    sent = one.enqueue("q", 1)
    with one.running():
        assert ended(one, sent.id) is State.SUCCEEDED
        printed = capfd.readouterr()
    assert len(printed.out) == 1_000_001
    assert printed.err == "quietly\n"


def test_a_body_larger_than_any_pipe(one: Holdfast) -> None:
    one.queue("q", max_size=10_000_000)
    declare(one, cells.double)
    sent = one.enqueue("q", "x" * 3_000_000)
    with one.running():
        assert len(done(one, sent.id)["twice"]) == 6_000_000


def test_signals_for_everybody_are_left_to_the_worker(one: Holdfast) -> None:
    declare(one, cells.signals)
    sent = one.enqueue("q", 1)
    with one.running():
        assert done(one, sent.id) == -signal.SIGTERM


@pytest.mark.parametrize("hindrance", ["a lambda", "a local function", "a method", "an object", "no module"])
def test_what_no_other_process_could_find_is_refused(one: Holdfast, hindrance: str) -> None:
    def local(message: Any) -> None: ...

    class Thing:
        def method(self, message: Any) -> None: ...

        def __call__(self, message: Any) -> None: ...

    typed: dict[str, Any] = {"__name__": "nowhere"}
    exec("def handler(message): ...", typed)
    handlers = {
        "a lambda": lambda message: None,
        "a local function": local,
        "a method": cells.Broken("an object of a module's class").with_traceback,
        "an object": Thing(),
        "no module": typed["handler"],
    }
    with pytest.raises(InvalidInput, match=r'with isolation="process" the handler .* another process'):
        declare(one, handlers[hindrance], name="x")
    assert one._consumers == {}


# --- being killed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["sleep", "c", "clings"])
def test_a_timeout_kills_whatever_it_does(hf: Holdfast, tmp_path: Path, how: str) -> None:
    hf.queue("q", max_attempts=1)
    declare(hf, cells.stuck, timeout=1)
    sent = hf.enqueue("q", {"how": how, "note": str(tmp_path / "note")})
    with hf.running():
        running = pids(tmp_path / "note")
        assert ended(hf, sent.id) is State.DEAD
        assert all_gone(running)
    assert hf.dead_letters("q")[0].error == "timed out after 1 s"


def test_after_a_kill_another_process_goes_on(one: Holdfast, tmp_path: Path) -> None:
    one.queue("q", max_attempts=1)
    declare(one, cells.stuck, timeout=1)
    notes = [tmp_path / str(number) for number in range(3)]
    sent = one.enqueue_many("q", [{"how": "sleep", "note": str(note)} for note in notes])
    with one.running():
        assert [ended(one, receipt.id) for receipt in sent] == [State.DEAD] * 3
    assert len({pids(note)[0] for note in notes}) == 3


def test_a_lost_lease_kills_at_once(hf: Holdfast, tmp_path: Path) -> None:
    stops = Calls()
    hf.on(HandlerStopped, lambda event: stops.note(event.reason))
    declare(hf, cells.stuck, lease=5)
    sent = hf.enqueue("q", {"how": "clings", "note": str(tmp_path / "note")})
    with hf.running():
        running = pids(tmp_path / "note")
        assert hf.cancel(sent.id)
        until(lambda: all_gone(running))
        [reason] = stops.wait(1)
    assert "the lease was lost" in reason
    assert not (tmp_path / "note.told").exists()
    assert hf.status(sent.id).state is State.CANCELED  # type: ignore[union-attr]


def test_it_is_dead_before_a_lease_ends_that_cannot_be_renewed(
    one: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops = Calls()
    one.on(HandlerStopped, lambda event: stops.note(event.reason))
    declare(one, cells.stuck, lease=20)
    one.enqueue("q", {"how": "clings", "note": str(tmp_path / "note")})
    with one.running() as runner:
        running = pids(tmp_path / "note")
        monkeypatch.setattr(runner._renewal, "_renew", lambda worker, leases, term: None)
        [held] = runner.workers[0].ledger.held()
        held.renewed -= 16
        held.lease.until -= 16_000_000
        until(lambda: all_gone(running))
        assert time.monotonic() < held.ends
        [reason] = stops.wait(1)
    assert "could not be renewed" in reason


def test_a_handler_that_is_told_may_still_finish(
    one: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.runtime.process.WARNING", 30.0)
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
    [letter] = hf.dead_letters("q")
    assert [failure.error for failure in letter.history] == [error] * 3


@pytest.mark.parametrize("pipes", [False, True], ids=["alone", "with its pipes"])
def test_what_a_dead_process_has_started_is_ended_too(one: Holdfast, tmp_path: Path, pipes: bool) -> None:
    one.queue("q", max_attempts=1)
    declare(one, cells.leave_a_program)
    sent = one.enqueue("q", {"note": str(tmp_path / "note"), "pipes": pipes})
    with one.running():
        assert ended(one, sent.id) is State.DEAD
        until(lambda: all_gone(pids(tmp_path / "note")))
    assert one.dead_letters("q")[0].error == "the process of the handler ended: exit code 7"


def test_a_process_that_dies_between_two_messages_costs_no_attempt(one: Holdfast) -> None:
    one.queue("q", max_attempts=1)
    declare(one, cells.pid)
    with one.running() as runner:
        first = done(one, one.enqueue("q", 1).id)
        process = runner.workers[0].hands[0]._process  # type: ignore[attr-defined]
        os.kill(first, signal.SIGKILL)
        until(lambda: not process.is_free)
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
        until((tmp_path / "note").exists)
    assert done(hf, sent.id) == "finished"


def test_stopping_without_grace_kills(hf: Holdfast, tmp_path: Path) -> None:
    hf.queue("q", max_attempts=1)
    declare(hf, cells.stuck)
    sent = hf.enqueue("q", {"how": "clings", "note": str(tmp_path / "note")})
    with hf.running() as runner:
        running = pids(tmp_path / "note")
        assert runner.stop(grace=0)
    assert all_gone(running)
    assert ended(hf, sent.id) is State.DEAD
    assert hf.dead_letters("q")[0].error == "the worker had to stop while this was running"


def test_a_process_that_does_not_end_by_itself_is_ended(one: Holdfast) -> None:
    declare(one, cells.hangs_at_exit)
    sent = one.enqueue("q", 1)
    with one.running() as runner:
        assert ended(one, sent.id) is State.SUCCEEDED
        process = runner.workers[0].hands[0]._process._process  # type: ignore[attr-defined]
    until(lambda: process.poll() is not None)


def test_the_processes_end_when_the_worker_is_killed(sqlite_path: Path, tmp_path: Path) -> None:
    """Both: one that never lets another thread run, and one that sleeps; and what they have started."""
    url = f"sqlite:///{sqlite_path}"
    with Holdfast(url) as hf:
        for how in ("sleep", "c"):
            hf.enqueue("q", {"how": how, "note": str(tmp_path / how)})
    worker = subprocess.Popen([sys.executable, "-m", "tests.runtime.cells", url], cwd=ROOT)
    running: list[int] = []
    try:
        running = pids(tmp_path / "sleep") + pids(tmp_path / "c")
        assert all(map(is_running, running))
        worker.kill()
        worker.wait()
        started = time.monotonic()
        until(lambda: all_gone(running))
        assert time.monotonic() - started < 5.0
    finally:
        worker.kill()
        for pid in filter(is_running, running):
            os.kill(pid, signal.SIGKILL)


SCRIPT = """
import sys
from holdfast import Holdfast

hf = Holdfast(sys.argv[1])

class Wrong(Exception): ...

@hf.consumer("q", isolation="process", permanent=[Wrong], empty="terminate")
def handler(message, context):
    if message.body == "wrong":
        raise Wrong("for good")
    return [__name__, sys.argv[2:], message.body]
"""
GUARDED = SCRIPT + 'if __name__ == "__main__":\n    hf.run()\n'
UNGUARDED = SCRIPT + "hf.run()\n"


def run_script(folder: Path, text: str, url: str, *command: str) -> None:
    (folder / "program.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, *command, url, "--flag"], cwd=folder, env=environment, check=True, timeout=60)


@pytest.mark.parametrize(
    ("command", "name"), [(["program.py"], "__mp_main__"), (["-m", "program"], "program")], ids=["script", "module"]
)
def test_a_handler_in_the_program_itself(one: Holdfast, tmp_path: Path, command: list[str], name: str) -> None:
    wrong, right = one.enqueue_many("q", ["wrong", "right"])
    run_script(tmp_path, GUARDED, one.settings.url, *command)
    assert done(one, right.id) == [name, ["--flag"], "right"]
    assert ended(one, wrong.id) is State.DEAD
    assert one.dead_letters("q")[0].attempts == 1


def test_a_program_that_forgot_its_guard_is_told(one: Holdfast, tmp_path: Path) -> None:
    one.queue("q", max_attempts=1)
    sent = one.enqueue("q", 1)
    run_script(tmp_path, UNGUARDED, one.settings.url, "program.py")
    assert ended(one, sent.id) is State.DEAD
    assert 'put hf.run() under  if __name__ == "__main__":' in one.dead_letters("q")[0].error


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
        ("if not first:\n    raise ValueError('no import')\n", "could not start: Traceback (most recent call last)"),
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
    assert [error in failure.error for failure in one.dead_letters("q")[0].history] == [True, True]


def test_the_time_of_a_handler_begins_when_its_process_is_ready(
    one: Holdfast, module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IN_A_CELL", "")
    slow = module(f"{FIRST}import time\nif not first:\n    time.sleep(1.5)\ndef handler(message): return 'in time'\n")
    one.queue("q", max_attempts=1)
    declare(one, slow.handler, timeout=0.7)
    sent = one.enqueue("q", 1)
    with one.running():
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
        until((tmp_path / "begun").exists)
        started = time.monotonic()
        assert runner.stop(grace=30)
        assert time.monotonic() - started < 5
    status = one.status(sent.id)
    assert status is not None
    assert (status.state, status.attempts) == (State.PENDING, 0)
