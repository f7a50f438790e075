"""Expressions and data for the tests that try many of them."""

from typing import Any

from hypothesis import strategies as st

from holdfast.core.expressions.functions import FUNCTIONS, METHODS, Function
from holdfast.core.expressions.parser import RESERVED
from holdfast.core.expressions.tree import (
    LARGEST_INT,
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

NAMES = st.sampled_from(["a", "b", "payload", "headers", "x_1", "_", "e5", "s"])
ODD_NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(lambda name: name not in RESERVED)
SIGNS = ["||", "&&", "==", "!=", "<", "<=", ">", ">=", "in", "+", "-", "*", "/", "%"]
TEXTS = st.text(max_size=8)


def arguments(function: Function, method: bool, of: st.SearchStrategy[Node]) -> st.SearchStrategy[tuple[Node, ...]]:
    most = min(len(function.takes), 4) - method
    return st.lists(of, min_size=function.needs - method, max_size=most).map(tuple)


def _calls(of: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    def call(name: str) -> st.SearchStrategy[Node]:
        if name == "has":
            return st.builds(lambda owner, field: FunctionCall("has", (Field(owner, field),)), of, NAMES)
        return arguments(FUNCTIONS[name], False, of).map(lambda given: FunctionCall(name, given))

    return st.sampled_from(sorted(FUNCTIONS)).flatmap(call)


def _methods(of: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    def call(name: str) -> st.SearchStrategy[Node]:
        return st.builds(Method, of, st.just(name), arguments(METHODS[name], True, of))

    return st.sampled_from(sorted(METHODS)).flatmap(call)


def _larger(of: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.one_of(
        st.builds(Binary, st.sampled_from(SIGNS), of, of),
        st.builds(Unary, st.sampled_from("!-"), of),
        st.builds(Choice, of, of, of),
        st.builds(Field, of, NAMES | ODD_NAMES),
        st.builds(Index, of, of),
        st.lists(of, max_size=3).map(lambda items: Items(tuple(items))),
        st.dictionaries(TEXTS, of, max_size=3).map(
            lambda entries: MapExpression(tuple(MapEntry(key, value) for key, value in entries.items()))
        ),
        _calls(of),
        _methods(of),
    )


LEAVES: st.SearchStrategy[Node] = st.one_of(
    st.just(Null()),
    st.booleans().map(Bool),
    st.integers(-LARGEST_INT, LARGEST_INT).map(Int),
    st.integers(-3, 3).map(Int),
    st.floats(allow_nan=False, allow_infinity=False).map(Double),
    TEXTS.map(Text),
    (NAMES | ODD_NAMES).map(Name),
)
EXPRESSIONS: st.SearchStrategy[Node] = st.recursive(LEAVES, _larger, max_leaves=12)
"""Any tree, sensible or not."""

ABOUT_DATA: st.SearchStrategy[Node] = st.recursive(
    st.sampled_from([Name("a"), Name("b"), Field(Name("a"), "b"), Index(Name("b"), Int(0)), Text("a"), Int(1), Null()]),
    _larger,
    max_leaves=6,
)
"""Trees that hardly speak of anything but what `a` and `b` are."""


class Nasty:
    """An object that does harm whenever anything is done with it."""

    def _harm(self, *_: Any) -> Any:
        raise RuntimeError("someone has touched the data")

    __eq__ = __lt__ = __bool__ = __len__ = __iter__ = __add__ = __getitem__ = __contains__ = __str__ = _harm
    __hash__ = object.__hash__
    get = keys = _harm


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["5", "-7", "1e3", "true", "a,b"]),
    lambda of: st.lists(of, max_size=4) | st.dictionaries(NAMES | st.text(max_size=3), of, max_size=4),
    max_leaves=10,
)
ODD_DATA = st.recursive(
    JSON
    | st.builds(Nasty)
    | st.binary(max_size=3)
    | st.integers(5000, 5001).map(lambda digits: 10**digits)
    | st.just(float("nan"))
    | st.tuples(JSON),
    lambda of: st.lists(of, max_size=3) | st.dictionaries(NAMES | st.integers() | st.builds(Nasty), of, max_size=3),
    max_leaves=8,
)
"""What JSON has, and what only Python has."""
