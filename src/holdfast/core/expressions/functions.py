"""The functions and methods of expressions: a closed list, named and meant as in CEL and its strings extension.

Where CEL has an error (a place outside of a text, a text that is no number), the result is null.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from holdfast.core.expressions import types as t
from holdfast.core.expressions.source import did_you_mean
from holdfast.core.expressions.tree import Field, FunctionCall, Index, Method
from holdfast.core.expressions.types import Type
from holdfast.core.expressions.values import Allowance, fit

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,4})?")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BOOLS = {
    **dict.fromkeys(("true", "True", "TRUE", "t", "1"), True),
    **dict.fromkeys(("false", "False", "FALSE", "f", "0"), False),
}
_BLANKS = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
_LOWER = {letter: letter + 32 for letter in range(ord("A"), ord("Z") + 1)}
_UPPER = {letter + 32: letter for letter in _LOWER}


class Function(NamedTuple):
    """How a function is called. What is not of the Python type that it takes makes the result null."""

    run: Callable[..., Any]
    takes: tuple[type, ...]
    gives: Type
    needs: int
    """How many of the arguments (with the one before the dot) cannot be left out."""
    may_fail: bool = False
    """Whether it gives null for some values of the right type."""

    def arity(self, method: bool) -> str:
        """How many arguments it takes, in words."""
        least, most = self.needs - method, len(self.takes) - method
        amount = f"{least}" if least == most else f"{least} to {most}" if most < MANY else f"{least} or more"
        return f"{amount} argument{'' if amount == '1' else 's'}"


MANY = 1_000
"""More arguments than an expression can have nodes."""


def size(left: Allowance, of: Any) -> Any:
    """Letters of a text, items of a list, keys of a map."""
    return len(of) if type(of) in (str, list, dict) else None


def to_string(left: Allowance, of: Any) -> Any:
    """A text, number or bool as text."""
    if type(of) is bool:
        return "true" if of else "false"
    if type(of) is int:
        return None if fit(of) is None else str(of)
    if type(of) is float:
        return repr(of).removesuffix(".0")
    return of if type(of) is str else None


def to_int(left: Allowance, of: Any) -> Any:
    """A number without what is behind its point; a text that is a whole number as one."""
    if type(of) is float:
        return fit(int(of)) if abs(of) < 2.0**64 else None
    if type(of) is str:
        return fit(int(of)) if _WHOLE.fullmatch(of) else None
    return fit(of) if type(of) is int else None


def to_double(left: Allowance, of: Any) -> Any:
    """A number, or a text that is one, with a point."""
    if type(of) is str:
        number = float(of) if len(of) <= 1_000 and _NUMBER.fullmatch(of) else float("inf")
        return number if abs(number) != float("inf") else None
    if type(of) is int:
        return None if fit(of) is None else float(of)
    return of if type(of) is float else None


def to_bool(left: Allowance, of: Any) -> Any:
    """A text that says true or false as such; of everything else, whether it counts as true."""
    return _BOOLS.get(of) if type(of) is str else bool(of)


def to_timestamp(left: Allowance, of: Any) -> Any:
    """A time (RFC 3339, or seconds since 1970) as text of one form, so that the order of texts is that of times."""
    try:
        if type(of) is int:
            moment = _EPOCH + timedelta(seconds=of)
        elif type(of) is str and _TIME.fullmatch(of):
            moment = datetime.fromisoformat(of.upper()).astimezone(UTC)
        else:
            return None
    except (ValueError, OverflowError):
        return None
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def contains(left: Allowance, text: str, part: str) -> bool:
    """Whether a text has a part."""
    left.read(len(text) + len(part))
    return part in text


def starts_with(left: Allowance, text: str, part: str) -> bool:
    """Whether a text begins with a part."""
    return text.startswith(part)


def ends_with(left: Allowance, text: str, part: str) -> bool:
    """Whether a text ends with a part."""
    return text.endswith(part)


def lower_ascii(left: Allowance, text: str) -> str:
    """With small letters for A to Z; others stay."""
    left.make(len(text))
    return text.lower() if text.isascii() else text.translate(_LOWER)


def upper_ascii(left: Allowance, text: str) -> str:
    """With capital letters for a to z; others stay."""
    left.make(len(text))
    return text.upper() if text.isascii() else text.translate(_UPPER)


def trim(left: Allowance, text: str) -> str:
    """Without blanks at both ends."""
    left.make(len(text))
    return text.strip(_BLANKS)


def replace(left: Allowance, text: str, old: str, new: str, limit: int = -1) -> str:
    """With a part replaced by another, everywhere or the first so many times."""
    left.read(len(text))
    count = text.count(old) if limit < 0 else min(text.count(old), limit)
    left.make(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new, count)


def split(left: Allowance, text: str, between: str, limit: int = -1) -> list[str]:
    """The parts between a separator, at most so many; without a separator, the letters."""
    left.make(len(text))
    pieces = text.count(between) + 1 if between else max(1, len(text))
    left.make(0, items=pieces if limit < 0 else min(pieces, limit))
    if limit == 0:
        return []
    if between:
        return text.split(between, max(limit - 1, -1))
    if not text:
        return [""]
    if 0 <= limit < len(text):
        return [*text[: limit - 1], text[limit - 1 :]]
    return [*text]


def join(left: Allowance, items: list[Any], between: str = "") -> str | None:
    """The texts of a list in one, with a separator between them."""
    left.look_at(len(items))
    if not all(type(item) is str for item in items):
        return None
    left.make(sum(map(len, items)) + len(between) * max(0, len(items) - 1))
    return between.join(items)


def substring(left: Allowance, text: str, start: int, end: int | None = None) -> str | None:
    """From one place to before another."""
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        return None
    left.make(stop - start)
    return text[start:stop]


def char_at(left: Allowance, text: str, index: int) -> str | None:
    """The letter at a place; just behind the last one there is an empty text."""
    return text[index : index + 1] if 0 <= index <= len(text) else None


def index_of(left: Allowance, text: str, part: str, start: int = 0) -> int | None:
    """Where a part begins for the first time, or -1."""
    left.read(len(text) + len(part))
    if not 0 <= start <= len(text):
        return None
    return text.find(part, start)


FUNCTIONS = {
    "has": Function(bool, (object,), t.BOOL, 1),
    "coalesce": Function(bool, (object,) * MANY, t.JSON, 1),
    "size": Function(size, (object,), t.INT, 1),
    "string": Function(to_string, (object,), t.STRING, 1),
    "int": Function(to_int, (object,), t.INT, 1),
    "double": Function(to_double, (object,), t.DOUBLE, 1),
    "bool": Function(to_bool, (object,), t.BOOL, 1),
    "timestamp": Function(to_timestamp, (object,), t.TIME, 1),
}
"""`has` and `coalesce` do not look at all of their arguments, so the compiler has them built in."""

METHODS = {
    "size": FUNCTIONS["size"],
    "contains": Function(contains, (str, str), t.BOOL, 2),
    "startsWith": Function(starts_with, (str, str), t.BOOL, 2),
    "endsWith": Function(ends_with, (str, str), t.BOOL, 2),
    "lowerAscii": Function(lower_ascii, (str,), t.STRING, 1),
    "upperAscii": Function(upper_ascii, (str,), t.STRING, 1),
    "trim": Function(trim, (str,), t.STRING, 1),
    "replace": Function(replace, (str, str, str, int), t.STRING, 3),
    "split": Function(split, (str, str, int), t.ListOf(t.STRING), 2),
    "join": Function(join, (list, str), t.STRING, 1),
    "substring": Function(substring, (str, int, int), t.STRING, 2, may_fail=True),
    "charAt": Function(char_at, (str, int), t.STRING, 2, may_fail=True),
    "indexOf": Function(index_of, (str, str, int), t.INT, 2, may_fail=True),
}

_LEFT_OUT = {
    "matches": "regular expressions are left out, some take forever; use contains, startsWith, endsWith or split",
    **dict.fromkeys(("all", "exists", "exists_one", "map", "filter"), "there are no loops; prepare lists in a handler"),
}


def misuse(call: FunctionCall | Method) -> tuple[str, str | None] | None:
    """What is wrong with a call as such, and a hint: an unknown name or a wrong number of arguments."""
    method = isinstance(call, Method)
    name = call.method if isinstance(call, Method) else call.function
    known = METHODS if method else FUNCTIONS
    if name not in known:
        return f"there is no {'method' if method else 'function'} {name!r}", _hint(name, known, method)
    function, given = known[name], len(call.arguments)
    if not function.needs <= given + method <= len(function.takes):
        return f"{name} takes {function.arity(method)}, not {given}", None
    if name == "has" and not isinstance(call.arguments[0], Field | Index):
        return "has() asks for a field", "write has(a.b) or has(a[b])"
    return None


def _hint(name: str, known: dict[str, Function], method: bool) -> str:
    if name in _LEFT_OUT:
        return _LEFT_OUT[name]
    if name in METHODS and not method:
        return f"write it behind a dot: text.{name}(…)"
    if name in FUNCTIONS and method:
        return f"write it in front: {name}(…)"
    return did_you_mean(name, known) or f"there are {', '.join(known)}"
