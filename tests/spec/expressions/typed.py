"""Expressions that make sense: every part has the type that the part around it wants."""

from datetime import datetime
from typing import Any

from hypothesis import strategies as st

from holdfast.core.expressions.tree import (
    Binary,
    Bool,
    Choice,
    Double,
    Field,
    FunctionCall,
    Index,
    Int,
    Items,
    MapEntry,
    MapExpression,
    Method,
    Name,
    Node,
    Null,
    Text,
    Unary,
)

LETTERS = st.text(alphabet="ab,- Aé😀ß\n\"'\\\u00a0\x1c\x85", max_size=6) | st.sampled_from(
    ["", "a", ",", "a,b,a", "aaa", "ab", " Éa é ", "ß-aA", "\x1ca\x85", "😀,é,a", "b😀b"]
)
TIMES = st.builds(
    lambda moment, digits, zone: moment.isoformat(timespec=digits) + zone,
    st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2100, 1, 1)),
    st.sampled_from(["seconds", "milliseconds", "microseconds"]),
    st.sampled_from(["Z", "+02:00", "-11:30"]),
) | st.sampled_from(["2026-11-16T10:00:05Z", "2026-11-16T10:00:05.5Z", "2026-11-16T11:00:05.500+01:00"])
HALVES = st.integers(-200, 200).map(lambda number: number / 4)

DATA = st.fixed_dictionaries(
    {
        "yes": st.booleans(),
        "i": st.integers(-9, 9),
        "wide": st.integers(-(2**63), 2**63 - 1),
        "d": HALVES,
        "s": LETTERS,
        "digits": st.integers(-(2**64), 2**64).map(str) | st.sampled_from(["0", "+5", "1.5", "-2e3", "x", "", "true"]),
        "l": st.lists(LETTERS, max_size=4),
        "numbers": st.lists(st.integers(-3, 3) | HALVES, max_size=4),
        "m": st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(-3, 3), max_size=3),
        "deep": st.fixed_dictionaries({"a": st.fixed_dictionaries({"b": LETTERS, "none": st.none()})}),
        "none": st.none(),
    }
)
Trees = st.SearchStrategy[Node]


def typed(kind: str, depth: int = 4) -> Trees:
    """Trees whose value is of this kind: bool, int, double, string, texts, map or any."""
    if depth == 0 or kind == "map":
        return LEAVES[kind]
    part: dict[str, Trees] = {name: st.deferred(lambda name=name: cached(name, depth - 1)) for name in LEAVES}
    either = st.builds(Choice, part["bool"], part[kind], part[kind])
    return st.one_of(LEAVES[kind], either, *LARGER[kind](part))


_made: dict[tuple[str, int], Trees] = {}


def cached(kind: str, depth: int) -> Trees:
    if (kind, depth) not in _made:
        _made[kind, depth] = typed(kind, depth)
    return _made[kind, depth]


def _names(*names: str) -> Trees:
    return st.sampled_from([Name(name) for name in names])


LEAVES: dict[str, Trees] = {
    "bool": _names("yes") | st.booleans().map(Bool),
    "int": _names("i", "wide") | st.integers(-9, 9).map(Int),
    "double": _names("d") | HALVES.map(Double),
    "string": _names("s", "digits") | LETTERS.map(Text) | st.just(Field(Field(Name("deep"), "a"), "b")),
    "texts": _names("l") | st.lists(LETTERS.map(Text), max_size=3).map(lambda items: Items(tuple(items))),
    "map": _names("m")
    | st.dictionaries(st.sampled_from("abc"), st.integers(-3, 3).map(Int), max_size=3).map(
        lambda entries: MapExpression(tuple(MapEntry(key, value) for key, value in entries.items()))
    ),
    "any": _names("none", "numbers", "deep", "m", "l", "s", "i", "d", "yes") | st.just(Null()),
}


def _both(signs: str, of: Trees, other: Trees | None = None) -> Trees:
    return st.builds(Binary, st.sampled_from(signs.split()), of, of if other is None else other)


