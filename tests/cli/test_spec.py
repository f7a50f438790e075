"""`holdfast check` and `holdfast fmt`, as a user runs them."""

import json
import subprocess
from pathlib import Path

import pytest

from holdfast.spec.model import from_json
from tests.cli.commands import command, environment, holdfast

UGLY = "app A{queue q{ordering:fifo}// note\n}\n"
PRETTY = "app A {\n  queue q { ordering: fifo }  // note\n}\n"


def piped(text: str, *args: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*args), input=text, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "app.holdfast"
    path.write_text(UGLY)
    return path


def test_a_sound_spec(spec: Path, tmp_path: Path) -> None:
    answer = holdfast("check", "app.holdfast", folder=tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == "app.holdfast: A is sound: 1 queue\n"


def test_its_json_is_a_spec_again(spec: Path, tmp_path: Path) -> None:
    answer = holdfast("check", "--json", "app.holdfast", folder=tmp_path)
    assert from_json(answer.stdout).queues["q"].ordering == "fifo"
    (tmp_path / "app.json").write_text(answer.stdout)
    assert holdfast("check", "--json", "app.json", folder=tmp_path).stdout == answer.stdout


def test_mistakes_are_shown_and_are_an_exit_code(spec: Path, tmp_path: Path) -> None:
    spec.write_text("app A {\n  queue q { orderin: fifo }\n}\n")
    answer = holdfast("check", "app.holdfast", folder=tmp_path)
    assert answer.returncode == 1
    assert answer.stderr == (
        "app.holdfast:2:13: error: 'orderin' has no meaning here (in queues.q)\n"
        "    queue q { orderin: fifo }\n"
        "              ^^^^^^^\n"
        "  did you mean 'ordering'?\n"
    )
    assert answer.stdout == "app.holdfast: 1 error, 0 warnings\n"
    assert holdfast("check", "--json", "app.holdfast", folder=tmp_path).stdout == ""


def test_handlers_are_looked_for_with_a_module(spec: Path, tmp_path: Path) -> None:
    (tmp_path / "handlers.py").write_text("def register(hf): pass\ndef work(message): pass\n")
    spec.write_text(
        "app A {\n  queue q {}\n"
        '  consumer a { queues: [q], handler: "handlers:work" }\n'
        '  consumer b { queues: [q], handler: "handlers:wrok" }\n'
        '  consumer c { queues: [q], handler: "no.such:thing" }\n}\n'
    )
    assert holdfast("check", "app.holdfast", folder=tmp_path).returncode == 0
    answer = holdfast("check", "--module", "handlers.py", "app.holdfast", folder=tmp_path)
    assert answer.returncode == 1
    assert "app.holdfast:4:38: error: there is no function 'wrok' in handlers" in answer.stderr
    assert "app.holdfast:5:38: error: there is no module 'no' for the handler 'no.such:thing'" in answer.stderr
    assert answer.stdout == "app.holdfast: 2 errors, 0 warnings\n"


def test_warnings_fail_only_a_strict_check(spec: Path, tmp_path: Path) -> None:
    spec.write_text("app A { queue q { owner: me } }")
    assert holdfast("check", "app.holdfast", folder=tmp_path).returncode == 0
    assert holdfast("check", "--strict", "app.holdfast", folder=tmp_path).returncode == 1


def test_json_that_is_no_spec(tmp_path: Path) -> None:
    answer = piped('{"app": "A", "queues": {"q": {"delivery": {"max_attempts": 0}}}}', "check", "-", folder=tmp_path)
    assert answer.returncode == 1
    assert answer.stderr.startswith("<stdin>: queues.q.delivery.max_attempts: error: max_attempts must be a whole")
    assert piped("{", "check", "-", folder=tmp_path).returncode == 1
    assert piped(json.dumps({"app": 1}), "check", "-", folder=tmp_path).stderr.startswith(
        "<stdin>: app: error: Expected"
    )


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = holdfast("check", "nothing.holdfast", folder=tmp_path)
    assert (missing.returncode, missing.stderr) == (
        1,
        "holdfast: nothing.holdfast cannot be read: No such file or directory\n",
    )
    (tmp_path / "binary").write_bytes(b"app \xff")
    assert "is no text in UTF-8: see its byte 4" in holdfast("check", "binary", folder=tmp_path).stderr


def test_fmt_changes_a_file_once(spec: Path, tmp_path: Path) -> None:
    spec.chmod(0o640)
    first = holdfast("fmt", "app.holdfast", folder=tmp_path)
    assert (first.returncode, first.stdout) == (0, "app.holdfast is changed\n")
    assert spec.read_text() == PRETTY
    assert spec.stat().st_mode & 0o777 == 0o640
    assert holdfast("fmt", "app.holdfast", folder=tmp_path).stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["app.holdfast"]


def test_fmt_check_changes_nothing(spec: Path, tmp_path: Path) -> None:
    answer = holdfast("fmt", "--check", "app.holdfast", folder=tmp_path)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == "app.holdfast is not in its canonical form: holdfast fmt app.holdfast\n"
    assert spec.read_text() == UGLY
    spec.write_text(PRETTY)
    assert holdfast("fmt", "--check", "app.holdfast", folder=tmp_path).returncode == 0


def test_fmt_of_standard_input(tmp_path: Path) -> None:
    assert piped(UGLY, "fmt", "-", folder=tmp_path).stdout == PRETTY


def test_fmt_leaves_a_broken_file_alone(spec: Path, tmp_path: Path) -> None:
    spec.write_text("app A { queue q { ordering fifo } }")
    answer = holdfast("fmt", "app.holdfast", folder=tmp_path)
    assert answer.returncode == 1
    assert "expected ':' after 'ordering'" in answer.stderr
    assert spec.read_text() == "app A { queue q { ordering fifo } }"


MISTAKES = """app A {
  queue a { ordering: sideways, delivery { max_attempts: 0, dead_letter: nowhere } }
  queue b { ordering fifo }
  queue c { delivery { dead_letter: b, lease: 0 } }
  queue d { limits { rate: 0/s }, owner 7 }
  webhook w { queue: gone }
  schedule s { queue: c, cron: "x" }
}
"""
FOUND = ("sideways", "max_attempts must", "'nowhere'", "expected ':' after 'ordering'", "lease", "'gone'", "cron")


def test_one_run_finds_all_mistakes_and_every_command_shows_them_alike(spec: Path, tmp_path: Path) -> None:
    spec.write_text(MISTAKES)
    checked = holdfast("check", "app.holdfast", folder=tmp_path)
    for what in FOUND:
        assert what in checked.stderr, what
    assert "app.holdfast:3:" in checked.stderr
    assert "(in queues.b)" in checked.stderr
    assert "there is no queue 'b'" not in checked.stderr, "it is there, and was not understood"
    for verb in ("plan", "apply", "serve"):
        answer = holdfast(verb, "app.holdfast", "--db", "sqlite:///app.db", folder=tmp_path)
        assert answer.returncode == 1
        errors = [line for line in checked.stderr.splitlines() if ": error: " in line]
        assert [line for line in answer.stderr.splitlines() if ": error: " in line] == errors
        assert answer.stderr.splitlines()[-1].startswith("app.holdfast: ")


def test_json_has_all_its_mistakes_with_their_paths(tmp_path: Path) -> None:
    found = {
        "queues": {
            "a": {"ordering": "sideways", "delivery": {"max_attempts": "5", "visibility_timeout": 3}},
            "b": {"delivery": {"lease": 0, "dead_letter_queue": "nowhere"}},
        },
        "webhooks": {"w": {"queue": "gone", "verify_hmac": {}}},
        "sagas": {"s": {"steps": [{"queue": "b"}, {"name": "x", "queue": 7}]}},
    }
    answer = piped(json.dumps(found), "check", "-", folder=tmp_path)
    for what in (
        "<stdin>: error: app is missing",
        "queues.a.ordering: error:",
        "queues.a.delivery.max_attempts: error:",
        "queues.a.delivery.visibility_timeout: error:",
        "queues.b.delivery.lease: error:",
        "'nowhere'",
        "'gone'",
        "webhooks.w.verify_hmac: error: header is missing",
        "sagas.s.steps[0]: error: name is missing",
        "sagas.s.steps[1].queue: error:",
    ):
        assert what in answer.stderr, what
