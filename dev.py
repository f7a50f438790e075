#!/usr/bin/env python3
"""Everything a developer runs, on a machine with nothing but Python 3.11 or newer.

    python3 dev.py demo     [n]     see Holdfast work: a flood of n webhooks (10,000), on one SQLite file
    python3 dev.py test     [args]  every test, with a real PostgreSQL; args go to pytest
    python3 dev.py coverage [args]  the same tests; prints how many lines and branches of src/ they execute
    python3 dev.py mutants  [args]  change the code in a sample of places; prints which changes no test notices
    python3 dev.py check            format, lint, types, architecture and unit tests: under a minute
    python3 dev.py bench    [args]  the benchmarks; --peers: beside other queues
    python3 dev.py lock             refresh requirements/*.txt from pyproject.toml

The first run sets up .venv beside this file; later runs find it ready.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / "bin"
PYTHON = BIN / "python"
UV = BIN / "uv"
LOG = ROOT / ".dev-setup.log"

MADE = VENV / ".made"
"""Says for which folder and Python the virtual environment was made: a copied or outdated one is made anew."""

COVERAGE = ROOT / ".coverage-data"
"""What `dev.py coverage` measured last: the combined data and `report.json`."""

UNFINISHED = VENV / ".unfinished"
"""Exists while packages are installed: found at the start, it tells of an interrupted set-up."""

MINIMUM = (3, 11)
WORKERS = min(2 * (os.cpu_count() or 1) + 1, 9)
"""Tests wait about as long as they compute. More than nine would run out of PostgreSQL's connections."""

SUITE = ["-n", str(WORKERS), "--dist", "worksteal"]
SETUP_ENVIRONMENT = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "UV_PYTHON_DOWNLOADS": "never",
    "UV_SYSTEM_CERTS": "1",
    "VIRTUAL_ENV": str(VENV),
}


# --- commands ---------------------------------------------------------------------------------------------------------


def demo(args: list[str]) -> int:
    prepare("server")
    return run(PYTHON, ROOT / "examples" / "incidents" / "run.py", *args)


def test(args: list[str]) -> int:
    prepare("dev")
    return run(PYTHON, "-m", "pytest", *SUITE, *args)


def coverage(args: list[str]) -> int:
    prepare("dev")
    shutil.rmtree(COVERAGE, ignore_errors=True)
    COVERAGE.mkdir()
    os.environ["COVERAGE_FILE"] = str(COVERAGE / "data")
    code = run(PYTHON, "-m", "coverage", "run", "-m", "pytest", *SUITE, *args)
    report = COVERAGE / "report.json"
    combined = run(PYTHON, "-m", "coverage", "combine", "--quiet") or run(
        PYTHON, "-m", "coverage", "json", "--quiet", "-o", report
    )
    if combined == 0:
        print("\n".join(coverage_table(json.loads(report.read_text()))))
    return code or combined


def mutants(args: list[str]) -> int:
    prepare("dev")
    return run(PYTHON, "-m", "tests.mutants", *args)


def check(args: list[str]) -> int:
    prepare("dev")
    codes = [
        run(BIN / "ruff", "format", "--check", "."),
        run(BIN / "ruff", "check", "."),
        run(BIN / "mypy"),
        run(PYTHON, "-m", "pytest", "-q", "-n", "2", "tests/architecture", *unit_tests(), *args),
    ]
    return next((code for code in codes if code), 0)


