"""A program per message: what it gets, what becomes of what it says, and that nothing of it is ever left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import InvalidInput, PreflightFailed, ProgramFailed, exec_handler
from holdfast.outcomes import DeadLetter, Retry
from holdfast.runtime import programs
from holdfast.runtime.environment import inherited
from tests.acceptance.children import ROOT, eventually
from tests.runtime.attempts import Attempt, is_alive, python, sh


def run(command: Any, body: Any = None, context: Attempt | None = None, **options: Any) -> Any:
    """One message through one program."""
    context = context or Attempt(body)
    return exec_handler(command, **options)(context.message, context)


def environment_of(context: Attempt, **options: Any) -> dict[str, str]:
    found = run(python("import json, os; print(json.dumps(dict(os.environ)))"), context=context, **options)
    assert isinstance(found, dict)
    return found


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the private folders are made; every test leaves it empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


# --- what it gets -----------------------------------------------------------------------------------------------------


def test_the_body_is_on_stdin_and_in_a_file() -> None:
    program = (
        "import json, os, sys; print(json.dumps([json.load(sys.stdin), open(os.environ['HOLDFAST_BODY_FILE']).read()]))"
    )
    body = {"to": "ädä", "n": [1, 2]}
    assert run(python(program), body) == [body, '{"to":"ädä","n":[1,2]}']


def test_everything_else_is_in_variables() -> None:
    context = Attempt(1, session="s-1", attempt=3, trace="t1")
    found = environment_of(context)
    assert {name: found[name] for name in found if name.startswith("HOLDFAST_") and "FILE" not in name} == {
        "HOLDFAST_ID": context.message.id,
        "HOLDFAST_QUEUE": "drones",
        "HOLDFAST_ATTEMPT": "3",
        "HOLDFAST_MAX_ATTEMPTS": "5",
        "HOLDFAST_DEADLINE": "1900000000.250",
        "HOLDFAST_SESSION": "s-1",
        "HOLDFAST_HEADERS": '{"trace":"t1"}',
    }
    assert found["PATH"] == os.environ["PATH"]


def test_headers_too_long_for_a_variable_are_in_their_file() -> None:
    context = Attempt(1, long="x" * 200_000)
    text = run(
        ["/bin/sh", "-c", 'printf %s "${HOLDFAST_HEADERS-none}"; wc -c <"$HOLDFAST_HEADERS_FILE"'], context=context
    )
    assert text == f"none{len(context.message.raw_headers or b'')}"


def test_its_folder_is_private_and_gone_afterwards(temporary: Path) -> None:
    path, mode = run(sh('d=$(dirname "$HOLDFAST_BODY_FILE"); echo "$d"; stat -c %a "$d"')).split()
    assert (Path(path).parent, mode) == (temporary, "700")
    with pytest.raises(ProgramFailed):
        run(sh("exit 3"))
    assert list(temporary.iterdir()) == []


def test_secrets_of_holdfast_are_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://app:s3cret@db.example:5432/app?sslmode=require"
    monkeypatch.setenv("HOLDFAST_DB", url)
    monkeypatch.setenv("HOLDFAST_TOKEN", "t0ken")
    monkeypatch.setenv("DATABASE_URL", "postgresql+psycopg://app:s3cret@db.example:5432/app")
    monkeypatch.setenv("PGPASSWORD", "s3cret")
    monkeypatch.setenv("OTHER_DB", "postgresql://app:other@db.example:5432/other")
    monkeypatch.setenv("FEEDS", "sqlite:///work.db and more")
    text = json.dumps(environment_of(Attempt(), secrets=["sqlite:///work.db"]))
    assert [word for word in ("s3cret", "t0ken", "work.db") if word in text] == []
    assert "app:other@" in text
    assert environment_of(Attempt(), env={"HOLDFAST_DB": url})["HOLDFAST_DB"] == url


def test_a_client_whose_file_has_a_short_name_hides_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEEDS", "quick")
    assert inherited(["sqlite:///q", ""])["FEEDS"] == "quick"


def test_the_leash_changes_no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("folder", "input", "_x", "command"):
        monkeypatch.setenv(name, "mine")
    found = environment_of(Attempt())
    assert [found[name] for name in ("folder", "input", "_x", "command")] == ["mine"] * 4


def test_it_begins_with_three_files_and_no_child() -> None:
    program = """
import errno, os
try:
    os.waitpid(-1, os.WNOHANG)
    children = True
except ChildProcessError:
    children = False
