"""The mistakes that users make: values that are wrong as a name, a number, a length of time, a body."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from holdfast import InvalidInput
from holdfast.core.message import DEEPEST

NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"
NAN, ENDLESS = float("nan"), float("inf")
MANY_DIGITS = 10**5_000
"""More than Python turns into text, and so more than JSON can carry."""

Values = dict[str, Any]


class Bad(NamedTuple):
    """One mistake. `says` is what the error's text must match."""

    call: Callable[[Any], object]
    says: str
    error: type[Exception] = InvalidInput


class Argument(NamedTuple):
    """An argument that takes a user's input: how it is handed over, and what it must not be."""

    name: str
    hand: Callable[[Any, Any], object]
    values: Values
    says: str


def nested(levels: int) -> list[Any]:
    """Lists inside each other."""
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def _endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


ODD = {"a number": 7, "bytes": b"q", "a list": ["q"], "a surrogate": "\ud800", "NUL": "a\0b"}
TEXTS = {**ODD, "10,000 letters": "x" * 10_000}
NAMES = {
    **TEXTS,
    "nothing": "",
    "None": None,
    "a slash": "a/b",
    "two dots and a slash": "../q",
    "an outer space": " q",
    "a line break": "a\nb",
    "201 letters": "x" * 201,
}
READERS = {
    **{what: name for what, name in NAMES.items() if not isinstance(name, str) or "/" not in name},
    "two slashes": "a/b/c",
    "a slash at the end": "a/",
    "a slash at the beginning": "/a",
}
"""Of a queue, or of a group by its address."""
NAMES_OR_NONE = {what: name for what, name in NAMES.items() if name is not None}
READERS_OR_NONE = {what: name for what, name in READERS.items() if name is not None}
IDS = {**TEXTS, "nothing": "", "a name": "m1", "too few digits": NOBODY[:-1], "a letter too many": NOBODY[:-1] + "x"}
COUNTS = {
    "0": 0,
    "-1": -1,
    "a fraction": 1.5,
    "text": "5",
    "True": True,
    "None": None,
    "2**70": 2**70,
    "too many": 10**9,
}
RECORDS_OR_NONE = {"text": "yesterday", "-1": -1, "a fraction": 1.5, "2**70": 2**70, "no zone": datetime(2026, 1, 1)}
MOMENTS_OR_NONE = {
    "text": "yesterday",
    "-1": -1,
    "microseconds": 1_700_000_000_000_000,
    "NaN": NAN,
    "infinite": ENDLESS,
    "True": True,
    "2**70": 2**70,
    "no zone": datetime(2026, 1, 1),
}
LENGTHS_OR_NONE = {
    "negative": -1,
    "infinite": ENDLESS,
    "NaN": NAN,
    "beyond numbers": 1e300,
    "beyond text": MANY_DIGITS,
    "an unknown word": "soon",
    "a negative word": "-5s",
    "a long word": "9" * 10_000 + "s",
    "True": True,
    "a list": [1],
    "bytes": b"5s",
}
LENGTHS = {**LENGTHS_OR_NONE, "None": None}
VALUES = {
    "an object": object(),
    "a function": len,
    "a surrogate": "\ud800",
    "a surrogate as key": {"\ud800": 1},
    "a tuple as key": {(1, 2): 3},
    "NaN": NAN,
    "infinity inside": {"a": [ENDLESS]},
    "2**64": 2**64,
    "-2**63-1 inside": {"a": [-(2**63) - 1]},
    "a number of 5,000 digits": [MANY_DIGITS],
    "one level too many": nested(DEEPEST + 1),
    "10,000 levels": nested(10_000),
    "itself": _endless(),
}
HEADERS = {
    **{what: {"a": value} for what, value in VALUES.items()},
    "a list": [1],
    "text": "a",
    "a number as name": {1: 1},
}
WHOLE = {"0": 0, "a fraction": 1.5, "text": "5", "True": True, "2**70": 2**70}
RATES = {**WHOLE, "no number": "fast", "no time": "5/0s", "two slashes": "5/1/s", "nothing": "", "negative": "-5/s"}
AMOUNTS = {"0": 0, "negative": -1.0, "NaN": NAN, "infinite": ENDLESS, "text": "5", "True": True, "2**70": 2**70}
LABELS = {
    "a list": ["tier"],
    "text": "tier=haiku",
    "a number as name": {1: "a"},
    "a number as value": {"a": 1},
    "nothing as name": {"": "a"},
    "a line break": {"a": "b\nc"},
    "201 letters": {"a": "x" * 201},
    "too many": {str(n): "a" for n in range(21)},
}
PROMISE = {"name": "a", "check": "true"}
WORDS = {"an unknown word": "random", "a number": 7, "a list": [], "None": None}
CONNS = {"text": "conn", "0": 0, "an object": object()}
CLAIMS = {"an id": NOBODY, "None": None, "a number": 7, "a list of ids": [NOBODY]}

NAME_SAYS = "must be a name|may not hold|at most 200"
TEXT_SAYS = "must be text|at most 500"
JSON_SAYS = "cannot be written as JSON|inside each other|more than 64 bits"
COUNT_SAYS = "n must be a whole number from 1"
ID_SAYS = "ids look like"


def named(argument: str, says: str) -> str:
    """The text has to begin with the argument's name."""
    return f"^{argument} (.* )?({says})"


def length(call: str, argument: str, hand: Callable[[Any, Any], object], values: Values = LENGTHS) -> Argument:
    return Argument(f"{call}({argument}=)", hand, values, f"^{argument} ")


def cases(argument: Argument) -> dict[str, Bad]:
    """An argument's mistakes, by name."""
    return {
        f"{argument.name}: {what}": Bad(lambda given, bad=bad: argument.hand(given, bad), argument.says)
        for what, bad in argument.values.items()
    }
