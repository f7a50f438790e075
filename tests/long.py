"""What `dev.py test --long` runs in addition.

The default run covers every rule once and fits into a few minutes. A long run repeats it on more stores, with more
seeds and for longer. A test is marked `long` if it only repeats, on another store or seed, what a shorter one covers; a
test that searches for faults, by kills or by chance, takes its size from `size`.
"""

import os
from typing import TypeVar

import pytest

Size = TypeVar("Size", int, float, str)

VARIABLE = "HOLDFAST_LONG"
"""Set in the environment of a long run, for the modules of tests and for the processes that they start."""

only_long = pytest.mark.long
"""For `pytest.param(..., marks=only_long)` and as a decorator."""


def is_long_run() -> bool:
    """Whether this run was started with `--long`."""
    return VARIABLE in os.environ


def size(short: Size, long: Size, variable: str = "") -> Size:
    """Return the size of a search: the environment variable if it is set, otherwise `long` in a long run."""
    return type(short)(os.environ.get(variable, long if is_long_run() else short))
