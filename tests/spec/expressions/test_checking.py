"""Mistakes are found before any message comes, at their place, and with a way out."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.expressions import Node, assignable, check, compile, parse_text, show, to_text
from holdfast.core.expressions.tree import FunctionCall, Name
from holdfast.core.expressions.types import (
    BOOL,
    DOUBLE,
    INT,
    JSON,
    NULL,
    STRING,
    TIME,
    EnumOf,
    ListOf,
    MapOf,
    ObjectOf,
    OptionalOf,
    Type,
    common,
    optional,
)
from tests.spec.expressions.typed import DATA, SENSIBLE

STATUS = EnumOf(("open", "closed"))
SCOPE: dict[str, Type] = {
    "payload": JSON,
    "headers": MapOf(STRING),
    "source_ip": STRING,
    "received_at": TIME,
    "attempts": INT,
    "price": DOUBLE,
    "urgent": BOOL,
    "status": STATUS,
    "note": OptionalOf(STRING),
    "limit": OptionalOf(INT),
    "tags": ListOf(STRING),
    "numbers": ListOf(INT),
    "customer": ObjectOf({"name": STRING, "age": INT, "home": OptionalOf(ObjectOf({"city": STRING}))}),
}


def checked(text: str) -> tuple[Type, list[str]]:
    node, problems = parse_text(text)
    assert problems == []
    assert node is not None
    found, wrong = check(node, SCOPE)
    return found, [
        f"{problem.span.start}: {problem.message}{f' ({problem.hint})' if problem.hint else ''}" for problem in wrong
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("null", "null"),
        ("payload.incident.title", "json"),
        ('payload.incident.urgency == "high" ? "critical" : "high"', "enum(critical, high)"),
        ('urgent ? "a" : null', 'optional "a"'),
        ('urgent ? "a" : source_ip', "string"),
        ("urgent ? 1 : 1.5", "double"),
        ('urgent ? 1 : "a"', "json"),
        ("headers.host", "optional string"),
        ('headers["x"]', "optional string"),
        ("tags[0]", "optional string"),
        ("customer.name", "string"),
        ('customer["name"]', "string"),
        ("customer.home.city", "optional string"),
        ("customer[source_ip]", "json"),
        ("attempts + 1", "int"),
        ("attempts * 1.5", "double"),
        ("attempts / 2", "int"),
        ("attempts / attempts", "optional int"),
        ("attempts % 0", "optional int"),
        ("limit + 1", "optional int"),
        ("-limit", "optional int"),
        ('"a" + source_ip', "string"),
        ('"a" + payload.x', "json"),
        ("tags + ['x']", "list<string>"),
        ("[1, 2.0]", "list<double>"),
        ("[1, null]", "list<optional int>"),
        ("[]", "list<json>"),
        ('{"a": attempts}', "object with a"),
        ("attempts < 5", "bool"),
        ("limit < 5", "optional bool"),
        ("payload.x < 5", "optional bool"),
        ("timestamp(received_at) > timestamp('2026-11-16T00:00:00Z')", "optional bool"),
        ("timestamp(received_at)", "time"),
        ("timestamp(attempts)", "time"),
        ("status == 'open'", "bool"),
        ("'x' in tags", "bool"),
        ("status in ['open', 'closed']", "bool"),
        ("source_ip in headers", "bool"),
        ("source_ip in payload.list", "optional bool"),
        ("!note", "bool"),
        ("note && limit", "bool"),
        ("has(customer.home)", "bool"),
        ("coalesce(note, 'none')", "string"),
        ("coalesce(note, null)", "optional string"),
        ("coalesce(null)", "null"),
        ("size(tags)", "int"),
        ("note.size()", "optional int"),
        ("string(attempts)", "string"),
        ("string(payload.x)", "optional string"),
        ("int(source_ip)", "optional int"),
        ("int(price)", "int"),
        ("double(attempts)", "double"),
        ("bool(payload)", "bool"),
        ("bool(source_ip)", "optional bool"),
        ("source_ip.split('.')", "list<string>"),
        ("note.split('.')", "optional list<string>"),
        ("source_ip.charAt(0)", "optional string"),
        ("tags.join(',')", "string"),
        ("status.upperAscii()", "string"),
    ],
)
def test_the_type_of_an_expression(text: str, found: str) -> None:
    of, wrong = checked(text)
    assert wrong == []
    assert show(of) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("paylod.x", "0: nothing is called 'paylod' here (did you mean 'payload'?)"),
        ("1 + customer.nam", "4: there is no field 'nam' (did you mean 'name'?)"),
        ("customer.home.zip", "0: there is no field 'zip' (there are city)"),
        ('customer["nam"]', "0: there is no field 'nam' (did you mean 'name'?)"),
        ("source_ip.length", "0: string has no fields, so there is no 'length'"),
        ("attempts[0]", "0: int has no items"),
        ("source_ip[0]", "0: string has no items (for a letter of a text write text.charAt(index))"),
        ("tags['a']", '5: the index of a list is int, not "a" (make it a number with int(…))'),
        ("headers[1]", "8: the key of a map is string, not int (make it text with string(…))"),
        ("attempts == 'x'", '0: int and "x" are never equal (make it text with string(…))'),
        ("status == 'opne'", "0: enum(open, closed) and \"opne\" are never equal (did you mean 'open'?)"),
        ("'opne' != status", "0: \"opne\" and enum(open, closed) are never equal (did you mean 'open'?)"),
        ("tags == source_ip", "0: list<string> and string are never equal"),
        ("attempts == null", "0: this is never null"),
        (
            "status in ['open', 'close']",
            "19: enum(open, closed) and \"close\" are never equal (did you mean 'closed'?)",
        ),
        ("attempts in tags", "0: int and string are never equal (make it text with string(…))"),
        ("'a' in source_ip", "0: 'in' looks into lists and maps, not into string (write text.contains(part))"),
        ("1 in headers", "0: the key of a map is string, not int (make it text with string(…))"),
        ("attempts < source_ip", "0: int and string have no order (make it text with string(…))"),
        (
            "received_at < '2026'",
            "0: times can be written in many ways (write timestamp(…) around both, then compare)",
        ),
        ("timestamp(tags)", "0: there is no timestamp() of list<string>"),
        ("urgent > false", "0: bool and bool have no order"),
        ("payload.x < urgent", "0: json and bool have no order"),
        ("1 < 2 < 3", "0: bool and int have no order"),
        ("'n: ' + attempts", '0: there is no "n: " + int (make it text with string(…))'),
        ("source_ip * 2", "0: there is no string * int (make it a number with int(…) or double(…))"),
        ("price % 2", "0: there is no double % int (both must be whole numbers: int(…))"),
        ("urgent + 1", "0: there is no bool + int"),
        ("-source_ip", "0: only numbers have a sign, not string"),
        ("size(attempts)", "0: there is no size() of int"),
        ("attempts.size()", "0: there is no size() of int"),
        ("string(tags)", "0: there is no string() of list<string>"),
        ("int(urgent)", "0: there is no int() of bool"),
        ("attempts.trim()", "0: what trim is for is string, not int (make it text with string(…))"),
        ("source_ip.contains(5)", "19: argument 1 of contains is string, not int (make it text with string(…))"),
        ("numbers.join()", "0: what join is for is list<string>, not list<int>"),
    ],
)
def test_a_mistake_is_found(text: str, said: str) -> None:
    assert checked(text)[1] == [said]


def test_every_mistake_is_said_once_and_all_are() -> None:
    assert len(checked("paylod.a.b + 1 == headrs.x ? statu : -source_ip")[1]) == 4


def test_a_comparison_with_null_is_only_odd() -> None:
    node, _ = parse_text("attempts != null")
    assert node is not None
    assert [problem.severity for problem in check(node, SCOPE)[1]] == ["warning"]


def test_a_tree_that_no_text_could_say_is_a_problem() -> None:
    assert len(check(FunctionCall("eval", (Name("a"),)), SCOPE)[1]) == 1


@pytest.mark.parametrize(
    ("source", "target", "fits"),
    [
        (INT, DOUBLE, True),
        (DOUBLE, INT, False),
        (INT, STRING, False),
        (JSON, INT, True),
        (OptionalOf(INT), JSON, True),
        (NULL, STRING, False),
        (NULL, OptionalOf(STRING), True),
        (STRING, OptionalOf(STRING), True),
        (OptionalOf(STRING), STRING, False),
        (OptionalOf(INT), OptionalOf(DOUBLE), True),
        (EnumOf(("open",)), STATUS, True),
        (EnumOf(("open", "new")), STATUS, False),
        (STATUS, STRING, True),
        (STRING, STATUS, False),
        (TIME, STRING, True),
        (STRING, TIME, False),
        (EnumOf(("2026-11-16T10:00:00Z",)), TIME, True),
        (EnumOf(("2026-11-16T10:00:00",)), TIME, False),
        (EnumOf(("soon",)), TIME, False),
        (ListOf(INT), ListOf(DOUBLE), True),
        (ListOf(STRING), ListOf(INT), False),
        (MapOf(INT), MapOf(STRING), False),
        (ObjectOf({"a": INT}), MapOf(DOUBLE), True),
        (ObjectOf({"a": INT, "b": STRING}), MapOf(INT), False),
        (ObjectOf({"a": INT, "b": STRING}), ObjectOf({"a": INT}), True),
        (ObjectOf({}), ObjectOf({"a": INT}), False),
        (ObjectOf({}), ObjectOf({"a": OptionalOf(INT)}), True),
        (MapOf(INT), ObjectOf({"a": INT}), False),
    ],
    ids=lambda value: show(value) if not isinstance(value, bool) else "",
)
def test_what_can_be_given_to_what(source: Type, target: Type, fits: bool) -> None:
    assert assignable(source, target) is fits


TYPES: st.SearchStrategy[Type] = st.recursive(
    st.sampled_from([NULL, BOOL, INT, DOUBLE, STRING, TIME, JSON, STATUS, EnumOf(("a",))]),
    lambda of: st.one_of(
        of.map(ListOf),
        of.map(MapOf),
        of.map(optional),
        st.dictionaries(st.sampled_from("ab"), of, max_size=2).map(ObjectOf),
    ),
    max_leaves=4,
)


@given(TYPES, TYPES)
@settings(deadline=None)
def test_what_two_types_have_in_common_takes_both(first: Type, second: Type) -> None:
    both = common(first, second)
    assert assignable(first, both)
    assert assignable(second, both)
    assert assignable(first, first)
    assert msgspec.json.decode(msgspec.json.encode(both), type=Type) == both


DATA_TYPES: dict[str, Type] = {
    "yes": BOOL,
    "i": INT,
    "wide": INT,
    "d": DOUBLE,
    "s": STRING,
    "digits": STRING,
    "l": ListOf(STRING),
    "numbers": ListOf(DOUBLE),
    "m": MapOf(INT),
    "deep": ObjectOf({"a": ObjectOf({"b": STRING, "none": NULL})}),
    "none": NULL,
}
"""Of the names in typed.DATA."""


def belongs(value: Any, of: Type) -> bool:
    """Whether a value is one of a type's."""
    match of:
        case OptionalOf(some):
            return value is None or belongs(value, some)
        case EnumOf(allowed):
            return value in allowed
        case ListOf(item):
            return type(value) is list and all(belongs(part, item) for part in value)
        case MapOf(item):
            return type(value) is dict and all(belongs(part, item) for part in value.values())
        case ObjectOf(fields):
            return type(value) is dict and all(belongs(value.get(name), field) for name, field in fields.items())
    kinds = {"null": (type(None),), "bool": (bool,), "int": (int,), "double": (int, float), "json": (object,)}
    return of == JSON or type(value) in kinds.get(of.name, (str,))


@given(SENSIBLE, DATA, st.integers(-9, 9))
@settings(max_examples=500, deadline=None)
def test_what_passes_the_check_has_the_type_it_says(tree: Node, data: dict[str, Any], small: int) -> None:
    found, wrong = check(tree, DATA_TYPES)
    if not wrong:
        value = compile(tree)({**data, "wide": small})
        assert belongs(value, found), f"{to_text(tree)} is {value!r}, no {show(found)}"


def test_what_makes_sense_mostly_passes() -> None:
    passed = []

    @given(SENSIBLE)
    @settings(max_examples=100, deadline=None, database=None)
    def count(tree: Node) -> None:
        passed.append(not check(tree, DATA_TYPES)[1])

    count()
    assert sum(passed) > len(passed) / 2