def unit_tests() -> list[str]:
    """Return the files whose tests need no database. To collect all others only to leave them out would take longer."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(file.relative_to(ROOT)) for file in files if "pytest.mark.unit" in file.read_text()]


def bench(args: list[str]) -> int:
    prepare("dev")
    return run(PYTHON, "-m", "bench", *args)


def lock(args: list[str]) -> int:
    with one_at_a_time():
        ensure_venv()
        if not has_uv():
            sys.exit("dev.py lock needs uv, and pip could not install it: see " + LOG.name)
        compile_lock("dev", "pyproject.toml", "--all-extras", "--group", "dev", *args)
        same = ("pyproject.toml", "--constraint", "requirements/dev.txt")
        compile_lock("server", *same, "--extra", "server", *args)
        compile_lock("deploy", *same, "--extra", "server", "--extra", "postgres", *args)
        compile_lock("build", "--group", "build", *args)
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "demo": demo,
    "test": test,
    "coverage": coverage,
    "mutants": mutants,
    "check": check,
    "bench": bench,
    "lock": lock,
}


# --- set-up -----------------------------------------------------------------------------------------------------------


def prepare(name: str) -> None:
    """Make .venv hold everything in requirements/<name>.txt and this package; at once when it already does."""
    if is_ready(name):
        return
    with one_at_a_time():
        if is_ready(name):
            return
        ensure_venv()
        UNFINISHED.touch()
        for outdated in VENV.glob(".ready-*"):
            outdated.unlink()
        install_packages(ROOT / "requirements" / f"{name}.txt")
        stamp(name).touch()
        UNFINISHED.unlink()


def is_ready(name: str) -> bool:
    # dev holds all of server, so a demo after a test has nothing to do.
    return is_sound() and any(stamp(held).exists() for held in {name, "dev"})


def stamp(name: str) -> Path:
    inputs = (ROOT / "requirements" / f"{name}.txt").read_bytes() + (ROOT / "pyproject.toml").read_bytes()
    return VENV / f".ready-{name}-{hashlib.sha256(inputs).hexdigest()[:16]}"


def is_sound() -> bool:
    return MADE.exists() and MADE.read_text() == identity() and PYTHON.exists() and not UNFINISHED.exists()


def identity() -> str:
    return f"{ROOT}\nPython {sys.version_info.major}.{sys.version_info.minor}\n"


def ensure_venv() -> None:
    if is_sound():
        return
    LOG.unlink(missing_ok=True)
    if importlib.util.find_spec("ensurepip") is None:
        install_venv_module()
    MADE.unlink(missing_ok=True)
    with step("making .venv"):
        must(sys.executable, "-m", "venv", "--clear", VENV)
    MADE.write_text(identity())


def install_venv_module() -> None:
    """Debian and Ubuntu ship Python without what the venv module needs."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        sys.exit("This Python cannot make virtual environments; on Debian or Ubuntu: apt-get install python3-venv")
    with step("installing python3-venv"):
        attempt("apt-get", "update")
        must("apt-get", "install", "-y", "--no-install-recommends", "python3-venv")


def install_packages(requirements: Path) -> None:
    with step(f"installing {requirements.relative_to(ROOT)}"):
        if not (has_uv() and attempt(UV, "pip", "install", "--require-hashes", "-r", requirements)):
            must(PYTHON, "-m", "pip", "install", "--require-hashes", "-r", requirements)
    with step("installing holdfast from this folder"):
        if not (UV.exists() and attempt(UV, "pip", "install", "--no-deps", "-e", ROOT)):
            must(PYTHON, "-m", "pip", "install", "--no-deps", "-e", ROOT)


def fetch_pooler() -> None:
    """Unpack Debian's PgBouncer, which is in no wheel, into .venv, once: the first test behind a pooler asks for it.

    Afterwards there is `.venv/pgbouncer`. It is empty where the package could not be downloaded.
    """
    place, unfinished = VENV / "pgbouncer", VENV / "pgbouncer.unfinished"
    with one_at_a_time():
        if place.exists():
            return
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        if shutil.which("apt-get"):
            with step("fetching pgbouncer, for the tests behind a pooler"):
                if not download_pooler(unfinished):
                    attempt("apt-get", "update")
                    download_pooler(unfinished)
                for package in unfinished.glob("*.deb"):
                    attempt("dpkg", "-x", package, unfinished)
        unfinished.rename(place)


def download_pooler(place: Path) -> bool:
    """With its libraries, but for the C library, which there is one of."""
    told = subprocess.run(["apt-cache", "depends", "pgbouncer"], capture_output=True, text=True).stdout
    libraries = [name for name in re.findall(r"Depends: (lib\S+)", told) if name != "libc6"]
    return attempt("apt-get", "download", "pgbouncer", *libraries, cwd=place)


def has_uv() -> bool:
    # uv is a matter of speed only: where it cannot be had, pip does the same in some minutes.
    return UV.exists() or attempt(PYTHON, "-m", "pip", "install", "uv")


