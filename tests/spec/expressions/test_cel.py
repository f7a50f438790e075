"""Where CEL has a value, Holdfast has the same one: compared with the official implementation.

The places where the two differ on purpose are DIFFERENCES, and no others; docs/reference/expressions.md has the same.
"""

from pathlib import Path
from typing import Any

import pytest
from cel_expr_python import cel
from cel_expr_python.ext import ext_strings
from hypothesis import given, settings

from holdfast.core.expressions import Node, compile, parse_text, to_text
from tests.spec.expressions.typed import DATA, SENSIBLE, SIMPLE

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "expressions.md"
NAMES = ("yes", "i", "wide", "d", "s", "digits", "l", "numbers", "m", "deep", "none")
CEL = cel.NewEnv(variables=dict.fromkeys(NAMES, cel.Type.DYN), extensions=[ext_strings.ExtStrings()])


class Error:
    """What CEL has instead of a value."""

    def __repr__(self) -> str:
        return "error"


ERROR = Error()


def in_cel(text: str, data: dict[str, Any]) -> Any:
    try:
        result = CEL.compile(text, disable_check=True).eval(data=data)
    except Exception:
        return ERROR
    return ERROR if result.type().name() == "ERROR" else result.plain_value()


def here(text: str, data: dict[str, Any]) -> Any:
    node, problems = parse_text(text)
    assert problems == []
    assert node is not None
    return compile(node)(data)


def alike(one: Any, other: Any) -> bool:
    """Equal, and of the same kinds: CEL tells 1 from 1.0 and from true."""
    if type(one) is not type(other):
        return False
    if type(one) is list:
        return len(one) == len(other) and all(map(alike, one, other))
    if type(one) is dict:
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    return bool(one == other)


@given(SENSIBLE, DATA)
@settings(max_examples=150, deadline=None)
def test_where_cel_has_a_value_it_is_ours(tree: Node, data: dict[str, Any]) -> None:
    compare(tree, data)


@pytest.mark.parametrize("which", SIMPLE)
def test_each_operator_and_function_does_what_cels_does(which: str) -> None:
    @given(SIMPLE[which], DATA)
    @settings(max_examples=15, deadline=None, database=None)
    def each(tree: Node, data: dict[str, Any]) -> None:
        compare(tree, data)

    each()


def compare(tree: Node, data: dict[str, Any]) -> None:
    text = to_text(tree)
    theirs, ours = in_cel(text, data), compile(tree)(data)
    assert theirs is ERROR or alike(ours, theirs), f"{text} is {ours!r} here and {theirs!r} in CEL"


def test_the_comparison_compares_something() -> None:
    assert in_cel('s + "b"', {"s": "a"}) == "ab"
    assert in_cel("1 / 0", {}) is ERROR
    assert not alike(1, 1.0)
    assert not alike([True], [1])


MAP = {"m": {"a": 1}, "l": ["x"], "none": None}

DIFFERENCES: list[tuple[str, Any, Any]] = [
    # an expression, its value here, its value in CEL
    ("m.b", None, ERROR),
    ("m.b.c.d", None, ERROR),
    ("nobody", None, ERROR),
    ("has(nobody.a)", False, ERROR),
    ('has(m["a"])', True, ERROR),
    ("l[5]", None, ERROR),
    ("1 / 0", None, ERROR),
    ("1.0 / 0.0", None, float("inf")),
    ("1e308 * 10.0", None, float("inf")),
    ("9223372036854775807 + 1", None, ERROR),
    ("1 + 0.5", 1.5, ERROR),
    ('"a" + 1', None, ERROR),
    ('1 < "a"', None, ERROR),
    ("false < true", None, True),
    ('"a" in "abc"', None, ERROR),
    ("1 && true", True, ERROR),
    ('!""', True, ERROR),
    ('none ? "yes" : "no"', "no", ERROR),
    ('coalesce(none, "x")', "x", ERROR),
    ("bool(1)", True, ERROR),
    ("string(none)", None, ERROR),
    ("string(1000000.0)", "1000000", "1e+06"),
    ('int("x")', None, ERROR),
    ('int(" 5")', None, 5),
    ("int(true)", None, 1),
    ('double(" 1")', None, 1.0),
    ('double("inf")', None, float("inf")),
    ('"abc".substring(9)', None, ERROR),
    ("m.size().trim()", None, ERROR),
]


@pytest.mark.parametrize(("text", "ours", "theirs"), DIFFERENCES, ids=[text for text, *_ in DIFFERENCES])
def test_a_difference_that_is_meant(text: str, ours: Any, theirs: Any) -> None:
    found, in_theirs = here(text, MAP), in_cel(text, MAP)
    assert alike(found, ours)
    assert in_theirs is ERROR if theirs is ERROR else alike(in_theirs, theirs)


def test_the_page_lists_the_same_differences() -> None:
    page = PAGE.read_text()
    assert [text for text, *_ in DIFFERENCES if f"`{text}`" not in page] == []
