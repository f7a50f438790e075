"""A process that has imported pytest and other packages, but not Holdfast, and forks for each run of tests.

It is a script, not a module of `tests`: those are imported by the forked processes, from the copy with the mutant. It
reads one run as JSON per line from stdin and answers with one line of JSON each.
"""

import importlib.metadata
import json
import os
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

HEAVY = [
    "psycopg",
    "apsw",
    "sqlalchemy.ext.asyncio",
    "hypothesis.stateful",
    "httpx",
    "boto3",
    "rich.console",
    "cronsim",
]
FOREIGN = 99
"""The exit code if the tests have imported Holdfast from somewhere else."""


class Chosen:
    """Runs the chosen tests in the given order, with the shared PostgreSQL, and notes what came of them."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._tests = {test: number for number, test in enumerate(order["tests"])}
        self._desk = order["desk"]
        self.passed = 0
        self.killer = ""
        self.reason = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        config.workerinput = {"postgres_desk": self._desk}  # type: ignore[attr-defined]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._tests), key=lambda item: self._tests[item.nodeid]
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed += report.when == "call" and report.passed
        if report.failed and not self.killer:
            self.killer, self.reason = report.nodeid, str(report.longrepr)[-2000:]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.killer:
            self.killer, self.reason = report.nodeid or "collection", str(report.longrepr)[-2000:]


def run_tests(order: dict[str, Any], result: Path) -> None:
    """In the forked process."""
    os.setsid()
    log = os.open(result.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, target in enumerate((null, log, log)):
        os.dup2(target, number)
    os.environ["PYTEST_XDIST_WORKER"] = order["name"]  # The name of its database.
    chosen = Chosen(order)
    files = list(dict.fromkeys(test.partition("::")[0] for test in order["tests"]))
    options = ["-x", "-q", "-p", "no:cacheprovider", "--tb=short", f"--timeout={order['timeout']}"]
    code = int(pytest.main([*options, *(["--long"] if order["long"] else []), *files], plugins=[chosen]))
    module = sys.modules.get("holdfast")
    if module is not None and not str(module.__file__).startswith(f"{os.getcwd()}/src/"):
        code = FOREIGN
    told = {"code": code, "passed": chosen.passed, "killer": chosen.killer, "reason": chosen.reason}
    result.write_text(json.dumps(told))
    sys.stdout.flush()
    os._exit(0)


def serve(order: dict[str, Any]) -> dict[str, Any]:
    result = Path.cwd() / "result.json"
    result.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        try:
            run_tests(order, result)
        finally:
            os._exit(1)
    handle = os.pidfd_open(child)
    ended = bool(select.select([handle], [], [], order["seconds"])[0])
    with suppress(ProcessLookupError):  # It, and what its tests have left.
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(handle)
    if not ended:
        return {"code": -1, "passed": 0, "killer": "", "reason": "the run was stopped"}
    if not result.exists():
        return {"code": -2, "passed": 0, "killer": "", "reason": "the process of the tests died"}
    return json.loads(result.read_text())  # type: ignore[no-any-return]


def warm_up() -> None:
    for name in HEAVY:
        with suppress(ImportError):
            importlib.import_module(name)
    for point in importlib.metadata.entry_points(group="pytest11"):
        if not point.value.startswith("holdfast"):
            point.load()
    ours = [name for name in sys.modules if name.split(".")[0] in {"holdfast", "tests"}]
    assert not ours, f"imported too early: {ours}"


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    sys.path.insert(0, os.getcwd())
    warm_up()
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(serve(json.loads(line))), file=answers, flush=True)
