"""`holdfast work`: the consumers of a program, and a program per message."""

import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, State
from tests.cli.commands import command, environment, holdfast
from tests.waiting import eventually, leave_time

APP = """
import os
import time

from holdfast import AsyncHoldfast, Holdfast

hf = Holdfast(os.environ["APP_DB"])


@hf.consumer("emails", empty="terminate")
def send(message):
    return {"sent": message.body}


@hf.consumer("bills", empty="terminate")
def bill(message):
    return "billed"
"""

SLOW = """
import os
import time

from holdfast import Holdfast

hf = Holdfast(os.environ["APP_DB"])


@hf.consumer("emails")
def send(message):
    print("begin", flush=True)
    until = time.monotonic() + message.body
    while time.monotonic() < until and not os.path.exists("go on"):
        time.sleep(0.01)
    return "sent"
"""

ASYNC = """
import asyncio
import os
import time

from holdfast import AsyncHoldfast

app = AsyncHoldfast(os.environ["APP_DB"])


@app.consumer("emails")
async def send(message):
    print("begin", flush=True)
    until = time.monotonic() + message.body
    while time.monotonic() < until and not os.path.exists("go on"):
        await asyncio.sleep(0.01)
    return "sent"
"""

TOLD = """
from holdfast.worker.runner import Runner

on_signal = Runner.on_signal


def tell(self, count):
    on_signal(self, count)
    print("told", flush=True)


Runner.on_signal = tell
"""
"""Makes either of them say when a signal has reached all that it has to reach."""