def compile_lock(name: str, *options: str) -> None:
    # No header and no annotations: both would name paths, and an index URL never belongs in the file.
    common = [
        "--universal",
        "--python-version",
        "3.11",
        "--generate-hashes",
        "--no-header",
        "--no-annotate",
        "--upgrade",
    ]
    output = f"requirements/{name}.txt"
    with step(f"resolving {output}"):
        must(UV, "pip", "compile", *common, *options, "-o", output)


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Hold the set-up of this folder; a second dev.py waits for the first instead of spoiling its work."""
    folder = os.open(ROOT, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


@contextmanager
def step(what: str) -> Iterator[None]:
    print(f"set-up: {what} ...", end="", flush=True, file=sys.stderr)
    started = time.monotonic()
    try:
        yield
    except BaseException:
        print(file=sys.stderr)
        raise
    print(f" {time.monotonic() - started:.1f} s", file=sys.stderr)


def must(*command: str | Path) -> None:
    if not attempt(*command):
        sys.exit(f"\n{LOG.read_text(errors='replace')}\nset-up failed; the lines above are also in {LOG.name}")


def attempt(*command: str | Path, cwd: Path = ROOT) -> bool:
    """Run a set-up command, its chatter going to the log only."""
    with LOG.open("a") as log:
        log.write(f"$ {' '.join(map(str, command))}\n")
        log.flush()
        environment = {**os.environ, **SETUP_ENVIRONMENT}
        try:
            done = subprocess.run(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        except OSError as error:
            log.write(f"{error}\n")
            return False
    return done.returncode == 0


# --- coverage ---------------------------------------------------------------------------------------------------------


def coverage_table(report: dict[str, Any]) -> Iterator[str]:
    """Yield covered and total lines and branches of each folder of the package, and of all."""
    folders: dict[str, list[dict[str, int]]] = {}
    for path, file in sorted(report["files"].items()):
        inside = path.partition("src/holdfast/")[2].split("/")
        folders.setdefault(f"{inside[0]}/" if inside[1:] else "(top)", []).append(file["summary"])
    yield f"\n{'src/holdfast':16}{'lines':>22}{'branches':>26}"
    for name, summaries in folders.items():
        yield coverage_row(name, summaries)
    yield coverage_row("total", [report["totals"]])


def coverage_row(name: str, summaries: list[dict[str, int]]) -> str:
    def share(covered: str, total: str) -> str:
        done, all_of_them = (sum(summary[key] for summary in summaries) for key in (covered, total))
        return f"{done:,} / {all_of_them:,}  {100 * done / (all_of_them or 1):6.2f} %"

    lines, branches = share("covered_lines", "num_statements"), share("covered_branches", "num_branches")
    return f"{name:12}{lines:>26}{branches:>26}"


# --- running ----------------------------------------------------------------------------------------------------------


def run(*command: str | Path) -> int:
    """Run in the foreground; the exit code is the command's, or 128 + n when signal n ended it."""
    child = subprocess.Popen(command, cwd=ROOT, env=child_environment())

    def pass_on(number: int, _: FrameType | None) -> None:
        child.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    try:
        code = child.wait()
    except KeyboardInterrupt:
        wait_out(child)
        raise
    return code if code >= 0 else 128 - code


def child_environment() -> dict[str, str]:
    """Return our environment, but let Python cache what it compiles.

    Container images often forbid it. Then each of the hundreds of processes of a test run compiles everything anew:
    a third of a second for `import holdfast` instead of half of that, and half a minute for all tests.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def wait_out(child: subprocess.Popen[bytes]) -> None:
    """The terminal sent Ctrl-C to the child as well: let it clean up, however often the user presses."""
    while child.poll() is None:
        try:
            child.wait()
        except KeyboardInterrupt:
            continue


def main() -> int:
    if sys.version_info < MINIMUM:
        sys.exit(f"Holdfast needs Python {MINIMUM[0]}.{MINIMUM[1]} or newer; this is {sys.version.split()[0]}")
    name, args = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("help", [])
    if name in {"help", "-h", "--help"}:
        print(__doc__.strip() if __doc__ else "")
        return 0
    if name not in COMMANDS:
        sys.exit(f"dev.py: no command {name!r}; there are {', '.join(COMMANDS)}")
    try:
        return COMMANDS[name](args)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
