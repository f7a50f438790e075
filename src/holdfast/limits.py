"""How much at a time."""

from __future__ import annotations

from holdfast.errors import InvalidInput

MOST_AT_ONCE = 100_000

SWEEP_LIMIT = 100
"""How many leases, messages or remains one turn of a sweep deals with, of each kind."""


def checked_count(n: int) -> int:
    """The `n` of a call."""
    if type(n) is not int or not 1 <= n <= MOST_AT_ONCE:
        raise InvalidInput(f"n must be a whole number from 1 to {MOST_AT_ONCE}, not {n!r}")
    return n