@pytest.fixture
def db(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/work.db"


@pytest.fixture
def hf(db: str) -> Iterator[Holdfast]:
    with Holdfast(db) as client:
        yield client


@pytest.fixture
def work(db: str, tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs the command until it ends by itself."""
    return lambda *args: holdfast("work", *args, folder=tmp_path, APP_DB=db)


@pytest.fixture
def drone(db: str, tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs a program per message of `jobs`, until there is none."""
    options = ["--db", db, "--queue", "jobs", "--empty", "terminate"]
    return lambda program, *args: holdfast("work", *options, "--exec", program, *args, folder=tmp_path)


def result(hf: Holdfast, message_id: str) -> Any:
    found = hf.status(message_id)
    assert found is not None
    assert found.state == State.SUCCEEDED, found
    return found.result


# --- a program's consumers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["app:hf", "app", "app:"])
def test_all_consumers_are_run(hf: Holdfast, tmp_path: Path, work: Any, address: str) -> None:
    (tmp_path / "app.py").write_text(APP)
    mail, bill = hf.enqueue("emails", "x").id, hf.enqueue("bills", 1).id
    answer = work(address)
    assert (answer.returncode, answer.stdout) == (0, ""), answer.stderr
    assert (result(hf, mail), result(hf, bill)) == ({"sent": "x"}, "billed")


def test_or_those_that_are_named(hf: Holdfast, tmp_path: Path, work: Any) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "mail.py").write_text(APP)
    mail, bill = hf.enqueue("emails", "x").id, hf.enqueue("bills", 1).id
    assert work("shop.mail:hf", "bill").returncode == 0
    assert result(hf, bill) == "billed"
    found = hf.status(mail)
    assert found is not None
    assert found.state == State.PENDING


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        ([], 2, "say what to run: MODULE:APP, or --exec"),
        (["app:hf", "--exec", "true"], 2, "say what to run"),
        (["nothing:hf"], 1, "there is no module 'nothing' here"),
        (["app.nothing:hf"], 1, "there is no module 'app.nothing' here"),
        (["app:nothing"], 1, "app.nothing is no Holdfast client"),
        (["app:send"], 1, "app.send is no Holdfast client"),
        (["two"], 1, "two has 2 Holdfast clients: say which one, two:NAME"),
        (["none"], 1, "none has 0 Holdfast clients"),
        (["none:hf"], 1, "there is no consumer to run: declare one"),
        ([":hf"], 1, "':hf' is no MODULE:APP"),
        (["app.py"], 1, "there is no module 'app.py' here"),
        (["./app.py"], 1, "'./app.py' is no MODULE:APP"),
        (["../app:hf"], 1, "'../app:hf' is no MODULE:APP"),
        (["app:hf", "sned"], 1, "there is no consumer 'sned'; declared are bill, send"),
        (["app:hf", "--grace", "soon"], 1, "grace"),
        (["app:hf", "--log-level", "loud"], 2, "'loud' is not one of"),
        (["--exec", "true"], 2, "--exec needs --db URL and --queue NAME"),
        (["--exec", "true", "--db", "sqlite:///w.db"], 2, "--exec needs --db URL and --queue NAME"),
        (["--exec", "", "--db", "sqlite:///w.db", "--queue", "q"], 1, "must begin with the name of a program"),
        (["--exec", "true", "--db", "mysql://x", "--queue", "q"], 1, "is not a database URL"),
        (["--exec", "true", "--db", "sqlite:///w.db", "--queue", "q", "--label", "x"], 2, "--label takes NAME=VALUE"),
        (["--exec", "true", "--db", "sqlite:///w.db", "--queue", "q", "--lease", "0s"], 1, "lease must be longer"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_is_said_in_a_line(tmp_path: Path, work: Any, args: list[str], code: int, says: str) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "two.py").write_text(APP + "other = Holdfast('sqlite:///other.db')\n")
    (tmp_path / "none.py").write_text("import holdfast\n")
    if args == ["none:hf"]:
        (tmp_path / "none.py").write_text("import holdfast\nhf = holdfast.Holdfast('sqlite:///w.db')\n")
    answer = work(*args)
    assert (answer.returncode, answer.stdout) == (code, "")
    assert says in answer.stderr
    assert "Traceback" not in answer.stderr
    if code == 1:
        assert answer.stderr.count("\n") == 1


def test_what_is_wrong_inside_of_the_program_is_shown_where_it_is(tmp_path: Path, work: Any) -> None:
    (tmp_path / "app.py").write_text("import ap\n")
    answer = work("app:hf")
    assert answer.returncode == 1
    assert "ModuleNotFoundError: No module named 'ap'" in answer.stderr
    assert "app.py" in answer.stderr


def start(db: str, folder: Path, *args: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        command("work", *args),
        cwd=folder,
        env={**environment(folder), "APP_DB": db},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begin\n", process.communicate()[1]
    return process


@pytest.mark.parametrize("program", [SLOW, ASYNC], ids=["threads", "asyncio"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_handlers_finish(
    db: str, hf: Holdfast, tmp_path: Path, program: str, number: signal.Signals
) -> None:
    (tmp_path / "app.py").write_text(program + TOLD)
    first, second = hf.enqueue("emails", 100).id, hf.enqueue("emails", 100).id
    process = start(db, tmp_path, "app")
    process.send_signal(number)
    assert process.stdout is not None
    assert process.stdout.readline() == "told\n"
    (tmp_path / "go on").touch()
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, ""), errors
    assert "Traceback" not in errors
    assert result(hf, first) == "sent"
    found = hf.status(second)
    assert found is not None
    assert (found.state, found.attempts) == (State.PENDING, 0)


@pytest.mark.parametrize("program", [SLOW, ASYNC], ids=["threads", "asyncio"])
def test_a_second_one_ends_it_at_once(db: str, hf: Holdfast, tmp_path: Path, program: str) -> None:
    (tmp_path / "app.py").write_text(program)
    hf.queue("emails", max_attempts=2)
    sent = hf.enqueue("emails", 100).id
    process = start(db, tmp_path, "app")
    process.send_signal(signal.SIGINT)
    leave_time(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
    found = hf.status(sent)
    assert found is not None
    assert found.state == State.PENDING


def test_the_grace_may_be_short(db: str, hf: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(SLOW)
    hf.enqueue("emails", 100)
    process = start(db, tmp_path, "app", "--grace", "200ms")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert hf.stats("emails").processing == 0


def test_pools_are_run_too(db: str, hf: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(SLOW + "\nhf.pool(send, max=1)\n")
    sent = hf.enqueue("emails", 0.5).id
    process = start(db, tmp_path, "app:hf")
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert result(hf, sent) == "sent"


def test_trouble_is_logged_with_time_and_level(hf: Holdfast, tmp_path: Path, work: Any) -> None:
    (tmp_path / "app.py").write_text(
        APP + "\n\n@hf.consumer('x', empty='terminate', preflight=lambda: 1 / 0)\ndef lame(message):\n    pass\n"
    )
    loud, quiet = work("app:hf"), work("app:hf", "--log-level", "error")
    line = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ERROR consumer lame is not started: "
    for answer in (loud, quiet):
        assert answer.returncode == 0
        assert re.search(line, answer.stderr, re.MULTILINE), answer.stderr
        assert answer.stderr.endswith("ZeroDivisionError: division by zero\n")


# --- a program per message --------------------------------------------------------------------------------------------


def test_what_it_prints_is_the_result(hf: Holdfast, drone: Any) -> None:
    sent = hf.enqueue("jobs", {"a": [1, 2]}).id
    answer = drone("cat")
    assert (answer.returncode, answer.stdout) == (0, ""), answer.stderr
    assert result(hf, sent) == {"a": [1, 2]}


@pytest.mark.parametrize(("code", "state"), [(1, State.PENDING), (75, State.PENDING)])
def test_exit_codes_are_outcomes(hf: Holdfast, drone: Any, code: int, state: State) -> None:
    hf.queue("jobs", backoff="1h")
    sent = hf.enqueue("jobs", 1).id
    answer = drone(f"sh -c 'echo oh no >&2; exit {code}'")
    assert answer.returncode == 0, "a message that failed is no failure of the worker"
    found = hf.status(sent)
    assert found is not None
    assert (found.state, found.attempts) == (state, 1)
    assert f"sh ended with code {code}: oh no" in found.history[-1].error


def test_a_program_that_always_fails_leaves_a_dead_letter(hf: Holdfast, drone: Any) -> None:
    hf.queue("jobs", backoff=None, max_attempts=2)
    hf.enqueue("jobs", 1)
    assert drone("false").returncode == 0
    [letter] = hf.dead_letters.list("jobs")
    assert len(letter.history) == 2


def test_commitments_of_the_queue_are_checked(hf: Holdfast, drone: Any) -> None:
    hf.queue(
        "jobs",
        backoff=None,
        max_attempts=1,
        commitments=[{"name": "says yes", "check": "grep -q yes $HOLDFAST_RESULT_FILE"}],
    )
    good, bad = hf.enqueue("jobs", "yes").id, hf.enqueue("jobs", "no").id
    assert drone("cat").returncode == 0
    assert result(hf, good) == "yes"
    [letter] = hf.dead_letters.list("jobs")
    assert letter.message.id == bad
    assert "says yes" in letter.history[-1].error
    assert [one.passed for one in hf.messages.commitments(good)] == [True]


def test_commitments_of_a_message_are_run_only_where_they_are_trusted(hf: Holdfast, drone: Any, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    headers = {"holdfast-commitments": [{"name": "mark", "check": f"touch {mark}"}]}
    hf.queue("jobs", backoff=None, max_attempts=1)
    hf.enqueue("jobs", 1, headers=headers)
    assert drone("cat").returncode == 0
    [letter] = hf.dead_letters.list("jobs")
    assert "trust" in letter.history[-1].error
    assert not mark.exists()
    trusted = hf.enqueue("jobs", 2, headers=headers).id
    assert drone("cat", "--trust-commitments").returncode == 0
    assert result(hf, trusted) == 2
    assert mark.exists()


def test_a_failed_preflight_claims_nothing(hf: Holdfast, drone: Any) -> None:
    hf.queue("jobs", owner="ops")
    sent = hf.enqueue("jobs", 1).id
    answer = drone("cat", "--preflight", "sh -c 'echo no key >&2; exit 3'", "--name", "reader")
    assert answer.returncode == 1
    assert "holdfast: reader: preflight: sh ended with code 3: no key" in answer.stderr
    found = hf.status(sent)
    assert found is not None
    assert (found.state, found.attempts) == (State.PENDING, 0)
    [notice] = hf.notices.list("ops")
    assert (notice.kind, notice.about) == ("preflight", "reader")


def test_a_missing_program_claims_nothing(hf: Holdfast, drone: Any) -> None:
    hf.enqueue("jobs", 1)
    answer = drone("no-such-program-anywhere")
    assert answer.returncode == 1
    assert "there is no program 'no-such-program-anywhere'" in answer.stderr
    assert hf.stats("jobs").pending == 1


def test_labels_are_asked_for(hf: Holdfast, drone: Any) -> None:
    hf.queue("jobs", requires={"tier": "opus"})
    sent = hf.enqueue("jobs", 1).id
    answer = drone("cat", "--label", "tier=haiku")
    assert answer.returncode == 1
    assert "requires tier=opus" in answer.stderr
    assert drone("cat", "--label", "tier=opus", "--label", "gpu=no").returncode == 0
    assert result(hf, sent) == 1


def test_several_queues_and_programs_at_once(db: str, hf: Holdfast, tmp_path: Path) -> None:
    """Each waits until there is a second one, so that it ends only if two run at a time."""
    wait = tmp_path / "wait.sh"
    wait.write_text(
        f"touch {tmp_path}/$HOLDFAST_ID\nwhile [ $(ls {tmp_path} | grep -c '-') -lt 2 ]; do sleep 0.05; done\n"
    )
    sent = [hf.enqueue(queue, 1).id for queue in ("a", "b")]
    options = ["--db", db, "--queue", "a", "--queue", "b", "--concurrency", "2", "--empty", "terminate"]
    answer = holdfast("work", *options, "--exec", f"sh {wait}", "--timeout", "100s", folder=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert [result(hf, one) for one in sent] == [None, None]


def test_a_program_that_takes_too_long_is_ended(hf: Holdfast, drone: Any) -> None:
    hf.queue("jobs", max_attempts=1)
    hf.enqueue("jobs", 1)
    assert drone("sleep 3600", "--timeout", "500ms").returncode == 0
    assert len(hf.dead_letters.list("jobs")) == 1


def test_ctrl_c_lets_the_program_finish(db: str, hf: Holdfast, tmp_path: Path) -> None:
    started = tmp_path / "started"
    sent = hf.enqueue("jobs", 1).id
    process = subprocess.Popen(
        command("work", "--db", db, "--queue", "jobs", "--exec", f"sh -c 'touch {started}; sleep 1; echo 5'"),
        cwd=tmp_path,
        env=environment(tmp_path),
        stderr=subprocess.PIPE,
        text=True,
    )
    eventually(started.exists, "it has begun")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert result(hf, sent) == 5
