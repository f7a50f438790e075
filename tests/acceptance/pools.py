"""What the tests of pools share: their stores, a pool that is quick to change, and what it should have done."""

import pytest

from tests.long import only_long

BOTH = pytest.mark.parametrize("db", ["sqlite", pytest.param("postgres", marks=only_long)], indirect=True)
"""What a pool asks of the database is tested on both by `tests/consumers/test_seats.py` and `test_crew.py`."""

QUICK = 'min=1, max=3, scale_up_depth=5, scale_down_depth=1, cooldown="300ms"'

TELL_OF_FEWER = """
from holdfast.events import PoolScaled

hf.on(PoolScaled, lambda event: event.wanted < event.before and note("fewer"))
"""
"""The supervisor of a program notes that it drains some."""


def once(count: int, first: int = 0) -> dict[str, int]:
    """Every one of so many messages, once."""
    return {str(number): 1 for number in range(first, first + count)}
