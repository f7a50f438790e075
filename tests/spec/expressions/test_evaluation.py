"""Every rule of evaluation, for good data and for any data."""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import ExpressionTooCostly, HoldfastError
from holdfast.core.expressions import Node, compile, parse_text, values
from tests.spec.expressions.trees import ABOUT_DATA, EXPRESSIONS, JSON, ODD_DATA, Nasty

INCIDENT: dict[str, Any] = {
    "payload": {
        "incident": {"id": "P1", "title": "Disk full", "urgency": "high", "tags": ["a", "b"], "count": 7},
        "none": None,
        "zero": 0,
        "text": "",
        "items": [],
        "map": {},
        "half": 0.5,
        "huge": 2**64,
        "yes": True,
        "list": [1, None, "x"],
    },
    "headers": {"X-Kind": "ping", "in": "side"},
}


def run(text: str, data: dict[str, Any] = INCIDENT) -> Any:
    node, problems = parse_text(text)
    assert problems == []
    assert node is not None
    return compile(node)(data)


RULES: list[tuple[str, Any]] = [
    # the seed's own
    ("payload.incident.title", "Disk full"),
    ('payload.incident.urgency == "high" ? "critical" : "high"', "critical"),
    ('payload.incident.urgency == "low" ? "critical" : "high"', "high"),
    ('"[GitHub] " + payload.incident.title', "[GitHub] Disk full"),
    # paths
    ("nothing", None),
    ("payload.nothing", None),
    ("payload.nothing.further.on", None),
    ("payload.incident.title.length", None),
    ("payload.incident.__class__", None),
    ('headers["X-Kind"]', "ping"),
    ("headers.in", "side"),
    ('headers["none"]', None),
    ("headers[0]", None),
    ("payload.list[2]", "x"),
    ("payload.list[2.0]", "x"),
    ("payload.list[0.5]", None),
    ("payload.list[3]", None),
    ("payload.list[-1]", None),
    ("payload.list[true]", None),
    ('payload.list["0"]', None),
    ("payload.incident.title[0]", None),
    ('{"a": {"b": 5}}.a.b', 5),
    ("[[1, 2]][0][1]", 2),
    # truth
    *((f"{value} ? 1 : 2", 2) for value in ("null", "false", "0", "0.0", '""', "[]", "{}", "payload.map", "nothing")),
    *((f"{value} ? 1 : 2", 1) for value in ("true", "-1", "0.5", '"0"', "[0]", '{"": null}', "payload", '"false"')),
    ("!null", True),
    ('!"a"', False),
    ("1 && 2", True),
    ('"" || []', False),
    ("null || 5", True),
    ("5 && null", False),
    # equality
    ("1 == 1.0", True),
    ("1 == true", False),
    ("0 == false", False),
    ('1 == "1"', False),
    ("null == false", False),
    ("nothing == null", True),
    ("payload.none == nothing", True),
    ("nothing != null", False),
    ('payload != "payload"', True),
    ("[1, [2.0]] == [1.0, [2]]", True),
    ("[1] == [true]", False),
    ('{"a": [null]} == {"a": [nothing]}', True),
    ('{"a": 1} == {"b": 1}', False),
    ('{"a": 1} == {"a": 1, "b": null}', False),
    ("[] == {}", False),
    # order
    ("1 < 1.5", True),
    ("2 >= 2.0", True),
    ('"a" < "b"', True),
    ('"Z" < "a"', True),
    ('1 < "2"', None),
    ("null < 1", None),
    ("false < true", None),
    ("[1] < [2]", None),
    ("nothing > 1", None),
    ("nothing > 1 ? 1 : 2", 2),
    # in
    ('"a" in payload.incident.tags', True),
    ('"c" in payload.incident.tags', False),
    ("1.0 in [1]", True),
    ("true in [1]", False),
    ("null in payload.list", True),
    ('"in" in headers', True),
    ("1 in headers", False),
    ('"a" in "abc"', None),
    ('"a" in nothing', None),
    # arithmetic
    ("1 + 2", 3),
    ("1 + 0.5", 1.5),
    ('"a" + "b"', "ab"),
    ("[1] + [null]", [1, None]),
    ('"a" + 1', None),
    ('"a" + nothing', None),
    ("true + 1", None),
    ("{} + {}", None),
    ("5 - 7", -2),
    ('"a" - "b"', None),
    ("3 * 1.5", 4.5),
    ('"a" * 3', None),
    ("[1] * 3", None),
    ("7 / 2", 3),
    ("-7 / 2", -3),
    ("7 / -2", -3),
    ("-7 / -2", 3),
    ("7.0 / 2", 3.5),
    ("7 % 3", 1),
    ("-7 % 3", -1),
    ("7 % -3", 1),
    ("7.5 % 2", None),
    ("1 / 0", None),
    ("1 / 0.0", None),
    ("1 % 0", None),
    ("-payload.incident.count", -7),
    ('-"a"', None),
    ("-true", None),
    ("9223372036854775807 + 1", None),
    ("-9223372036854775807 - 1", -(2**63)),
    ("-9223372036854775807 - 2", None),
    ("-(-9223372036854775807 - 1)", None),
    ("(-9223372036854775807 - 1) / -1", None),
    ("4294967296 * 4294967296", None),
    ("payload.huge * 1", None),
    ("payload.huge - 9223372036854775807", None),
    ("1e308 * 10", None),
    ("1e308 + 1e308", None),
    # functions
    ("has(payload.none)", True),
    ("has(payload.nothing)", False),
    ("has(nothing.nothing)", False),
    ("has(payload.incident.title.x)", False),
    ('has(headers["X-Kind"])', True),
    ("has(payload.list[1])", True),
    ("has(payload.list[3])", False),
    ("coalesce(nothing, payload.none, 0, 1)", 0),
    ("coalesce(nothing)", None),
    ('size("é😀")', 2),
    ("size([1, 2])", 2),
    ("payload.incident.size()", 5),
    ("size(5)", None),
    ("size(null)", None),
    ("string(5)", "5"),
    ("string(5.0)", "5"),
    ("string(0.1)", "0.1"),
    ("string(true)", "true"),
    ('string("a")', "a"),
    ("string(null)", None),
    ("string([1])", None),
    ("string(payload.huge)", None),
    ('int("-12")', -12),
    ('int("12a")', None),
    ('int(" 12")', None),
    ('int("1_2")', None),
    ('int("٣")', None),
    ('int("9223372036854775808")', None),
    ("int(1.9)", 1),
    ("int(-1.9)", -1),
    ("int(1e300)", None),
    ("int(true)", None),
    ("int([])", None),
    ('double("1e3")', 1000.0),
    ('double("x")', None),
    ('double("inf")', None),
    ('double("1e999")', None),
    ("double(2)", 2.0),
    ("double(payload.huge)", None),
    ('bool("true")', True),
    ('bool("False")', False),
    ('bool("yes")', None),
    ("bool(null)", False),
    ("bool([0])", True),
    ('timestamp("2026-11-16T12:00:05+02:00")', "2026-11-16T10:00:05.000000Z"),
    ('timestamp("2026-11-16t10:00:05.5z")', "2026-11-16T10:00:05.500000Z"),
    ('timestamp("2026-11-16T10:00:05Z") < timestamp("2026-11-16T10:00:05.5Z")', True),
    ("timestamp(1)", "1970-01-01T00:00:01.000000Z"),
    ("timestamp(9223372036854775807)", None),
    ('timestamp("0001-01-01T00:00:00+23:00")', None),
    ('timestamp("2026-02-30T00:00:00Z")', None),
    ('timestamp("2026-11-16")', None),
    ("timestamp(true)", None),
    # methods
    ('"abc".contains("b")', True),
    ('"abc".contains(1)', None),
    ('nothing.contains("b")', None),
    ('"abc".startsWith("ab")', True),
    ('"abc".endsWith("ab")', False),
    ('"ÀB".lowerAscii()', "Àb"),
    ('"àb".upperAscii()', "àB"),
    ('" \\n a b\\u00a0".trim()', "a b"),
    ('"\\u001ca\\u0085".trim()', "\x1ca"),
    ('"aaa".replace("a", "bb")', "bbbbbb"),
    ('"aaa".replace("a", "b", 2)', "bba"),
    ('"aaa".replace("a", "b", 0)', "aaa"),
    ('"ab".replace("", "-")', "-a-b-"),
    ('"a,b,c".split(",")', ["a", "b", "c"]),
    ('"a,b,c".split(",", 2)', ["a", "b,c"]),
    ('"a,b,c".split(",", 0)', []),
    ('"abc".split("")', ["a", "b", "c"]),
    ('"abc".split("", 2)', ["a", "bc"]),
    ('["a", "b"].join("-")', "a-b"),
    ('["a", "b"].join()', "ab"),
    ('["a", 1].join("-")', None),
    ("[].join()", ""),
    ('"abc".substring(1)', "bc"),
    ('"abc".substring(1, 2)', "b"),
    ('"abc".substring(2, 1)', None),
    ('"abc".substring(4)', None),
    ('"abc".substring(-1)', None),
    ('"abc".charAt(2)', "c"),
    ('"abc".charAt(3)', ""),
    ('"abc".charAt(4)', None),
    ('"abcb".indexOf("b")', 1),
    ('"abcb".indexOf("b", 2)', 3),
    ('"abc".indexOf("x")', -1),
    ('"abc".indexOf("a", 4)', None),
    ('"abc".indexOf("a", true)', None),
    # literals
    ('{"k": [payload.incident.id, nothing]}', {"k": ["P1", None]}),
]