def _method(name: str, of: Trees, *arguments: Trees) -> Trees:
    return st.builds(lambda of, given: Method(of, name, given), of, st.tuples(*arguments))


def _call(name: str, of: Trees) -> Trees:
    return of.map(lambda of: FunctionCall(name, (of,)))


def _bools(part: dict[str, Trees]) -> list[Trees]:
    text, number, anything = part["string"], part["int"] | part["double"], st.one_of(*part.values())
    return [
        _both("&& ||", part["bool"]),
        _both("== !=", anything),
        _both("== !=", st.sampled_from([Bool(True), Int(1), Double(1.0), Bool(False), Int(0), Text("1"), Null()])),
        _both("== != < <= > >=", number),
        _both("== != < <= > >=", text),
        _both("in", anything, part["texts"] | st.just(Name("numbers"))),
        _both("in", text | st.sampled_from("abc").map(Text), part["map"]),
        part["bool"].map(lambda of: Unary("!", of)),
        _both("== != < <= > >=", _call("timestamp", TIMES.map(Text))),
        _method("contains", text, text),
        _method("startsWith", text, text),
        _method("endsWith", text, text),
        st.builds(lambda of, name: FunctionCall("has", (Field(of, name),)), part["map"], st.sampled_from("abc")),
        _call("bool", st.sampled_from(["true", "false", "1", "0", "t", "f", "TRUE", "x", ""]).map(Text)),
    ]


def _ints(part: dict[str, Trees]) -> list[Trees]:
    text = part["string"]
    return [
        _both("+ - * / %", part["int"]),
        part["int"].map(lambda of: Unary("-", of)),
        _call("size", text | part["texts"] | part["map"]),
        _method("size", text | part["texts"]),
        _call("int", part["int"] | part["double"] | st.just(Name("digits"))),
        _method("indexOf", text, text),
        _method("indexOf", text, text, part["int"]),
        st.builds(Field, part["map"], st.sampled_from("abc")),
        st.builds(Index, part["map"], st.sampled_from("abc").map(Text)),
    ]


def _doubles(part: dict[str, Trees]) -> list[Trees]:
    return [
        _both("+ - *", part["double"]),
        _both("/", part["double"], HALVES.filter(bool).map(Double)),
        part["double"].map(lambda of: Unary("-", of)),
        _call("double", part["int"] | part["double"] | st.just(Name("digits"))),
    ]


def _strings(part: dict[str, Trees]) -> list[Trees]:
    text, number = part["string"], part["int"]
    return [
        _both("+", text),
        _call("string", text | number | part["bool"] | st.just(Name("d"))),
        *(_method(name, text) for name in ("lowerAscii", "upperAscii", "trim")),
        _method("replace", text, text, text),
        _method("replace", text, text, text, number),
        _method("join", part["texts"]),
        _method("join", part["texts"], text),
        _method("substring", text, number),
        _method("substring", text, number, number),
        _method("charAt", text, number),
        st.builds(Index, part["texts"], number | st.sampled_from([Double(0.0), Double(1.0)])),
    ]


def _texts(part: dict[str, Trees]) -> list[Trees]:
    text = part["string"]
    return [
        _both("+", part["texts"]),
        _method("split", text, text),
        _method("split", text, text, part["int"]),
        _method("split", text, st.sampled_from([Text(","), Text("a"), Text("")]), st.integers(-1, 4).map(Int)),
        st.lists(text, max_size=3).map(lambda items: Items(tuple(items))),
    ]


LARGER: dict[str, Any] = {
    "bool": _bools,
    "int": _ints,
    "double": _doubles,
    "string": _strings,
    "texts": _texts,
    "any": lambda part: [st.one_of(part["bool"], part["texts"])],
}
SIMPLE: dict[str, Trees] = {
    f"{kind}-{place}": trees for kind, larger in LARGER.items() for place, trees in enumerate(larger(LEAVES))
}
"""Each operator and function by itself, with nothing but names and literals in it."""
SENSIBLE = st.one_of(*(cached(kind, 4) for kind in LEAVES))
