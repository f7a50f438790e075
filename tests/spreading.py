"""The order of tests: those that take long and mostly wait stand evenly among the others."""

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def spread(waiting: Sequence[Item], files: Sequence[Sequence[Item]]) -> list[Item]:
    """Between files, never within one: what a file has set up for all of its tests stays."""
    total = sum(map(len, files))
    rest, order, passed = list(waiting), list[Item](), 0
    for file in files:
        while rest and passed * len(waiting) >= (len(waiting) - len(rest)) * total:
            order.append(rest.pop(0))
        order += file
        passed += len(file)
    return [*order, *rest]
