"""Mutants are single, valid changes, and a seed always chooses the same ones."""

import ast
import random
from pathlib import Path

import pytest

from tests.mutants import python, sql
from tests.mutants.sites import Mutant, all_mutants, load, sample, save

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]


def results(mutants: list[Mutant], text: str) -> set[str]:
    return {" ".join(mutant.apply(text.encode()).decode().split()) for mutant in mutants}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a < b", {"a <= b"}),
        ("a >= (  # why >\n  b)", {"a > ( # why > b)"}),
        ("a < b < c", {"a <= b < c", "a < b <= c"}),
        ("a is  not b", {"a is b"}),
        ("a not in b", {"a in b"}),
        ("a and b and c", {"a or b and c", "a and b or c"}),
        ("not a", {"a"}),
        ("'é' + a * b", {"'é' - a * b", "'é' + a // b"}),
        ("a %= b", {"a *= b"}),
        ("x = 7", {"x = 8"}),
        ("x = True", {"x = False"}),
        ("x = min(a, b)", {"x = max(a, b)"}),
        ("f(a)", {"pass"}),
        ("def f():\n return a", {"def f(): return None"}),
        ("def f(x: Literal[1]) -> None:\n return None", set()),
        ("while a:\n break", {"while a: continue"}),
        ("if TYPE_CHECKING:\n x = 1", set()),
        ("x = f'{a + 1}'", set()),
    ],
)
def test_python(text: str, expected: set[str]) -> None:
    assert results(list(python.mutants(text.encode(), "a.py")), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WHERE a < :b", {"WHERE a <= :b"}),
        ("WHERE a = 'x = y' -- and z = 1", {"WHERE a <> 'x = y' -- and z = 1"}),
        ("UPDATE t SET a = 1, (b, c) = (2, 3)", set()),
        ("WHERE a BETWEEN b AND c", set()),
        ("WHERE a OR b", {"WHERE a AND b"}),
        ("WHERE a AND (b) ORDER BY c DESC", {"WHERE a OR (b) ORDER BY c DESC", "WHERE (b) ORDER BY c DESC"}
         | {"WHERE a ORDER BY c DESC", "WHERE a AND (b) ORDER BY c ASC"}),
        ("SELECT a + 1, -1", {"SELECT a - 1, -1"}),
        ("LIMIT :limit", {"LIMIT :limit + 1"}),
        ("ORDER BY a.b LIMIT", {"ORDER BY a.b DESC LIMIT"}),
        ("SELECT max(a), max", {"SELECT min(a), max"}),
        ("WHERE a IS NULL", {"WHERE a IS NOT NULL"}),
        ("WHERE a IS NOT NULL", {"WHERE a IS NULL"}),
        ("WHERE NOT EXISTS (b)", {"WHERE EXISTS (b)"}),
    ],
)  # fmt: skip
def test_sql(text: str, expected: set[str]) -> None:
    head = "-- name: verb "
    query = f"-- name: verb\n{text}"
    found = list(sql.mutants(query.encode(), "a.sql"))
    assert results(found, query) == {head + one for one in expected}
    assert {mutant.unit for mutant in found} <= {"verb"}


def test_of_migrations_only_functions_are_changed() -> None:
    text = (
        "CREATE TABLE a (b int CHECK (b > 0));\n"
        "CREATE FUNCTION f(a int) RETURNS int LANGUAGE sql AS $$\n SELECT a + 1\n$$;\n"
    )
    found = list(sql.mutants(text.encode(), "001_tables.sql"))
    assert [(mutant.unit, mutant.old, mutant.new, mutant.line) for mutant in found] == [("f()", "+", "-", 3)]


def test_a_mutant_knows_the_lines_that_a_test_must_execute() -> None:
    text = "def f():\n    if (a\n            or b):\n        return c\n"
    found = {mutant.operator: mutant for mutant in python.mutants(text.encode(), "a.py")}
    assert (found["and/or"].line, found["and/or"].first, found["and/or"].last) == (3, 2, 3)
    assert (found["return"].first, found["return"].last, found["return"].unit) == (4, 4, "f")


@pytest.fixture(scope="module")
def mutants() -> list[Mutant]:
    """Some hundred, of real code."""
    return list(all_mutants(ROOT, ["src/holdfast/core/sa*.py", "src/holdfast/store/sql/s*/r*.sql"]))


def test_a_seed_always_chooses_the_same(mutants: list[Mutant], tmp_path: Path) -> None:
    assert len(mutants) > 500
    chosen = sample(mutants, 300, 1)
    mutants = mutants.copy()
    random.Random(3).shuffle(mutants)
    assert sample(mutants, 300, 1) == chosen
    assert set(sample(mutants, 200, 1)) < set(chosen)
    assert sample(mutants, 300, 2) != chosen
    save(chosen, tmp_path / "chosen.json")
    assert load(tmp_path / "chosen.json", ROOT) == chosen


def test_a_list_for_other_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 7\n")
    save(python.mutants(path.read_bytes(), "a.py"), tmp_path / "list.json")
    path.write_text("xy = 7\n")
    with pytest.raises(ValueError, match=r"a\.py:1"):
        load(tmp_path / "list.json", tmp_path)


def test_every_mutant_of_a_sample_compiles(mutants: list[Mutant]) -> None:
    for mutant in sample((one for one in mutants if one.path.endswith(".py")), 40, 1):
        changed = mutant.apply((ROOT / mutant.path).read_bytes())
        assert changed != (ROOT / mutant.path).read_bytes()
        ast.parse(changed)