print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:3], len(os.listdir('/proc/self/fd')), children)
"""
    assert run(python(program)) == "[0, 1, 2] 4 False"


@pytest.mark.parametrize(
    "body",
    [
        "; touch owned",
        "$(touch owned)",
        "`touch owned`",
        "'\"; touch owned; '",
        "--help",
        "a\nb",
        "\0",
        "-n",
        "%s%n",
        "\\",
    ],
)
def test_a_body_never_reaches_a_command_line(body: str, tmp_path: Path) -> None:
    program = "import json, sys; print(json.dumps([sys.argv[1:], json.load(sys.stdin)]))"
    context = Attempt(body, session="; touch owned", name=body)
    assert run(python(program), context=context, cwd=tmp_path) == [[], body]
    assert run("cat; :", body, shell=True, cwd=tmp_path) == body
    assert not (tmp_path / "owned").exists()


def test_a_command_is_split_into_words_and_not_given_to_a_shell(tmp_path: Path) -> None:
    assert run("printf '%s,' 'a b' ';' '$HOME' '*'", cwd=tmp_path) == "a b,;,$HOME,*,"
    assert run("echo $((1 + 1)) | cat", shell=True) == 2


def test_a_program_may_be_named_by_a_path_below_its_folder(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\npwd")
    (tmp_path / "tool").chmod(0o700)
    assert run("./tool", cwd=tmp_path) == str(tmp_path)
    assert run("tool", cwd=tmp_path, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}) == str(tmp_path)


# --- what it says -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "result"),
    [
        ('{"a": [1, null]}\n', {"a": [1, None]}),
        ("42", 42),
        ("", None),
        ("\n", None),
        ("two words\n", "two words"),
        ('{"a": 1} {"b": 2}\n', '{"a": 1} {"b": 2}'),
        ("NaN", "NaN"),
        ("9" * 30, "9" * 30),
        ("[" * 5000 + "]" * 5000, "[" * 5000 + "]" * 5000),
    ],
)
def test_what_it_prints_is_the_result(printed: str, result: Any) -> None:
    assert run(python("import sys; sys.stdout.write(sys.argv[1])", printed)) == result


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    assert run(sh(r"printf 'a\377b\000c'")) == "a\ufffdb\0c"


def test_a_result_may_be_written_to_a_file_instead() -> None:
    assert run(sh('echo chatter; echo \'{"ok": true}\' >"$HOLDFAST_RESULT_FILE"')) == {"ok": True}


@pytest.mark.parametrize("trick", ["mkfifo", "mkdir", "ln -s /etc/passwd"])
def test_what_is_no_plain_file_is_no_result(trick: str) -> None:
    assert run(sh(f'{trick} "$HOLDFAST_RESULT_FILE"; {trick} "$HOLDFAST_SESSION_FILE"; echo printed')) == "printed"


def test_a_long_result_is_cut_and_says_so() -> None:
    assert run(sh("printf 1234567890"), result_limit=4) == "1234\n[cut: 4 of 10 bytes]"
    assert run(sh('printf 1234567890 >"$HOLDFAST_RESULT_FILE"'), result_limit=4) == "1234\n[cut: 4 of 10 bytes]"


def test_a_hundred_megabytes_on_both_pipes_do_not_fill_the_memory() -> None:
    tracemalloc.start()
    with pytest.raises(ProgramFailed) as failed:
        run(sh("yes | head -c 50000000 & yes error | head -c 50000000 >&2; wait; echo the end >&2; exit 1"))
    result = run(sh("yes | head -c 100000000"))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.endswith("[cut: 65,536 of 100,000,000 bytes]")
    assert str(failed.value).endswith("the end")
    assert len(str(failed.value)) < 8_100
    assert most < 1_000_000


def test_a_program_need_not_read_its_stdin() -> None:
    assert run(sh("exec <&-; echo fine"), "x" * 1_000_000) == "fine"


# --- how it ends ------------------------------------------------------------------------------------------------------


def test_an_exit_code_is_an_error_with_the_end_of_stderr() -> None:
    with pytest.raises(ProgramFailed, match=r"^sh ended with code 3: no such order$"):
        run(sh("echo ignored; echo no such order >&2; exit 3"))
    with pytest.raises(ProgramFailed, match=r"^sh ended with code 1, without a word$"):
        run(sh("exit 1"))


def test_only_the_end_of_stderr_is_shown() -> None:
    with pytest.raises(ProgramFailed, match=r"^sh ended with code 1: 789$"):
        run(sh("printf 123456789 >&2; exit 1"), error_limit=3)


def test_a_signal_is_an_error() -> None:
    with pytest.raises(ProgramFailed, match=r"^sh was killed by SIGSEGV: oh$"):
        run(sh("echo oh >&2; kill -SEGV $$"))


def test_some_codes_are_for_ever() -> None:
    with pytest.raises(DeadLetter, match=r"^sh ended with code 4: never$"):
        run(sh("echo never >&2; exit 4"), permanent_codes=[4, 65])
    with pytest.raises(ProgramFailed):
        run(sh("exit 5"), permanent_codes=[4, 65])


def test_one_code_asks_for_another_try() -> None:
    with pytest.raises(Retry) as asked:
        run(sh("echo busy >&2; exit 75"))
    assert (str(asked.value), asked.value.after) == ("sh ended with code 75: busy", None)
    with pytest.raises(Retry) as asked:
        run(sh("exit 9"), retry_code=9, retry_after="5m")
    assert asked.value.after == 300
    with pytest.raises(ProgramFailed):
        run(sh("exit 75"), retry_code=None)


@pytest.mark.parametrize("command", ["no-such-program", "./no-such-program", "/etc/passwd", "/tmp"])
def test_a_program_that_is_not_there_is_named(command: str) -> None:
    with pytest.raises(ProgramFailed, match=f"no program '{command}'"):
        run(command)


def test_a_folder_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ProgramFailed, match="could not be started"):
        run("true", cwd="/no/such/folder")


def test_an_exit_code_that_someone_else_has_taken_is_no_success() -> None:
    """A process that ignores SIGCHLD, or waits for all its children, loses them; Python would say 0."""
    context = Attempt()
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(ProgramFailed, match="how is not known"):
            run(sh('echo s-1 >"$HOLDFAST_SESSION_FILE"'), context=context)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert context.session == "s-1"


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_a_session_is_kept_whatever_the_exit_code() -> None:
    context = Attempt()
    program = exec_handler(sh('echo "seen: <$HOLDFAST_SESSION>" >&2; echo s-42 >"$HOLDFAST_SESSION_FILE"; exit 1'))
    for seen in ("", "s-42"):
        with pytest.raises(ProgramFailed, match=f"seen: <{seen}>$"):
            program(context.message, context)
        assert context.session == "s-42"


def test_a_session_stays_when_nothing_is_said_and_is_never_large() -> None:
    context = Attempt(session="old")
    run("true", context=context)
    assert context.session == "old"
    run(
        sh(r'printf "a\000b" >"$HOLDFAST_SESSION_FILE"; yes | head -c 100000 >>"$HOLDFAST_SESSION_FILE"'),
        context=context,
    )
    assert context.session is not None
    assert context.session.startswith("a\ufffdby")
    assert len(context.session) <= 500


# --- stopping ---------------------------------------------------------------------------------------------------------


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
        return eventually(lambda: said if len(said := self._said()) == count else None, "all have begun", 20)

    def _said(self) -> list[int]:
        return [int(line) for line in self._pids.read_text().split("\n")[:-1]] if self._pids.exists() else []

    def join(self) -> float:
        """How long it still took."""
        start = time.monotonic()
        self._thread.join(20)
        assert not self._thread.is_alive()
        return time.monotonic() - start


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Running]:
    return lambda command, **options: Running(command, tmp_path / "pids", **options)


def assert_gone(pids: list[int]) -> None:
    for pid in pids:
        eventually(lambda pid=pid: not is_alive(pid), f"{pid} is gone", 5)


def test_cancelling_sends_sigterm_to_all(start: Callable[..., Running]) -> None:
    running = start(sh('sleep 60 & echo $! >>"$PIDS"; trap "echo bye >&2; exit 0" TERM; echo $$ >>"$PIDS"; wait'))
    pids = running.pids(2)
    running.context.cancel()
    assert running.join() < 4
    assert str(running.problem) == "sh was stopped before it had finished: bye"
    assert_gone(pids)


def test_who_ignores_sigterm_is_killed_after_the_grace(start: Callable[..., Running]) -> None:
    running = start(sh('trap "" TERM; echo $$ >>"$PIDS"; sleep 60 & sleep 60; wait'), stop_grace=0.3)
    pids = running.pids(1)
    running.context.cancel()
    assert 0.2 < running.join() < 4
    assert "was stopped" in str(running.problem)
    assert_gone(pids)


def test_what_was_cancelled_before_does_not_begin(tmp_path: Path) -> None:
    context = Attempt()
    context.cancel()
    with pytest.raises(ProgramFailed, match="was not started"):
        run(sh("touch begun"), context=context, cwd=tmp_path)
    assert list(tmp_path.glob("begun")) == []


def test_what_is_cancelled_while_it_begins_ends_at_once() -> None:
    start = time.monotonic()
    ended = programs.run(sh("sleep 60"), env={}, out=programs.Head(10), on_cancel=lambda stop: stop())
    assert (ended.stopped, time.monotonic() - start < 4) == ("cancelled", True)


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
    assert running.join() < 4
    assert sorted(running.result.split()) == ["result", "started"]
    assert_gone(pids)


def test_one_that_left_the_group_does_not_either(start: Callable[..., Running]) -> None:
    running = start(
        sh('setsid sh -c \'echo $$ >>"$PIDS"; exec sleep 60\' & until [ -s "$PIDS" ]; do :; done; echo result')
    )
    [escaped] = running.pids(1)
    try:
        assert running.join() < 4
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
    eventually(lambda: all(now <= then for now, then in zip(count(), before, strict=True)), "all is closed", 5)


def test_nobody_but_the_program_holds_its_pipes() -> None:
    """Otherwise their end would never come, and every run would wait for it in vain."""

    def duration() -> float:
        start = time.monotonic()
        run("true")
        return time.monotonic() - start

    assert min(duration() for _ in range(5)) < programs.DRAIN


def test_a_run_with_a_timeout_is_stopped() -> None:
    ended = programs.run(sh("sleep 60"), env={}, out=programs.Head(10), timeout=0.1)
    assert (ended.stopped, ended.code) == ("timed out", -signal.SIGTERM)


WORKER = """
import os, sys, threading
from holdfast import exec_handler
from tests.runtime.attempts import Attempt, sh
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
        family = [int(pid) for pid in eventually(lambda: said() if len(said()) == 2 else None, "it runs", 30)]
        if options:
            eventually(pids.with_suffix(".forked").exists, "the worker has forked", 30)
        assert all(map(is_alive, family))
        assert len(list(temporary.iterdir())) == 1
        worker.send_signal(number)
        worker.wait(10)
        assert_gone(family)
        eventually(lambda: list(temporary.iterdir()) == [], "its folder is gone", 5)
    finally:
        worker.kill()
        worker.wait()
        assert worker.stdin is not None
        worker.stdin.close()


