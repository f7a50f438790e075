"""Tests wait by `tests/waiting.py`: a bare sleep is too short for a slow machine, and too long for all others."""

import ast
from pathlib import Path

from tests.architecture.source import ROOT, nodes

TESTS = ROOT / "tests"
REASON = "# sleeps: "
"""At the end of a line that has to sleep by itself, before the reason."""

MODULES = sorted({path.relative_to(TESTS) for path in TESTS.rglob("*.py")} - {Path("waiting.py")})


def bare_sleeps(text: str) -> list[int]:
    """The lines that use `time.sleep` and do not say why."""
    lines = text.splitlines()
    used = {node.lineno for node in nodes(text) if is_sleep(node)}  # type: ignore[attr-defined]
    return sorted(line for line in used if not lines[line - 1].partition(REASON)[2])


def is_sleep(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "time" and any(name.name == "sleep" for name in node.names)
    return isinstance(node, ast.Attribute) and ast.unparse(node).endswith("time.sleep")


def test_no_test_sleeps_by_itself() -> None:
    found = [f"{module}:{line}" for module in MODULES for line in bare_sleeps((TESTS / module).read_text())]
    assert found == []


def test_bare_sleeps_are_found() -> None:
    assert bare_sleeps("import time\ntime.sleep(1)") == [2]
    assert bare_sleeps("Thread(target=time.sleep, args=[9])") == [1]
    assert bare_sleeps("from time import sleep") == [1]
    assert bare_sleeps("time.sleep(1)  # sleeps: until the moon is full") == []
    assert bare_sleeps("time.sleep(1)  # sleeps: ") == [1]
