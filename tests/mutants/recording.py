"""A pytest plugin that records which tests execute which lines of the package, and which SQL queries.

Every xdist worker writes a part; `Coverage` below reads them as one. Lines of child processes are not seen.
"""

import gzip
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = "HOLDFAST_MUTANTS_RECORDING"
"""In the environment: where the parts go."""


class Queries(dict[str, Any]):
    """The named queries of a store, noting which are looked up."""

    def __init__(self, queries: dict[str, Any], seen: set[str], store: str) -> None:
        super().__init__(queries)
        self._seen = seen
        self._store = store

    def __getitem__(self, name: str) -> Any:
        self._seen.add(f"{self._store}:{name}")
        return super().__getitem__(name)


class Recorder:
    def __init__(self, folder: Path) -> None:
        import coverage

        self._folder = folder
        root = Path(__file__).parents[2]
        self._source = root / "src" / "holdfast"
        include = [f"{self._source}/core/*", f"{self._source}/store/*"]
        self._coverage = coverage.Coverage(data_file=None, config_file=False, include=include, concurrency=["thread"])
        self._coverage.start()
        self._seen: set[str] = set()
        self._queries: dict[str, list[str]] = {}
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        watch_queries(self._seen)
        self._seen.clear()
        self._coverage.switch_context(item.nodeid)
        started = time.monotonic()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = time.monotonic() - started
            self._queries[item.nodeid] = sorted(self._seen)

    def pytest_sessionfinish(self) -> None:
        if not self._seconds:  # The controller of xdist runs no test.
            return
        self._coverage.stop()
        data = self._coverage.get_data()
        lines: dict[str, dict[str, list[int]]] = {}
        for path in data.measured_files():
            tests = defaultdict[str, list[int]](list)
            for line, names in data.contexts_by_lineno(path).items():
                for name in names:
                    tests[name].append(line)
            lines[str(Path(path).relative_to(self._source.parents[1]))] = {**tests}
        part = {"seconds": self._seconds, "queries": self._queries, "lines": lines}
        name = os.environ.get("PYTEST_XDIST_WORKER", "main")
        (self._folder / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps(part).encode(), 3))


def watch_queries(seen: set[str]) -> None:
    """Replace the queries wherever they are used, in modules that may have come with the last test."""
    for store in ("sqlite", "postgres"):
        statements = sys.modules.get(f"holdfast.store.{store}.statements")
        if statements is None:
            continue
        for name, module in list(sys.modules.items()):
            known = vars(module).get("QUERIES") if name.startswith(f"holdfast.store.{store}.") else None
            if known is not None and not isinstance(known, Queries):
                module.QUERIES = Queries(known, seen, store)  # type: ignore[attr-defined]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder(Path(os.environ[FOLDER])), "holdfast-mutants-recorder")
