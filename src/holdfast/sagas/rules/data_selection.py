"""What a step is sent, and whether it is needed, said as data: a choice from what a saga knows, stored with it.

Whoever settles a step sends the next one, on any machine, with any version of the program: so nothing of a definition
may be code. A function of a saga's data is called once, when it is declared, with a `Pick` that writes down what is
taken from where; what is stored is that note. What picking cannot say, an expression can: its text is stored. Both are
worked out by `evaluate`, which answers everything with a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NoReturn

from holdfast.core.message import encode_json
from holdfast.errors import HoldfastError, InvalidInput, shown

Node = dict[str, Any]
"""{"pick": [names]}, {"value": any}, {"object": {name: node}}, {"list": [nodes]}, {"test": name, "of": [nodes]} or
{"expression": text}."""

DEEPEST = 20

_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda one, other: bool(one == other),
    "!=": lambda one, other: bool(one != other),
    "<": lambda one, other: bool(one < other),
    "<=": lambda one, other: bool(one <= other),
    ">": lambda one, other: bool(one > other),
    ">=": lambda one, other: bool(one >= other),
}


class Expression:
    """A formula over a saga's data, in the language of specs, for what picking and comparing cannot say.

    `data` is what the saga was started with, `steps` what its steps gave back, by name. It is read when it is made, and
    stored as text.

    >>> Expression("data.price * 1.2 + steps.flight.fee").text
    'data.price * 1.2 + steps.flight.fee'
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        from holdfast.core import expressions

        if not isinstance(text, str):
            raise InvalidInput(f"an expression is a text, not {shown(text)}")
        node, problems = expressions.parse_text(text)
        if node is None:
            said = f"{problems[0].message} ({problems[0].hint})" if problems[0].hint else problems[0].message
            raise InvalidInput(f"{shown(text)} is no expression: {said}")
        problems = expressions.check(node, {"data": expressions.JSON, "steps": expressions.JSON})[1]
        if problems:
            raise InvalidInput(f"{shown(text)} cannot be worked out: {problems[0].message}")
        self.text = expressions.to_text(node)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"


class Pick:
    """Stands for a part of a saga's data while a function of it is written down."""

    __slots__ = ("_node",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, node: Node) -> None:
        self._node = node

    def __getattr__(self, name: str) -> Pick:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str | int) -> Pick:
        if "pick" not in self._node or isinstance(name, bool) or not isinstance(name, str | int):
            raise InvalidInput("only a name or a place can be taken from a saga's data")
        return Pick({"pick": [*self._node["pick"], name]})

    def __eq__(self, other: object) -> Any:
        return self._test("==", other)

    def __ne__(self, other: object) -> Any:
        return self._test("!=", other)

    def __lt__(self, other: object) -> Pick:
        return self._test("<", other)

    def __le__(self, other: object) -> Pick:
        return self._test("<=", other)

    def __gt__(self, other: object) -> Pick:
        return self._test(">", other)

    def __ge__(self, other: object) -> Pick:
        return self._test(">=", other)

    def __and__(self, other: object) -> Pick:
        return self._test("and", other)

    def __or__(self, other: object) -> Pick:
        return self._test("or", other)

    def __invert__(self) -> Pick:
        return Pick({"test": "not", "of": [self._node]})

    def __bool__(self) -> NoReturn:
        raise InvalidInput(
            "use & | ~ and comparisons with a saga's data, not and, or, not, if: its value is not there yet"
        )

    def __iter__(self) -> NoReturn:
        raise InvalidInput("a saga's data cannot be gone through where it is declared: its value is not there yet")

    def _test(self, name: str, other: object) -> Pick:
        return Pick({"test": name, "of": [self._node, _node(other, 0)]})


def written_down(value: Any, what: str) -> Node:
    """A value as it is, or what a function of the saga's data takes from there."""
    try:
        node = _node(value(Pick({"pick": []})) if callable(value) else value, 0)
    except HoldfastError as problem:
        raise InvalidInput(f"{what}: {problem}") from None
    except Exception as problem:
        raise InvalidInput(
            f"{what} does more than pick and compare parts of the saga's data ({problem}): it is stored with the saga, "
            "and worked out wherever the step before it ends. Do the rest in the step's handler"
        ) from None
    encode_json(node, what)
    return node


def evaluate(node: Node, data: Any) -> Any:
    """What it comes to for this data. What is not there is None; what cannot be compared is not so.

    `ExpressionTooCostly` is the one thing that can go wrong: an expression has a limit on what it does and makes.
    """
    if "expression" in node:
        return _function(node["expression"])({"data": data, "steps": data})
    if "value" in node:
        return node["value"]
    if "pick" in node:
        return _picked(node["pick"], data)
    if "object" in node:
        return {name: evaluate(part, data) for name, part in node["object"].items()}
    if "list" in node:
        return [evaluate(part, data) for part in node["list"]]
    return _tested(node["test"], [evaluate(part, data) for part in node["of"]])


@lru_cache(maxsize=1000)
def _function(text: str) -> Callable[[Mapping[str, Any]], Any]:
    """Texts are few, and looked at at every step of every saga."""
    from holdfast.core import expressions

    node, _ = expressions.parse_text(text)
    if node is None:
        raise InvalidInput(f"{shown(text)} is no expression that this version of Holdfast can read")
    return expressions.compile(node)


def _picked(names: list[str | int], data: Any) -> Any:
    for name in names:
        if isinstance(data, dict):
            data = data.get(name)
        elif isinstance(data, list) and isinstance(name, int) and -len(data) <= name < len(data):
            data = data[name]
        else:
            return None
    return data


def _tested(name: str, values: list[Any]) -> bool:
    if name == "not":
        return not values[0]
    if name == "and":
        return all(values)
    if name == "or":
        return any(values)
    try:
        return _TESTS[name](*values)
    except TypeError:
        return False


def _node(value: Any, depth: int) -> Node:
    if depth > DEEPEST:
        raise InvalidInput(f"more than {DEEPEST} objects inside each other")
    if isinstance(value, Pick):
        return value._node
    if isinstance(value, Expression):
        return {"expression": value.text}
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            raise InvalidInput("the names in an object are text")
        return {"object": {name: _node(part, depth + 1) for name, part in value.items()}}
    if isinstance(value, list | tuple):
        return {"list": [_node(part, depth + 1) for part in value]}
    encode_json(value, "a value")
    return {"value": value}
