"""A copy of the project in memory, in which a mutant lives while tests run on it. The working tree is never changed."""

import json
import os
import shutil
import subprocess
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from tests.mutants.sites import Mutant
from tests.servers import ask_desk

SCRIPT = """#!{python}
import sys
from holdfast.cli.main import main
sys.exit(main())
"""


class Place:
    """One copy, with a virtual environment of its own: child processes of tests import the copy as well."""

    def __init__(self, root: Path, folder: Path, desk: int) -> None:
        self._root = root
        self._desk = desk
        self.folder = folder
        self.temporary = folder / "t"
        self._warm: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        told = subprocess.run(listed, cwd=self._root, check=True, capture_output=True, text=True).stdout
        for name in filter(None, told.split("\0")):
            target = self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (self._root / name).is_file():
                shutil.copy2(self._root / name, target)
        make_environment(self.folder, self._root)
        compiled = ["-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "src"]
        subprocess.run([self.python, *compiled], cwd=self.folder, check=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._warm is not None:
            self._warm.kill()
            self._warm.communicate()

    @property
    def python(self) -> Path:
        return self.folder / ".venv" / "bin" / "python"

    def environment(self, **more: str) -> dict[str, str]:
        cleared = {name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE", "PYTEST"))}
        place = {"PYTEST_DEBUG_TEMPROOT": str(self.temporary), "PYTHONPATH": str(self.folder / "src")}
        return {**cleared, **place, **more}

    def collect(self, folders: list[str], *options: str) -> list[str]:
        """Return the tests of a selection. Afterwards their compiled modules are in the copy."""
        self.temporary.mkdir(exist_ok=True)
        done = subprocess.run(
            [self.python, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options, *folders],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
        )
        found = [line for line in done.stdout.splitlines() if line.startswith("tests/") and "::" in line]
        if done.returncode or not found:
            raise RuntimeError(f"the tests cannot be collected:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return found

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        path = self.folder / mutant.path
        before = path.read_bytes()
        path.write_bytes(mutant.apply(before))
        try:
            yield
        finally:
            path.write_bytes(before)

    def run(self, tests: list[str], name: str, *, timeout: float, seconds: float, long: bool = False) -> dict[str, Any]:
        """Run tests, one after the other until one fails, in a process of their own."""
        self.temporary.mkdir(exist_ok=True)
        order = {
            "tests": tests,
            "name": name,
            "timeout": timeout,
            "seconds": seconds,
            "long": long,
            "desk": self._desk,
        }
        try:
            warm = self._warm_process()
            assert warm.stdin is not None
            assert warm.stdout is not None
            print(json.dumps(order), file=warm.stdin, flush=True)
            return json.loads(warm.stdout.readline())  # type: ignore[no-any-return]
        finally:
            shutil.rmtree(self.temporary, ignore_errors=True)
            shutil.rmtree(self.folder / ".hypothesis", ignore_errors=True)  # What failed for another mutant.
            self._drop_database(f"holdfast_{name}")

    def _drop_database(self, name: str) -> None:
        with psycopg.connect(ask_desk(self._desk).url(), autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def _warm_process(self) -> subprocess.Popen[str]:
        if self._warm is None:
            script = self.folder / "tests" / "mutants" / "warm.py"
            self._warm = subprocess.Popen(
                [self.python, "-P", script],
                cwd=self.folder,
                env=self.environment(PYTHONDONTWRITEBYTECODE="1"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert self._warm.stdout is not None
            if self._warm.stdout.readline() != '"ready"\n':
                raise RuntimeError("the process that runs the tests did not start")
        return self._warm


def make_environment(folder: Path, root: Path) -> None:
    """Make .venv: the packages of the project's own, but the copy's `src` before the project's."""
    place = folder / ".venv"
    venv.create(place, symlinks=True)
    paths = sysconfig.get_paths(vars={"base": str(place), "platbase": str(place)}, scheme="venv")
    packages = sysconfig.get_paths()["purelib"]
    Path(paths["purelib"], "copy.pth").write_text(f"{folder / 'src'}\nimport site; site.addsitedir({packages!r})\n")
    script = place / "bin" / "holdfast"
    script.write_text(SCRIPT.format(python=place / "bin" / "python"))
    script.chmod(0o755)
    pooler = root / ".venv" / "pgbouncer"
    if pooler.exists():
        (place / "pgbouncer").symlink_to(pooler)
