"""A function past 60 lines cannot be read at a glance. A file is as long as its subject."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import modules, nodes, read

MOST_FUNCTION_LINES = 60


def size_faults(text: str, module: Path) -> list[str]:
    return list(long_functions(text, module))


def long_functions(text: str, module: Path) -> Iterator[str]:
    for node in nodes(text):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and length(node) > MOST_FUNCTION_LINES:
            yield f"{module}:{node.lineno}: {node.name} has {length(node)} lines"


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines without the docstring: explaining more must not cost anything."""
    docstring = function.body[0] if ast.get_docstring(function) is not None else None
    return span(function) - (span(docstring) if docstring else 0)


def span(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


@pytest.mark.parametrize("module", modules(), ids=str)
def test_functions_are_small(module: Path) -> None:
    assert size_faults(read(module), module) == []


def test_a_long_function_is_caught() -> None:
    assert size_faults("def f():\n" + "    x = 1\n" * 59, Path("a.py")) == []
    assert size_faults("async def f():\n" + "    x = 1\n" * 60, Path("a.py")) == ["a.py:1: f has 61 lines"]


def test_a_docstring_does_not_count() -> None:
    assert size_faults('def f():\n    """Why.\n' + "\n" * 50 + '    """\n' + "    x = 1\n" * 50, Path("a.py")) == []
