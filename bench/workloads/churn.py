"""Churn: enqueue 10, claim 10, ack, for a minute; does it slow down with age, or while someone holds a snapshot?"""

import time
from collections.abc import Callable, Iterator
from functools import partial

from bench import payload
from bench.cases import Case, Goal, Outcome, Row
from bench.loading import check_drained
from bench.places import Place
from bench.processes import Gate, Job, together
from bench.queues import Target, open_queue
from bench.sizes import Sizes

BATCH = 10


def cases(sizes: Sizes) -> Iterator[Case]:
    seconds, windows = sizes.churn_seconds, sizes.churn_windows
    for held in (False, True):
        name = f"{seconds:g} s" + (", snapshot held" if held else "")
        rows = [
            Row(f"{name}, first", "first"),
            Row(f"{name}, last", "last", against=(f"{name}, first", "first"), goals=(Goal("against", 0.9),)),
        ]
        yield Case("churn", name, partial(measure, seconds, windows, held), rows, most_rounds=1)


def measure(seconds: float, windows: int, held: bool, place: Place, target: Target) -> Outcome:
    jobs: list[Job] = [(churn, (target, seconds, windows))]
    if held:
        jobs.append((hold_snapshot, (target,)))
    numbers, sent, counts = together(jobs, limit=seconds + 300)[0]
    check_drained(target, numbers, sent)
    rates = [count / (seconds / windows) for count in counts]
    return {"first": rates[0], "last": rates[-1], **{f"window_{index}": rate for index, rate in enumerate(rates)}}


def churn(gate: Gate, target: Target, seconds: float, windows: int) -> tuple[list[int], int, list[int]]:
    """The numbers that came out, how many went in, and how many came out in each window."""
    queue, numbers = open_queue(target), list[int]()
    sent, counts = 0, []
    gate()  # the database is there
    gate()  # the snapshot is held
    started = time.perf_counter()
    for window in range(windows):
        before, end = len(numbers), started + seconds * (window + 1) / windows
        while time.perf_counter() < end:
            queue.enqueue_many(payload.bodies(sent, BATCH))
            sent += BATCH
            claims = queue.claim(BATCH)
            numbers += [body["n"] for body in queue.bodies(claims)]
            queue.ack(claims)
        counts.append(len(numbers) - before)
    while claims := queue.claim(BATCH):
        numbers += [body["n"] for body in queue.bodies(claims)]
        queue.ack(claims)
    gate()
    queue.close()
    return numbers, sent, counts


def hold_snapshot(gate: Gate, target: Target) -> None:
    """Sees the database as it was at the start until the churn is over."""
    gate()
    release = _read_sqlite(target.url) if target.store == "sqlite" else _read_postgres(target.url)
    gate()
    gate()
    release()


def _read_sqlite(url: str) -> Callable[[], None]:
    import apsw

    file = apsw.Connection(url.removeprefix("sqlite:///"))
    file.execute("BEGIN")
    file.execute("SELECT count(*) FROM sqlite_master").fetchall()
    return file.close


def _read_postgres(url: str) -> Callable[[], None]:
    import psycopg

    connection = psycopg.connect(url)
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.execute("SELECT count(*) FROM pg_class")
    return connection.close
