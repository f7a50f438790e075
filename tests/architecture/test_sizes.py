"""A function past 60 lines cannot be read at a glance. A file is as long as its subject."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import findings, nodes

MOST_FUNCTION_LINES = 60


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


def test_functions_are_small() -> None:
    assert findings(long_functions) == []


def test_a_long_function_is_caught() -> None:
    assert list(long_functions("def f():\n" + "    x = 1\n" * 59, Path("a.py"))) == []
    assert list(long_functions("async def f():\n" + "    x = 1\n" * 60, Path("a.py"))) == ["a.py:1: f has 61 lines"]


def test_a_docstring_does_not_count() -> None:
    text = 'def f():\n    """Why.\n' + "\n" * 50 + '    """\n' + "    x = 1\n" * 50
    assert list(long_functions(text, Path("a.py"))) == []
