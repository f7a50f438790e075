"""Which tests run on which stores. A test says so itself, or its module does for all of them, with these marks:

`both_engines`: it matters which of SQLite's drivers is used, so the default run has the test on both.
`above_the_stores`: it is about what uses a store, whichever it is. What that needs of PostgreSQL is tested
elsewhere, so the default run has it on SQLite; with `on_postgres`, on PostgreSQL, too.
`behind_pooler`: it also runs behind PgBouncer in transaction mode; with `long=True`, in long runs only.
`through_sqs`: the default run also has it with every queue of a SQLite database delivered through SQS.
`of_queues`: it says something about queues, so a long run has it through SQS, on SQLite and PostgreSQL.
`not_through_sqs(reason)`: it never runs through SQS, because it says nothing about queues or cannot hold there.
"""

from collections.abc import Sequence

import pytest

from tests.long import is_long_run

APSW, STDLIB = "sqlite-apsw", "sqlite-stdlib"

STORES = [APSW, STDLIB, "postgres"]
"""What every test of `url` runs on in a long run. Otherwise `sqlite-stdlib`, which shares all SQL with `sqlite-apsw`,
is left to the tests marked `both_engines`: every kind of statement, value, transaction, error and wait."""

THROUGH_SQS = ["sqlite-sqs", "postgres-sqs"]
"""Stores on which every queue is delivered through moto's SQS. What PostgreSQL itself does for such a queue is tested
on both databases by `tests/store/test_deliveries.py` and `tests/sqs`, so the second is for long runs."""

TOPICS = "topics and groups are delivered by the database; only queues go through SQS"
NO_QUEUE = "nothing in it is delivered"
INSIDE = "looks into the tables or the engines of the database"
LANES = "is about lanes, runs or their order beside rows; what SQS delivers is a row each, in the order of due times"


def further_stores(test: pytest.Item | pytest.Collector) -> list[str]:
    """Return the stores beyond `STORES` that a test runs on."""
    pooled = ["postgres-pooled"] if goes_behind_pooler(test) else []
    return [*pooled, *(through_sqs(test))]


def goes_behind_pooler(test: pytest.Item | pytest.Collector) -> bool:
    mark = test.get_closest_marker("behind_pooler")
    return mark is not None and (is_long_run() or not mark.kwargs.get("long", False))


def through_sqs(test: pytest.Item | pytest.Collector) -> list[str]:
    """Return the stores of `THROUGH_SQS` that a test of a queue or the runtime also runs on, in this run."""
    if test.get_closest_marker("not_through_sqs"):
        return []
    if is_long_run() and test.get_closest_marker("of_queues"):
        return THROUGH_SQS
    return THROUGH_SQS[:1] if test.get_closest_marker("through_sqs") else []


def left_to_long_runs(tests: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that are marked `long`, and those that repeat on one store what runs on another."""
    names = {test.nodeid for test in tests}
    return [
        test
        for test in tests
        if test.get_closest_marker("long") or repeats_on_stdlib(test, names) or repeats_on_postgres(test, names)
    ]


def repeats_on_stdlib(test: pytest.Item, names: set[str]) -> bool:
    if STDLIB not in test.nodeid or test.get_closest_marker("both_engines"):
        return False
    return test.nodeid.replace(STDLIB, APSW) in names


def repeats_on_postgres(test: pytest.Item, names: set[str]) -> bool:
    if test.get_closest_marker("on_postgres") or not test.get_closest_marker("above_the_stores"):
        return False
    name = test.nodeid
    return "postgres" in name and not names.isdisjoint(
        {name.replace("postgres", APSW), name.replace("postgres", "sqlite")}
    )
