"""What every command has in common: help, errors in one line, exit codes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import command, environment, holdfast


def test_help_lists_the_commands(tmp_path: Path) -> None:
    answer = holdfast("--help", folder=tmp_path)
    assert answer.returncode == 0
    assert "demo" in answer.stdout
    assert "migrate" in answer.stdout


def test_help_imports_no_command() -> None:
    program = (
        "import sys\nfrom holdfast.cli.main import main\nsys.argv = ['holdfast', '--help']\nmain()\n"
        "sys.exit(any(name.startswith(('holdfast.cli.demo', 'holdfast.cli.migrate', 'rich')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], stdout=subprocess.DEVNULL).returncode == 0


def test_the_help_of_the_group_is_that_of_the_commands(tmp_path: Path) -> None:
    from holdfast.cli.main import COMMANDS

    for name, (_, line) in COMMANDS.items():
        text = " ".join(holdfast(name, "--help", folder=tmp_path).stdout.split())
        assert line.split(",")[0].removesuffix(".") in text


@pytest.mark.parametrize("args", [["queues", "list"], ["dead-letters", "list"], ["pools", "list"]], ids=" ".join)
def test_a_noun_imports_no_other(args: list[str]) -> None:
    """Nor does it import what an everyday command needs."""
    program = (
        f"import sys\nfrom holdfast.cli.main import main\nsys.argv[1:] = {[*args, '--help']}\nassert main() == 0\n"
        "modules = [name.split('.') for name in sys.modules if name.startswith('holdfast.')]\n"
        "print(*(parts[1] for parts in modules if 'cli' in parts))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    noun = {"queues": "queues", "dead-letters": "dead_letters", "pools": "consumers"}[args[0]]
    assert set(answer.stdout.splitlines()[-1].split()) == {"cli", noun}, answer.stderr


def test_a_noun_alone_shows_what_it_can(tmp_path: Path) -> None:
    answer = holdfast("queues", folder=tmp_path)
    assert (answer.returncode, answer.stdout) == (2, "")
    for name in ("list", "settings", "peek", "pause", "resume", "purge", "blocked", "unblock"):
        assert f"\n  {name} " in answer.stderr


@pytest.mark.parametrize("old", ["status", "peek", "settings", "attach", "detach", "attachments"])
def test_verbs_are_on_their_nouns(old: str, tmp_path: Path) -> None:
    answer = holdfast(old, folder=tmp_path)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert f"No such command '{old}'" in answer.stderr


def test_the_version_is_told(tmp_path: Path) -> None:
    from importlib.metadata import version

    assert holdfast("--version", folder=tmp_path).stdout == f"holdfast {version('holdfast')}\n"


def test_an_unknown_command_is_refused(tmp_path: Path) -> None:
    answer = holdfast("dance", folder=tmp_path)
    assert answer.returncode == 2
    assert "No such command 'dance'" in answer.stderr


def test_an_error_of_ours_is_one_line(tmp_path: Path) -> None:
    answer = holdfast("migrate", "--db", "mysql://user:secret@host/db", folder=tmp_path)
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert answer.stderr.startswith("holdfast: ")
    assert answer.stderr.count("\n") == 1
    assert "secret" not in answer.stderr


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    writer = subprocess.Popen(
        command("migrate", "--db", "postgresql:", "--sql"),
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert writer.stdout is not None
    assert writer.stderr is not None
    writer.stdout.close()
    with writer.stderr as errors:
        assert errors.read() == b""
    writer.wait(30)
