"""Environments without anything but what is put into them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
SMOKE = Path(__file__).with_name("smoke.py")


class Environment:
    """A virtual environment, made with any Python."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        must(python, "-m", "venv", "--without-pip", str(folder))
        self.packages = Path(must(self.bin / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"))

    def install(self, *what: str) -> None:
        """Let our pip do it: an environment needs none of its own."""
        must(sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install", "--quiet", *what)

    def borrow(self, requirements: Iterable[str]) -> None:
        """Link the packages that meet these, and theirs, from the environment of the tests: nothing is downloaded."""
        for name in closure(requirements):
            found = distribution(name)
            for top in {file.parts[0] for file in found.files or () if ".." not in file.parts} - {"__pycache__"}:
                place = self.packages / top
                if not place.exists():
                    place.symlink_to(Path(str(found.locate_file(top))))

    def run(self, *command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
        program, *arguments = command
        path = shutil.which(program, path=str(self.bin)) or str(program)
        return subprocess.run([path, *arguments], cwd=folder, env=clean(), capture_output=True, text=True)


def closure(requirements: Iterable[str]) -> set[str]:
    """The names of all packages that these need, on this Python."""
    names: set[str] = set()
    left = [Requirement(text) for text in requirements]
    while left:
        wanted = left.pop()
        applies = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        if applies and wanted.name not in names:
            names.add(wanted.name)
            left += [Requirement(text) for text in distribution(wanted.name).requires or ()]
    return names


def clean() -> dict[str, str]:
    """The environment variables, without those that would let Python find more than is installed."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def must(*command: str | Path) -> str:
    done = subprocess.run(command, cwd="/", env=clean(), capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def build(source: Path, folder: Path, *targets: str) -> None:
    options = [option for target in targets for option in ("-t", target)]
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", *options, "-d", str(folder)],
        cwd=source,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
