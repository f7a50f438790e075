"""A program per message: what it gets, what becomes of what it says, and how it is set up."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from holdfast import InvalidInput, PreflightFailed, ProgramFailed, exec_handler
from holdfast.worker.outcomes import DeadLetter, Retry
from holdfast.worker.programs.environment import Reports, inherited
from holdfast.worker.programs.run import Program
from tests.waiting import eventually
from tests.worker.attempts import Attempt, python, run, sh

pytestmark = [pytest.mark.usefixtures("temporary"), pytest.mark.of_queues, pytest.mark.above_the_stores]


def environment_of(context: Attempt, **options: Any) -> dict[str, str]:
    found = run(python("import json, os; print(json.dumps(dict(os.environ)))"), context=context, **options)
    assert isinstance(found, dict)
    return found


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


# --- preflight --------------------------------------------------------------------------------------------------------


def test_a_preflight_that_succeeds_is_silent() -> None:
    asked: list[str] = []
    exec_handler("true", preflight=lambda: asked.append("function")).preflight()
    exec_handler("true", preflight="true").preflight()
    exec_handler("true").preflight()
    assert asked == ["function"]


def test_a_preflight_that_fails_says_why() -> None:
    with pytest.raises(PreflightFailed, match=r"^preflight: sh ended with code 2: no key$"):
        exec_handler("true", preflight=sh("echo no key; exit 2")).preflight()
    with pytest.raises(PreflightFailed, match="check: KeyError: 'model'"):
        exec_handler("true", preflight=check).preflight()
    with pytest.raises(PreflightFailed, match="returned False"):
        exec_handler("true", preflight=lambda: False).preflight()


def check() -> None:
    raise KeyError("model")


def test_a_preflight_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time is short; it begins when the check has said something, which may take long on a busy machine."""
    wait, begun = Program.wait, tmp_path / "begun"

    def wait_when_begun(program: Program, *limits: Any) -> Any:
        eventually(begun.exists, "the check has begun")
        return wait(program, *limits)

    monkeypatch.setattr(Program, "wait", wait_when_begun)
    with pytest.raises(PreflightFailed, match="took too long: waiting"):
        exec_handler("true", preflight=sh(f"echo waiting; touch {begun}; sleep 60"), preflight_timeout=0.1).preflight()
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


# --- what it costs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["true", "exit 1"])
def test_what_it_says_to_have_spent_is_counted(ending: str) -> None:
    """All of it together, whatever becomes of the attempt."""
    context = Attempt()
    script = f'echo 1.5 >>"$HOLDFAST_SPEND_FILE"; printf "2\\n1e1" >>"$HOLDFAST_SPEND_FILE"; {ending}'
    with contextlib.suppress(ProgramFailed):
        run(sh(script), context=context)
    assert context.spent == [13.5]


def test_without_a_report_nothing_is_spent() -> None:
    context = Attempt()
    run(sh("true"), context=context)
    run(sh('echo 0 >>"$HOLDFAST_SPEND_FILE"'), context=context)
    assert context.spent == []


@pytest.mark.parametrize("word", ["much", "-1", "nan", "inf", "1e16"])
def test_a_report_that_is_no_number_is_a_failure(word: str) -> None:
    context = Attempt()
    with pytest.raises(ProgramFailed, match=f"HOLDFAST_SPEND_FILE must hold numbers from 0 to 1e15, not '3 {word}'"):
        run(sh(f'echo 3 {word} >>"$HOLDFAST_SPEND_FILE"'), context=context)


def test_reports_are_taken_while_it_writes(tmp_path: Path) -> None:
    """What has no end yet may be half a number; what is no number is said when the program has ended."""
    context, spend = Attempt(), tmp_path / "spend"
    reports = Reports(context, tmp_path, "")
    (tmp_path / "session").write_text("s-1")
    for text in ("5 1", "5 12\n", "5 12\n3 much "):
        spend.write_text(text)
        reports.look()
    assert (context.session, context.spent) == ("s-1", [5, 12])
    with pytest.raises(ProgramFailed, match="must hold numbers"):
        reports.end()