@pytest.mark.parametrize(("text", "value"), RULES, ids=[text for text, _ in RULES])
def test_a_rule(text: str, value: Any) -> None:
    found = run(text)
    assert found == value
    assert type(found) is type(value)


def test_the_right_side_is_looked_at_only_if_it_matters() -> None:
    wide = {"big": ["x" * 500_000] * 4}
    too_much = "size(big.join()) > 0"
    assert run(f"true || {too_much}", wide) is True
    assert run(f"false && {too_much}", wide) is False
    assert run(f"true ? 1 : {too_much}", wide) == 1
    assert run(f"coalesce(1, {too_much})", wide) == 1
    with pytest.raises(ExpressionTooCostly):
        run(f"false || {too_much}", wide)


@given(ABOUT_DATA, st.fixed_dictionaries({"a": ODD_DATA, "b": ODD_DATA}))
@settings(max_examples=200, deadline=None)
def test_any_expression_has_a_value_for_any_data(tree: Node, data: dict[str, Any]) -> None:
    found = compile(tree)(data)
    assert type(found) in values.KNOWN
    if type(found) is int and not any(found is part for part in numbers(data)):
        assert -(2**63) <= found < 2**63


def numbers(data: Any) -> list[int]:
    if type(data) in (list, dict):
        return [number for part in (data if type(data) is list else data.values()) for number in numbers(part)]
    return [data] if type(data) is int else []


