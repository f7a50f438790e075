"""How much at a time, how many a call may ask for, and for how long."""

from __future__ import annotations

from holdfast.core.duration import Duration, micros
from holdfast.errors import InvalidInput, shown

MOST_AT_ONCE = 100_000

SWEEP_LIMIT = 100
"""How many leases, messages or remains one turn of a sweep deals with, of each kind."""


def checked_count(n: int) -> int:
    """The `n` of a call."""
    if type(n) is not int or not 1 <= n <= MOST_AT_ONCE:
        raise InvalidInput(f"n must be a whole number from 1 to {MOST_AT_ONCE}, not {shown(n)}")
    return n


def checked_term(lease: Duration, what: str) -> int:
    """How long a lease is to last, in microseconds."""
    term = micros(lease, what)
    if term <= 0:
        raise InvalidInput(f"{what} must be longer than 0 seconds: a lease that is over at once holds nothing")
    return term