FIRST_PROCESS = """
import ctypes, os
from holdfast import exec_handler
from tests.runtime.attempts import Attempt, sh
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


# --- preflight --------------------------------------------------------------------------------------------------------


def test_a_preflight_that_succeeds_is_silent() -> None:
    exec_handler("true", preflight="true").preflight()
    exec_handler("true", preflight=lambda: None).preflight()
    exec_handler("true").preflight()


def test_a_preflight_that_fails_says_why() -> None:
    with pytest.raises(PreflightFailed, match=r"^preflight: sh ended with code 2: no key$"):
        exec_handler("true", preflight=sh("echo no key; exit 2")).preflight()
    with pytest.raises(PreflightFailed, match="check: KeyError: 'model'"):
        exec_handler("true", preflight=check).preflight()
    with pytest.raises(PreflightFailed, match="returned False"):
        exec_handler("true", preflight=lambda: False).preflight()


def check() -> None:
    raise KeyError("model")


def test_a_preflight_that_hangs_is_ended() -> None:
    with pytest.raises(PreflightFailed, match="took too long: waiting"):
        exec_handler("true", preflight=sh("echo waiting; sleep 60"), preflight_timeout=0.2).preflight()
    never = threading.Event()
    with pytest.raises(PreflightFailed, match=r"within 0\.1 seconds"):
        exec_handler("true", preflight=never.wait, preflight_timeout=0.1).preflight()
    never.set()


def test_a_program_that_is_missing_is_seen_before_the_first_claim() -> None:
    with pytest.raises(PreflightFailed, match="no program 'no-such-program'"):
        exec_handler("no-such-program").preflight()


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"command": ""}, "^command must begin"),
        ({"command": "  "}, "^command must begin"),
        ({"command": []}, "^command must begin"),
        ({"command": "-x y"}, "^command must begin"),
        ({"command": "say 'hello"}, "^command cannot be split"),
        ({"command": 7}, "^command must be text or a list"),
        ({"command": ["a", 7]}, "^command must be text or a list"),
        ({"command": ["a", "b\0"]}, "^command may not hold NUL"),
        ({"command": ["a"], "shell": True}, "^command must be one text"),
        ({"preflight": 7}, "^preflight must be text"),
        ({"result_limit": 0}, "^result_limit must"),
        ({"error_limit": True}, "^error_limit must"),
        ({"stop_grace": -1}, "^stop_grace"),
        ({"preflight_timeout": "soon"}, "^preflight_timeout"),
        ({"permanent_codes": [0]}, "^permanent_codes must"),
        ({"permanent_codes": [256]}, "^permanent_codes must"),
        ({"retry_code": "75"}, "^retry_code must"),
        ({"retry_after": "soon"}, "^retry_after"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        exec_handler(**{"command": "true", **options})


def test_a_handler_is_called_as_its_program_is() -> None:
    assert exec_handler("/usr/bin/env true").__name__ == "env"
