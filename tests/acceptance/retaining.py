"""A process that removes from a topic what need not be kept, and is killed on the way.

`python -m tests.acceptance.retaining URL POINT NUMBER` kills itself when it comes to a point for the n-th time; without
a point it goes on until nothing is left to do.
"""

import os
import signal
import sys
from typing import Any

from holdfast import Holdfast
from holdfast.client.client import internals
from holdfast.topics.steps import retention

POINTS = ("chosen", "removed", "stored")
"""It knows what may go; it has gone, but that is not stored; that is stored, and the next step has not begun."""


def killed_after(number: int) -> Any:
    passed = 0

    def come_by() -> None:
        nonlocal passed
        passed += 1
        if passed == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return come_by


def main(url: str, point: str = "", number: str = "0") -> None:
    come_by = killed_after(int(number))
    retention.MOST_MESSAGES = 25  # Many steps.
    choose, count = retention.removable, retention.counters.add

    def removable(*known: Any) -> Any:
        chosen = choose(*known)
        if point == "chosen" and chosen:
            come_by()
        return chosen

    def add(*args: Any, **sums: int) -> None:
        count(*args, **sums)
        if point == "removed":
            come_by()

    retention.removable = removable
    retention.counters.add = add
    with Holdfast(url) as hf:
        topic = internals(hf).catalog.topic("t")
        while internals(hf).store.retention.retain(topic, 100).gone:
            if point == "stored":
                come_by()


if __name__ == "__main__":
    main(*sys.argv[1:])
