"""The tables of failures name the tests that would see them; those tests have to be there."""

import ast
import re

import pytest

from tests.architecture.source import ROOT

TABLES = ["topics/test_topic_pitfalls.py"]
TESTS = ROOT / "tests"


def named(table: str) -> list[str]:
    """What the last column of a module's docstring says."""
    prose = ast.get_docstring(ast.parse((TESTS / table).read_text())) or ""
    return re.findall(r"\| (\S+::\S+) \|$", prose, re.MULTILINE)


def defined(path: str) -> set[str]:
    tree = ast.parse((TESTS / path).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def missing(names: list[str]) -> list[str]:
    found = [(name, *name.split("::")) for name in names]
    return [name for name, path, test in found if not (TESTS / path).exists() or test not in defined(path)]


@pytest.mark.parametrize("table", TABLES)
def test_every_named_test_exists(table: str) -> None:
    names = named(table)
    assert len(names) > 40, "the table is not read"
    assert missing(names) == []


def test_every_test_that_users_are_told_of_exists() -> None:
    names = re.findall(r"`(\S+::\S+)`", (ROOT / "docs" / "reliability.md").read_text())
    assert len(names) > 40, "the table is not read"
    assert missing(names) == []


@pytest.mark.parametrize("table", TABLES)
def test_every_test_of_the_table_is_named_in_it(table: str) -> None:
    own = {name.removeprefix(f"{table}::") for name in named(table) if name.startswith(table)}
    assert {name for name in defined(table) if name.startswith("test_")} == own
