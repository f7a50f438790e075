"""Handlers in processes of their own: everything as in a thread, wherever the handler is found."""

import inspect
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, InvalidInput, State
from holdfast.client.client import internals
from holdfast.events import MessageStarted
from holdfast.worker.context import Context
from holdfast.worker.executors import ipc
from holdfast.worker.executors.ipc import Border
from holdfast.worker.executors.process_child import Cell, CellContext
from tests.waiting import eventually
from tests.worker import cells
from tests.worker.isolation_steps import all_gone, declare, done
from tests.worker.steps import Calls, ended

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]

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
    before = time.time()
    with one.running():
        told = done(one, sent.id)
    deadline = datetime.fromisoformat(told.pop("deadline"))
    assert before + 59 < deadline.timestamp() < time.time() + 61
    assert told == {
        "id": sent.id,
        "raw": [list(message.raw_id), message.raw_body.decode(), '{"h":[1]}'],
        "body": body,
        "headers": {"h": [1]},
        "key": "k",
        "correlation_id": "c",
        "reply_to": "r",
        "priority": 1,
        "times": [message.enqueued_at_us, message.expires_at_us],
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
    assert "cannot be found by another process" in one.dead_letters.list("q")[0].error


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
    assert [letter.error for letter in one.dead_letters.list("q")] == (["no such address"] if body == "dead" else [])
    if body in ("retry", "cancel"):
        assert [line.error for line in status.history] == ["not yet" if body == "retry" else "nobody wants it"]


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
    [letter] = one.dead_letters.list("q")
    assert error in letter.error
    assert letter.attempts == attempts
    if body == "plain":
        assert letter.error == error
        assert letter.traceback is not None
        assert "in fail\n" in letter.traceback
        assert "process.py" not in letter.traceback


def test_what_follows_arrives_with_the_ack(hf: Holdfast) -> None:
    hf.queue("q", max_attempts=2, backoff=0)
    declare(hf, cells.split)
    two, three = hf.enqueue_many("q", [[1, 2], [3, 4, 5]])
    with hf.running():
        ids = done(hf, two.id) + done(hf, three.id)
    parts = hf.queues.peek("parts")
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
        eventually(lambda: [work.work().progress for work in worker.running()] == [{"part": 0.5}])
        (tmp_path / "go on").touch()
        assert ended(one, sent.id) is State.SUCCEEDED


def test_what_a_handler_leaves_running_does_not_speak_for_the_next_message(one: Holdfast) -> None:
    declare(one, cells.leave_a_thread)
    _, second = one.enqueue_many("q", ["first", "second"])
    with one.running():
        assert done(one, second.id).startswith("the handler has ended, and its context with it")
    assert one.queues.list() == ["q"]


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


OUR_OWN = {"consumer", "ends", "is_timed_out", "halt", "now", "work"}
"""What a context has for the runtime."""


def test_a_context_has_the_same_names() -> None:
    def public(kind: type) -> dict[str, Any]:
        return {name: thing for name, thing in vars(kind).items() if inspect.isfunction(thing) and name[0] != "_"}

    inside, outside = public(CellContext), public(Context)
    for verb in outside.keys() - OUR_OWN:
        assert inspect.signature(inside[verb]) == inspect.signature(outside[verb])


def test_a_context_knows_the_same() -> None:
    """Whatever can be read from one can be read from the other, or is ours: the runtime's."""
    outside = {name for name, thing in vars(Context).items() if isinstance(thing, property)} - OUR_OWN
    assert outside == {
        *("message", "queue", "attempt", "max_attempts", "step_key", "deadline", "session", "cancelled"),
    }
    work = ipc.HandlerWork(
        *(bytes(16), 0, b"1", None, None, None, None, None, None, 0, None),
        *("q", 1, 5, None),
    )
    inside = CellContext(Cell(Border(None)), work)  # type: ignore[arg-type]
    assert outside <= set(dir(inside))
    assert isinstance(vars(CellContext)["session"], property)
    assert vars(CellContext)["session"].fset is not None


def test_what_it_costs_and_what_is_kept_crosses_the_border(hf: Holdfast) -> None:
    """`spend`, `action`, `session` and `step_key`, with the errors of a thread."""
    hf.queue("q", max_attempts=2, backoff=0, max_repeats=3)
    declare(hf, cells.costs)
    sent = hf.enqueue("q", "twice")
    with hf.running():
        found = done(hf, sent.id)
    assert found["spent"] == [2.0, 5.5, 7.5, 11.0], "what the first attempt has spent stays spent"
    assert found["sessions"] == [None, "s-1", "s-2"]
    assert found["step key"] is None
    assert found["refused"] == [
        "what is spent must be a number from 0 to 1e15, not 'much'",
        "an action must be text that says what is done, not 7",
        "session must be text without NUL or lone surrogates, not 7",
    ]


@pytest.mark.parametrize(
    ("body", "error"),
    [("spend", "gave up (message_budget): "), ("act", "gave up (max_repeats): ")],
)
def test_it_is_given_up_like_any_other(one: Holdfast, body: str, error: str) -> None:
    one.queue("q", max_attempts=2, backoff=0, message_budget=10, max_repeats=3)
    declare(one, cells.waste)
    sent = one.enqueue("q", body)
    with one.running():
        assert ended(one, sent.id) is State.DEAD
    [letter] = one.dead_letters.list("q")
    assert (letter.error[: len(error)], letter.attempts) == (error, 1)


def test_the_budget_of_the_queue_pauses_it(one: Holdfast) -> None:
    one.queue("q", budget=10)
    declare(one, cells.waste)
    sent = one.enqueue("q", "spend")
    with one.running():
        eventually(lambda: one.queues.is_paused("q"), "the queue is paused")
        eventually(lambda: (found := one.status(sent.id)) and found.state is State.PENDING, "it is back")
    status = one.status(sent.id)
    assert status is not None
    assert status.attempts == 0


# --- processes ----------------------------------------------------------------------------------------------------


def test_as_many_processes_as_hands(one: Holdfast, tmp_path: Path) -> None:
    """The first messages wait until three processes are at work, however long each takes to start."""
    declare(one, cells.meet, concurrency=3)
    sent = one.enqueue_many("q", [str(tmp_path)] * 30)
    with one.running():
        found = {done(one, receipt.id) for receipt in sent}
        assert len(found) == 3
        assert os.getpid() not in found
    eventually(lambda: all_gone([*found]), "they end with their hands")


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
    assert internals(one).consumers.by_name == {}


# --- handlers of the program itself -------------------------------------------------------------------------------


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
    subprocess.run([sys.executable, *command, url, "--flag"], cwd=folder, env=environment, check=True, timeout=200)


@pytest.mark.parametrize(
    ("command", "name"), [(["program.py"], "__mp_main__"), (["-m", "program"], "program")], ids=["script", "module"]
)
def test_a_handler_in_the_program_itself(one: Holdfast, tmp_path: Path, command: list[str], name: str) -> None:
    wrong, right = one.enqueue_many("q", ["wrong", "right"])
    run_script(tmp_path, GUARDED, one.settings.url, *command)
    assert done(one, right.id) == [name, ["--flag"], "right"]
    assert ended(one, wrong.id) is State.DEAD
    assert one.dead_letters.list("q")[0].attempts == 1


def test_a_program_that_forgot_its_guard_is_told(one: Holdfast, tmp_path: Path) -> None:
    one.queue("q", max_attempts=1)
    sent = one.enqueue("q", 1)
    run_script(tmp_path, UNGUARDED, one.settings.url, "program.py")
    assert ended(one, sent.id) is State.DEAD
    assert 'put hf.run() under  if __name__ == "__main__":' in one.dead_letters.list("q")[0].error
