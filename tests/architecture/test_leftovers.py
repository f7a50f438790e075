"""A function has one docstring: a text further down is a leftover that says nothing to anyone."""

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from tests.architecture.source import findings, nodes


def leftovers(text: str, module: Path) -> Iterator[str]:
    """Lines of a function's body that are nothing but a text: neither its docstring nor that of an attribute."""
    for node in nodes(text):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for before, one in pairwise(node.body):
                if is_text(one) and not isinstance(before, ast.Assign | ast.AnnAssign):
                    yield f"{module}:{one.lineno}"


def is_text(one: ast.stmt) -> bool:
    return isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str)


def test_a_second_docstring_is_caught() -> None:
    two = 'def f():\n    """One."""\n    return 1\n    """Two."""\n'
    assert list(leftovers(two, Path("a.py"))) == ["a.py:4"]
    assert list(leftovers('def f():\n    """One."""\n\n\nX = 1\n"""Of X."""\n', Path("a.py"))) == []


def test_no_function_has_two_docstrings() -> None:
    assert findings(leftovers) == []
