"""Which tests execute a mutant's code, as `recording.py` has found it."""

import gzip
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.mutants.sites import Mutant
from tests.mutants.sql import FUNCTION

CALL = re.compile(r"\bholdfast_\w+(?=\()")


class Covering:
    def __init__(self, folder: Path, root: Path) -> None:
        self.seconds: dict[str, float] = {}
        self._by_line: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._by_file: dict[str, set[str]] = defaultdict(set)
        self._by_query: dict[str, set[str]] = defaultdict(set)
        for path in sorted(folder.glob("*.json.gz")):
            self._add(json.loads(gzip.decompress(path.read_bytes())))
        self._by_query.update(by_function(root, self._by_query))
        self._by_function: dict[str, list[str]] = defaultdict(list)
        for test in self.seconds:
            self._by_function[test.partition("[")[0]].append(test)

    def _add(self, part: dict[str, Any]) -> None:
        self.seconds |= part["seconds"]
        for path, tests in part["lines"].items():
            for test, lines in tests.items():
                if test not in self.seconds:  # Imports, before the first test.
                    continue
                self._by_file[path].add(test)
                for line in lines:
                    self._by_line[path][line].add(test)
        for test, queries in part["queries"].items():
            for query in queries:
                self._by_query[query].add(test)

    def tests(self, mutant: Mutant) -> set[str]:
        """The recorded tests that execute the mutant. Code at the top of a module is executed by all that use it."""
        if mutant.path.endswith(".sql"):
            folder, stem = Path(mutant.path).parent.name, Path(mutant.path).stem
            name = mutant.unit if mutant.unit.endswith("()") else f"{stem}.{mutant.unit}"
            stores = ("sqlite", "postgres") if folder == "shared" else (folder,)
            return set().union(*(self._by_query.get(f"{store}:{name}", ()) for store in stores))
        if not mutant.unit:
            return self._by_file.get(mutant.path, set())
        known = self._by_line.get(mutant.path, {})
        return set().union(*(known.get(line, ()) for line in range(mutant.first, mutant.last + 1)))

    def related(self, covering: set[str], others: list[str]) -> list[str]:
        """Of tests that were not recorded, those of the same test functions, then those of the same files."""
        functions = {test.partition("[")[0] for test in covering}
        files = {test.partition("::")[0] for test in covering}
        near = [test for test in others if test.partition("[")[0] in functions]
        wide = [test for test in others if test.partition("::")[0] in files]
        return list(dict.fromkeys([*near, *wide]))

    def cost(self, test: str) -> float:
        """Seconds that a test took, or what others of its function took, or a guess."""
        if test in self.seconds:
            return self.seconds[test]
        known = [self.seconds[one] for one in self._by_function.get(test.partition("[")[0], ())]
        return max(known, default=5.0)


def by_function(root: Path, by_query: dict[str, set[str]]) -> dict[str, set[str]]:
    """PostgreSQL's functions are executed by whoever runs a query that calls them, directly or through others."""
    from tests.mutants.sql import units

    folder = root / "src/holdfast/store/sql"
    bodies: dict[str, str] = {}
    for path in sorted((folder / "migrations/postgres").glob("*.sql")):
        for function in FUNCTION.finditer(path.read_text()):
            bodies[function[1]] = function[2]
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted([*(folder / "shared").glob("*.sql"), *(folder / "postgres").glob("*.sql")]):
        text = path.read_text()
        for name, start, end in units(text):
            for called in reachable(set(CALL.findall(text[start:end])), bodies):
                found[f"postgres:{called}()"] |= by_query.get(f"postgres:{path.stem}.{name}", set())
    return found


def reachable(called: set[str], bodies: dict[str, str]) -> set[str]:
    known: set[str] = set()
    waiting = list(called)
    while waiting:
        name = waiting.pop()
        if name not in known:
            known.add(name)
            waiting += CALL.findall(bodies.get(name, ""))
    return known
