"""Single-point changes of the code: where they are possible, and what each makes of the text.

A mutant replaces one range of bytes of one file. The ranges of Python files come from the positions in the syntax tree,
those of SQL files from `sql.py`; everything around them stays as it is.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

RULES = ("src/holdfast/core/**/*.py",)
STEPS = (
    "src/holdfast/store/*.py",
    "src/holdfast/store/sqlite/*.py",
    "src/holdfast/store/postgres/*.py",
    "src/holdfast/store/sql/shared/*.sql",
    "src/holdfast/store/sql/sqlite/*.sql",
    "src/holdfast/store/sql/postgres/*.sql",
    "src/holdfast/store/sql/migrations/postgres/*.sql",  # Functions only: there PostgreSQL claims.
)


@dataclass(frozen=True)
class Mutant:
    path: str
    line: int
    start: int
    end: int
    old: str
    new: str
    operator: str
    first: int
    """The first line of the statement around it, which a test must execute to notice the change; `last` likewise."""
    last: int
    unit: str = ""
    """What is executed: a function's name (empty at the top of a module), or the name of an SQL query or function."""

    def apply(self, text: bytes) -> bytes:
        if text[self.start : self.end].decode() != self.old:
            raise ValueError(f"{self.path}:{self.line} is not the text that this mutant was made for")
        return text[: self.start] + self.new.encode() + text[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}  {self.operator}: {shown(self.old)} → {shown(self.new) or 'nothing'}"


def shown(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 60 else f"{words[:40]} … {words[-17:]}"


def all_mutants(root: Path, patterns: Iterable[str] = (*RULES, *STEPS)) -> Iterator[Mutant]:
    from tests.mutants import python, sql

    for path in sorted({path for pattern in patterns for path in root.glob(pattern)}):
        module = python if path.suffix == ".py" else sql
        yield from module.mutants(path.read_bytes(), str(path.relative_to(root)))


def sample(mutants: Iterable[Mutant], size: int, seed: int) -> list[Mutant]:
    """Choose uniformly. A mutant keeps its rank for a seed as long as its file stays the same: samples before and after
    a change of other files have most mutants in common."""
    known = list(mutants)
    return sorted(sorted(known, key=lambda one: rank(one, seed))[:size], key=lambda one: (one.path, one.start, one.new))


def rank(mutant: Mutant, seed: int) -> str:
    key = f"{seed} {mutant.path} {mutant.start} {mutant.operator} {mutant.new}"
    return hashlib.sha256(key.encode()).hexdigest()


def save(mutants: Iterable[Mutant], path: Path) -> None:
    path.write_text(json.dumps([asdict(one) for one in mutants], indent=1, ensure_ascii=False))


def load(path: Path, root: Path) -> list[Mutant]:
    """Read a saved list; raises ValueError if the code is not the same any more."""
    mutants = [Mutant(**one) for one in json.loads(path.read_text())]
    for mutant in mutants:
        mutant.apply((root / mutant.path).read_bytes())
    return mutants
