"""Durations as users write them: seconds, or text such as "5m", "1h30m", "250ms"."""

from __future__ import annotations

import math
import re

from holdfast.errors import InvalidInput, shown

Duration = float | int | str

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_LONGEST = 100 * 365 * 86400.0


def seconds(value: Duration, what: str = "duration") -> float:
    """`seconds("1h30m")` is 5400.0; refuses what is negative, endless or unreadable."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise InvalidInput(f'{what} must be seconds or text such as "5m", not {shown(value)}')
    number = _read(value, what) if isinstance(value, str) else value
    if not 0 <= number <= _LONGEST or math.isnan(number):
        raise InvalidInput(f"{what} must be between 0 seconds and 100 years, not {shown(value)}")
    return float(number)


def micros(value: Duration, what: str = "duration") -> int:
    """The same in whole microseconds, the unit of every time in the database."""
    if type(value) is int and 0 <= value <= _LONGEST:
        return value * 1_000_000
    return round(seconds(value, what) * 1_000_000)


def _read(text: str, what: str) -> float:
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text.replace(" ", ""):
        raise InvalidInput(
            f'{what} {shown(text)} is not a duration: write seconds, or text such as "250ms", "5m", "1h30m"'
        )
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