@given(EXPRESSIONS, st.dictionaries(st.sampled_from(["a", "b", "payload", "headers"]), JSON, max_size=4))
@settings(max_examples=200, deadline=None)
def test_evaluation_changes_nothing_and_repeats(tree: Node, data: dict[str, Any]) -> None:
    before = repr(data)
    evaluate = compile(tree)
    assert repr(evaluate(data)) == repr(evaluate(data))
    assert repr(data) == before


def test_foreign_objects_count_as_null() -> None:
    data = {"a": {"b": Nasty()}, "n": Nasty(), "t": (1,), "l": [Nasty()]}
    assert run("[n, a.b, t, l[0], n.x, n == null, a.b ? 1 : 2, l == [null], size(n)]", data) == [
        *([None] * 5),
        *(True, 2, True, None),
    ]


BIG = {"big": "x" * 900_000, "many": ["y"] * 90_000, "wide": {"a": ["z" * 1_000] * 900}}


@pytest.mark.parametrize(
    "text",
    [
        "big + big",
        'big.replace("x", "xx")',
        'big.replace("", "--")',
        "many.join(big)",
        'big.split("x")',
        'big.split("")',
        "many + many + many + many + many + many + many + many + many + many + many + many",
        "[big, big]",
        '{"a": big, "b": big}',
        "[wide, wide]",
        "many == many && many == many && many == many",
        "[] in many || [] in many",
        "big.upperAscii() + big.lowerAscii()",
        " || ".join(['big.contains("y")'] * 16 + ["big.indexOf('y') > 0"] * 16),
    ],
)
def test_what_would_take_too_much_is_stopped_in_time(text: str) -> None:
    node, _ = parse_text(text)
    assert node is not None
    evaluate = compile(node)
    begun = time.thread_time()
    with pytest.raises(ExpressionTooCostly, match="for this message"):
        evaluate(BIG)
    assert time.thread_time() - begun < 3, "it takes hundredths of a second"


def test_a_small_thing_of_a_large_message_is_no_trouble() -> None:
    assert run('big.contains("y") || "y" in many', BIG) is True
    assert run("wide.a[0].size()", BIG) == 1_000
    assert run("wide", BIG) is BIG["wide"]


def test_data_that_contains_itself_ends() -> None:
    ring: list[Any] = []
    ring.append(ring)
    other: list[Any] = []
    other.append(other)
    for text in ("a == b", "[a]", "a in [b]"):
        with pytest.raises(ExpressionTooCostly):
            run(text, {"a": ring, "b": other})


def test_each_evaluation_has_its_own_allowance() -> None:
    node, _ = parse_text("big.upperAscii()")
    assert node is not None
    evaluate = compile(node)
    for _ in range(3):
        assert len(evaluate(BIG)) == 900_000


def test_the_error_is_one_of_holdfast() -> None:
    assert issubclass(ExpressionTooCostly, HoldfastError)
