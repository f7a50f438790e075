"""The wheel, with its extras and what they depend on, on every Python of this machine."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.long import is_long_run, only_long
from tests.packaging.environments import SMOKE, Environment

NAMED = "HOLDFAST_TEST_PYTHONS"
"""Further interpreters, separated by colons."""

ASK = "import sys; print(*sys.version_info[:2], sys.implementation.name, sep='.')"
OLDEST = (3, 11)


def pythons() -> dict[str, str]:
    """Version → interpreter: this one, those on the PATH, those in pyenv's folder, and those that were named."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = [shutil.which(f"python3.{minor}") for minor in range(OLDEST[1], 30)]
    named = os.environ.get(NAMED, "").split(":")
    found = {version(str(path)): str(path) for path in [*named, *on_path, *pyenv.glob("*/bin/python3")] if path}
    found[version(sys.executable)] = sys.executable
    return {name: found[name] for name in sorted(found) if name}


def version(python: str) -> str:
    """As `3.12`; nothing if it is not a CPython that Holdfast supports, or does not start (pyenv's shims)."""
    answer = subprocess.run([python, "-c", ASK], capture_output=True, text=True)
    match = re.fullmatch(r"(3)\.(\d+)\.cpython", answer.stdout.strip())
    return f"3.{match[2]}" if match and (3, int(match[2])) >= OLDEST else ""


FOUND = pythons() if is_long_run() else {version(sys.executable): sys.executable}


@only_long
@pytest.mark.parametrize("name", FOUND)
def test_the_wheel_works(name: str, wheel: Path, postgres_url: str, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "env", FOUND[name])
    environment.install(f"{wheel}[postgres,server,sqs,otel]")
    for url in ("sqlite:///a.db", "sqlite:///b.db?engine=stdlib", postgres_url):
        answer = environment.run("python", SMOKE, url, folder=tmp_path)
        assert answer.stdout.strip() == "all of it works", answer.stderr
    imports = environment.run("python", "-c", "import holdfast.cli.serve, holdfast.server.server", folder=tmp_path)
    assert imports.returncode == 0, imports.stderr
    demo = environment.run("holdfast", "demo", "--messages", "400", "--seconds", "2", folder=tmp_path)
    assert "Nothing was lost" in demo.stdout, demo.stderr


def test_this_python_is_among_them() -> None:
    assert f"{sys.version_info[0]}.{sys.version_info[1]}" in FOUND
