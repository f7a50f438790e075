"""The values that expressions compute with, and the rules by which they are added, compared and tested.

A value is what JSON has: None, bool, int, float, str, list and dict, exactly these and no subclass of them. Everything
else in the data (an object, a tuple, bytes) counts as null, so no method of a foreign object is ever called. Nothing
here raises, but for `ExpressionTooCostly`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from holdfast.core.expressions.tree import LARGEST_INT
from holdfast.errors import ExpressionTooCostly

MOST_STEPS = 100_000
"""Of one evaluation. A step is an item looked at, or a hundred letters."""
MOST_MADE = 1_000_000
"""Letters that one evaluation may make, and that its result may have; an item of a list or map counts as eight."""
LETTERS_PER_ITEM = 8
LETTERS_PER_STEP = 100

KNOWN = frozenset({type(None), bool, int, float, str, list, dict})
_PLAIN = frozenset({type(None), bool, int, float, str})
_NUMBERS = frozenset({int, float})


class Allowance:
    """What one evaluation may still do. Each use is counted before it is done: one call into C cannot be stopped."""

    # Of the class, so that one is made quickly; each evaluation has its own from its first use on.
    steps = MOST_STEPS
    made = MOST_MADE

    def look_at(self, items: int) -> None:
        """Use up a step for each item."""
        self.steps -= 1 + items
        if self.steps < 0:
            raise ExpressionTooCostly(f"the expression takes more than {MOST_STEPS:,} steps for this message")

    def read(self, letters: int) -> None:
        """Use up the steps for reading a text."""
        self.look_at(letters // LETTERS_PER_STEP)

    def make(self, letters: int, items: int = 0) -> None:
        """Use up the room for a text of so many letters, or a list of so many items."""
        self.look_at(items + letters // LETTERS_PER_STEP)
        self.made -= letters + items * LETTERS_PER_ITEM
        if self.made < 0:
            raise ExpressionTooCostly(f"the expression makes more than {MOST_MADE:,} letters for this message")


def known(value: Any) -> Any:
    """The value, or null if it is none that expressions know."""
    return value if type(value) in KNOWN else None


def fit(number: int) -> int | None:
    """The number if 64 bits can hold it."""
    return number if -LARGEST_INT - 1 <= number <= LARGEST_INT else None


def same(first: Any, second: Any, left: Allowance) -> bool:
    """Deep equality. Numbers are equal by value; nothing else is equal to a thing of another kind."""
    if type(first) is str and type(second) is str:
        return first == second
    waiting = [(first, second)]
    while waiting:
        one, other = waiting.pop()
        if type(one) in _PLAIN or type(other) in _PLAIN:
            if not _same_plain(known(one), known(other)):
                return False
        elif type(one) is list and type(other) is list and len(one) == len(other):
            left.look_at(len(one))
            waiting.extend(zip(one, other, strict=True))
        elif type(one) is dict and type(other) is dict and len(one) == len(other):
            left.look_at(len(one))
            if not all(type(key) is str and key in other for key in one):
                return False
            waiting.extend((value, other[key]) for key, value in one.items())
        elif known(one) is not None or known(other) is not None:
            return False
    return True


def _same_plain(one: Any, other: Any) -> bool:
    if type(one) is type(other) or (type(one) in _NUMBERS and type(other) in _NUMBERS):
        return bool(one == other)
    return False


def contained(item: Any, group: Any, left: Allowance) -> bool | None:
    """Whether a list has such an item, or a map such a key."""
    if type(group) is list:
        left.look_at(len(group))
        # `item in group` would ask foreign objects in the list whether they are equal.
        return any(same(item, other, left) for other in group)
    if type(group) is dict:
        return type(item) is str and item in group
    return None


def at(of: Any, index: Any) -> Any:
    """The item of a list by its place from 0 (1.0 is a place too), or of a map by its key."""
    if type(of) is dict:
        return known(of.get(index)) if type(index) is str else None
    return known(of[int(index)]) if has_at(of, index) else None


def has_at(of: Any, index: Any) -> bool:
    """Whether a list has this place, or a map this key, be it null."""
    if type(of) is dict:
        return type(index) is str and index in of
    if type(of) is not list or type(index) not in _NUMBERS:
        return False
    return bool(0 <= index < len(of) and index == int(index))


def add(one: Any, other: Any, left: Allowance) -> Any:
    """The sum of numbers; texts and lists one after the other."""
    if type(one) is str and type(other) is str:
        left.make(len(one) + len(other))
        return one + other
    if type(one) in _NUMBERS and type(other) in _NUMBERS:
        return _counted(lambda: one + other)
    if type(one) is list and type(other) is list:
        left.make(0, items=len(one) + len(other))
        return one + other
    return None


def subtract(one: Any, other: Any, left: Allowance) -> Any:
    """The difference of numbers."""
    return _counted(lambda: one - other) if type(one) in _NUMBERS and type(other) in _NUMBERS else None


def multiply(one: Any, other: Any, left: Allowance) -> Any:
    """The product of numbers; whole ones that are too long for 64 bits are not tried."""
    return _counted(lambda: one * other) if _short(one) and _short(other) else None


def divide(one: Any, other: Any, left: Allowance) -> Any:
    """The quotient; of whole numbers it is whole, without the part behind the point."""
    if not (_short(one) and _short(other)) or other == 0:
        return None
    if type(one) is int and type(other) is int:
        return fit(one // other if (one < 0) == (other < 0) else -(-one // other))
    return _counted(lambda: one / other)


def remainder(one: Any, other: Any, left: Allowance) -> Any:
    """What dividing whole numbers leaves, with the sign of the first."""
    if type(one) is not int or type(other) is not int or not (_short(one) and _short(other)) or other == 0:
        return None
    return abs(one) % abs(other) if one >= 0 else -(abs(one) % abs(other))


def negate(one: Any) -> Any:
    """The number with the other sign."""
    return _counted(lambda: -one) if type(one) in _NUMBERS else None


def _short(number: Any) -> bool:
    return type(number) is float or (type(number) is int and fit(number) is not None)


def _counted(count: Callable[[], Any]) -> Any:
    try:
        number = count()
    except OverflowError:
        return None
    if type(number) is int:
        return fit(number)
    return number if math.isfinite(number) else None


def in_order(one: Any, other: Any) -> bool:
    """Whether one may come before the other: numbers with numbers, text with text."""
    return type(one) in _NUMBERS and type(other) in _NUMBERS if type(one) is not str else type(other) is str


def less(one: Any, other: Any, left: Allowance) -> Any:
    """`<`."""
    return one < other if in_order(one, other) else None


def at_most(one: Any, other: Any, left: Allowance) -> Any:
    """`<=`."""
    return one <= other if in_order(one, other) else None


def more(one: Any, other: Any, left: Allowance) -> Any:
    """`>`."""
    return one > other if in_order(one, other) else None


def at_least(one: Any, other: Any, left: Allowance) -> Any:
    """`>=`."""
    return one >= other if in_order(one, other) else None


def measured(result: Any) -> Any:
    """A result that is not too large to be written. A small expression can name a large part of a message often."""
    if type(result) not in (list, dict):
        return result
    room, waiting = MOST_MADE, [result]
    while waiting:
        value = waiting.pop()
        if type(value) is str:
            room -= len(value)
        elif type(value) in (list, dict):
            room -= len(value) * LETTERS_PER_ITEM
        if type(value) is dict and room >= 0:
            room -= sum(len(key) for key in value if type(key) is str)
        if room < 0:
            raise ExpressionTooCostly(f"the expression's result has more than {MOST_MADE:,} letters for this message")
        if type(value) is list:
            waiting.extend(value)
        elif type(value) is dict:
            waiting.extend(value.values())
    return result
