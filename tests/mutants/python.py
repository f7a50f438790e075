"""Mutants of Python files."""

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from tests.mutants.sites import Mutant

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "*"),
}
EXTREMES = {"min": "max", "max": "min"}

Change = tuple[int, int, str, str]
"""Start, end, new text, name of the operator."""


def mutants(text: bytes, path: str) -> Iterator[Mutant]:
    tree = ast.parse(text)
    module = Module(text)
    for node, statement, unit in walk(tree, tree.body[0] if tree.body else tree, ""):
        for start, end, new, operator in changes(node, module):
            old = text[start:end].decode()
            yield Mutant(path, module.line(start), start, end, old, new, operator, *lines_of(statement), unit)


class Module:
    """Byte offsets of nodes."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._lines = [0]
        for line in text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def start(self, node: Any) -> int:
        return self._lines[node.lineno - 1] + int(node.col_offset)

    def end(self, node: Any) -> int:
        return self._lines[node.end_lineno - 1] + int(node.end_col_offset)

    def line(self, offset: int) -> int:
        return bisect_right(self._lines, offset)

    def find(self, pattern: str, start: int, end: int) -> tuple[int, int]:
        """The range of an operator between two operands, past brackets and comments."""
        gap = re.sub(rb"#[^\n]*", lambda comment: b" " * len(comment[0]), self.text[start:end])
        found = re.search((rf"\b{pattern}\b" if pattern[0].isalpha() else pattern).encode(), gap)
        assert found is not None, (pattern, gap)
        return start + found.start(), start + found.end()


def walk(node: ast.AST, statement: ast.AST, unit: str) -> Iterator[tuple[ast.AST, ast.AST, str]]:
    """Every node that is executed, the statement that it is a part of, and the function around it."""
    if isinstance(node, ast.JoinedStr):  # Before Python 3.12, positions inside are wrong.
        return
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    if isinstance(node, ast.stmt):
        statement = node
    yield node, statement, unit
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "type_params"}:
            continue
        inside = node.name if is_function(node) and field == "body" else unit
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from walk(child, statement, inside)


def is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def lines_of(statement: Any) -> tuple[int, int]:
    """The lines of a statement, without the block that it leads."""
    last = statement.end_lineno
    for field in ("body", "cases"):
        block = getattr(statement, field, None)
        if isinstance(block, list) and block:
            start = block[0].pattern.lineno if field == "cases" else block[0].lineno
            last = max(statement.lineno, start - 1)
    return statement.lineno, last


def changes(node: ast.AST, module: Module) -> Iterator[Change]:
    match node:
        case ast.Compare():
            yield from comparisons(node, module)
        case ast.BoolOp():
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield *module.find(old, module.end(left), module.start(right)), new, "and/or"
        case ast.UnaryOp(op=ast.Not()):
            yield module.start(node), module.start(node.operand), "", "not"
        case ast.BinOp() if type(node.op) in ARITHMETIC:
            old, new = ARITHMETIC[type(node.op)]
            yield *module.find(old, module.end(node.left), module.start(node.right)), new, "arithmetic"
        case ast.AugAssign() if type(node.op) in ARITHMETIC:
            old, new = ARITHMETIC[type(node.op)]
            yield *module.find(old, module.end(node.target), module.start(node.value)), new, "arithmetic"
        case ast.Constant(value=bool() as value):
            yield module.start(node), module.end(node), str(not value), "boolean"
        case ast.Constant(value=int() as value):
            yield module.start(node), module.end(node), str(value + 1), "constant"
        case ast.Call(func=ast.Name(id="min" | "max" as name)):
            yield module.start(node.func), module.end(node.func), EXTREMES[name], "min/max"
        case _:
            yield from statements(node, module)


def comparisons(node: ast.Compare, module: Module) -> Iterator[Change]:
    left: ast.expr = node.left
    for operator, right in zip(node.ops, node.comparators, strict=True):
        old, new = COMPARISONS[type(operator)]
        yield *module.find(old, module.end(left), module.start(right)), new, "comparison"
        left = right


def statements(node: ast.AST, module: Module) -> Iterator[Change]:
    match node:
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield module.start(value), module.end(value), "None", "return"
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield module.start(node), module.end(node), "pass", "dropped"
        case ast.Break():
            yield module.start(node), module.end(node), "continue", "break/continue"
        case ast.Continue():
            yield module.start(node), module.end(node), "break", "break/continue"
