"""How much of a queue, or of one key of it, may be worked on at once and per time."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.duration import seconds
from holdfast.errors import InvalidInput, shown

MOST = 1_000_000


class Rate(msgspec.Struct, frozen=True):
    """So many in so many seconds."""

    count: int
    per: float


def rate(value: Any, what: str = "rate") -> Rate:
    """Reads `100` (per second), `"100/s"`, `"5/m"`, `"10/30s"`."""
    if isinstance(value, Rate):
        return value
    if type(value) is int:
        return _checked(value, 1.0, value, what)
    if not isinstance(value, str) or value.count("/") != 1:
        raise _unreadable(value, what)
    count, per = value.split("/")
    if not count.strip().isdecimal() or len(count) > 12:
        raise _unreadable(value, what)
    per = per.strip()
    return _checked(int(count), seconds(per if per[:1].isdecimal() else "1" + per, what), value, what)


def _checked(count: int, per: float, value: Any, what: str) -> Rate:
    if not 1 <= count <= MOST or per < 0.001:
        raise _unreadable(value, what)
    return Rate(count, per)


def _unreadable(value: Any, what: str) -> InvalidInput:
    return InvalidInput(
        f"{what} must be a whole number per second from 1 to {MOST}, "
        f'or text such as "5/m" or "10/30s", not {shown(value)}'
    )
