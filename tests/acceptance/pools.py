"""What the tests of pools share: their stores, a pool that is quick to change, and what it should have done."""

import pytest

BOTH = pytest.mark.parametrize("db", ["sqlite", "postgres"], indirect=True)

QUICK = 'min=1, max=3, scale_up_depth=5, scale_down_depth=1, cooldown="300ms"'


def once(count: int, first: int = 0) -> dict[str, int]:
    """Every one of so many messages, once."""
    return {str(number): 1 for number in range(first, first + count)}
