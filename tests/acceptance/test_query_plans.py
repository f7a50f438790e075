"""Every query that runs while messages flow finds its rows by an index, at 10^5 rows in each of the big tables."""

import itertools
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import Claim, Holdfast
from holdfast.budgets import spend_reports as reports
from holdfast.client.client import internals
from holdfast.client.settlements import acked
from holdfast.store.sql import load_queries
from tests.acceptance.effort import effort, wait_for_the_end_of_others
from tests.clock import FakeClock
from tests.long import only_long
from tests.servers import PostgresAddress

ROWS = 100_000
BIG = ("holdfast_message", "holdfast_row", "holdfast_run")

SCANS_BY_NATURE = {
    "lanes.search": "by headers alone it reads all; by key or correlation id see below",
    "rows.search": "…",
    "rows.purge": "removes all rows of a queue, on an operator's order",
    "topics.forget_rows": "removes all rows of a group that ends",
    "topics.forget_runs": "removes all runs of a group that ends",
    "dead.purge_replays": "looks at all rows of a queue, on an operator's order",
    "topics.end_replays": "looks at all rows of a group, when it ends",
    "arrivals.trigger": "has no plan; it does what idempotency.remember, lanes.reserve and lanes.append_bare do",
    "arrivals.trigger_of_one": "has no plan; it does what lanes.reserve and lanes.append_bare do",
    "schema.stop_everything": "has no plan, it only locks",
    "schema.finished_runs": "moves a restored dump to its new server, once",
    "schema.end_leases": "moves a restored dump to its new server, once",
    "schema.renumber_messages": "moves a restored dump to its new server, once",
    "schema.place_groups": "moves a restored dump to its new server, once",
}
"""Queries that may read a big table from end to end, and why."""

PARAMETER = re.compile(r"(?<!:):([a-z_]+)")


def queries_on_big_tables(database: str) -> Iterator[tuple[str, str]]:
    for name, sql in load_queries(database).items():
        if name not in SCANS_BY_NATURE and any(table in sql for table in BIG):
            yield name, sql


# --- SQLite -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("analysed", [False, True], ids=["unanalysed", "analysed"])
@pytest.mark.parametrize("engine", ["apsw", pytest.param("stdlib", marks=only_long)])
def test_sqlite_searches_and_never_scans(tmp_path: Path, engine: str, analysed: bool) -> None:
    """L16: EXPLAIN QUERY PLAN of every query; asked through the product's own library, as it plans."""
    with Holdfast(f"sqlite:///{tmp_path}/work.db?engine={engine}") as hf:
        fill(hf)
        for table, changes in COPIES.items():
            found = ask(hf, f"PRAGMA table_info({table})")
            write(hf, copies(table, [row[1] for row in found], changes, id="randomblob(16)", series=SQLITE_SERIES))
        if analysed:
            write(hf, "ANALYZE")
            hf.close()

        scans = {name: found for name, sql in queries_on_big_tables("sqlite") if (found := sqlite_scans(hf, sql))}

    assert scans == {}


def sqlite_scans(hf: Holdfast, sql: str) -> list[str]:
    named = dict.fromkeys(PARAMETER.findall(sql), 1)
    plan = ask(hf, f"EXPLAIN QUERY PLAN {sql}", named or (1,) * sql.count("?"))
    aliases = set(BIG) | {alias for table in BIG for alias in re.findall(rf"{table} (?:AS )?([a-z]+)\b", sql)}
    return [line for *_, line in plan if line.startswith("SCAN ") and line.split()[1] in aliases]


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filled(postgres_server: PostgresAddress) -> Iterator[str]:
    """A database of 10^5 messages, rows and runs."""
    name = f"plans_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        url = postgres_server.url(name)
        with Holdfast(url) as hf:
            fill(hf)
        with psycopg.connect(url, autocommit=True) as inside:
            for table, changes in COPIES.items():
                found = inside.execute(f"SELECT * FROM {table} LIMIT 0").description or []
                names = [column.name for column in found]
                inside.execute(copies(table, names, changes, id="gen_random_uuid()", series=POSTGRES_SERIES).encode())
            inside.execute("ANALYZE")
        yield url
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_postgres_plans_no_sequential_scan(filled: str) -> None:
    """L16: EXPLAIN of every query as a prepared statement that knows no parameter, the worst case."""
    with psycopg.connect(filled, autocommit=True) as connection:
        scans = {
            name: found for name, sql in queries_on_big_tables("postgres") if (found := postgres_scans(connection, sql))
        }

    assert scans == {}


def test_postgres_sorts_no_lane_to_find_its_front(filled: str) -> None:
    with psycopg.connect(filled, autocommit=True) as connection:
        plan = postgres_plan(connection, load_queries("postgres")["retention.front"])

    assert not [line for line in plan if "Sort" in line]
    assert any("Index Scan using holdfast_message_pkey" in line for line in plan)


def postgres_scans(connection: psycopg.Connection[Any], sql: str) -> list[str]:
    return [line for line in postgres_plan(connection, sql) if re.search(rf"Seq Scan on ({'|'.join(BIG)})", line)]


def postgres_plan(connection: psycopg.Connection[Any], sql: str) -> list[str]:
    names = list(dict.fromkeys(PARAMETER.findall(sql)))
    numbered = PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", sql)
    plan = connection.execute(f"EXPLAIN (GENERIC_PLAN, COSTS OFF) {numbered}".encode()).fetchall()
    return [line.strip() for (line,) in plan]


OPERATIONS: dict[str, Callable[[Holdfast, int], Any]] = {
    "enqueue": lambda hf, n: hf.enqueue("a", n),
    "enqueue later": lambda hf, n: hf.enqueue("a", n, delay=1000),
    "enqueue in order": lambda hf, n: hf.enqueue("ordered", n, key=f"new-{n}"),
    "claim and ack": lambda hf, n: hf.ack(hf.claim("a", n=5)),
    "claim with ack": lambda hf, n: hf.ack(hf.claim("a", n=5, ack=hf.claim("a", n=5))),
    "claim of a lane": lambda hf, n: hf.ack(hf.claim("lane", n=5)),
    "ack of a lane with a claim": lambda hf, n: hf.ack(hf.claim("lane", n=5, ack=hf.claim("lane", n=5))),
    "ack in parts": lambda hf, n: list(map(hf.ack, hf.claim("lane", n=5))),
    "claim of nothing": lambda hf, n: hf.claim("empty", wait=0.001),
    "nack": lambda hf, n: hf.nack(hf.claim("lane", n=2), "no"),
    "dead letter": lambda hf, n: hf.dead_letter(hf.claim("lane", n=2), "no"),
    "extend and release": lambda hf, n: hf.release(extended(hf, hf.claim("lane", n=2))),
    "report an effort": lambda hf, n: [
        spent(hf, hf.claim("a", n=5)),
        spent(hf, hf.claim("lane", n=5)),
        hf.queues.budget("a"),
    ],
    "expiry": lambda hf, n: [
        hf.claim("lane", n=2, lease=0.001),
        hf.claim("a", n=2, lease=0.001),
        hf.queues.sweep("lane"),
    ],
    "sweep": lambda hf, n: hf.queues.sweep("a"),
    "status": lambda hf, n: hf.status(hf.queues.peek("lane", 1)[0].id),
    "cancel": lambda hf, n: hf.cancel(hf.queues.peek("lane", 1)[0].id),
    "cancel a claimed one": lambda hf, n: hf.cancel(hf.claim("lane", n=2)[0].message.id),
    "peek": lambda hf, n: hf.queues.peek("a", 5),
    "claim of a limited queue": lambda hf, n: hf.ack(hf.claim("limited", n=5)),
    "claim of limited keys": lambda hf, n: hf.ack(hf.claim("keys", n=5, wait=0.001)),
    "look at its health": lambda hf, n: internals(hf).store.health.look(),
}


def test_postgres_runs_no_sequential_scan(filled: str) -> None:
    """L16: what the server itself counts while the product works, functions included."""
    scans = {}
    with Holdfast(filled) as hf:
        hf.queue("empty")
        hf.queue("limited", concurrency=10, rate="100/s")
        hf.enqueue_many("limited", range(100))
        hf.queue("keys", key_concurrency=1, key_rate="1/s")
        hf.enqueue_many("keys", range(300), key="full")
        hf.enqueue_many("keys", range(100), key=str)
        for name, operation in OPERATIONS.items():
            hf.close()
            before = counted(filled)
            for number in range(8):
                operation(hf, number)
            hf.close()
            after = counted(filled)
            found = {table: after[table] - before[table] for table in BIG if after[table] > before[table]}
            if found:
                scans[name] = found

    assert scans == {}


def counted(url: str) -> dict[str, int]:
    """How often each table was read from end to end; a session's counts are complete when it has ended."""
    with psycopg.connect(url, autocommit=True) as connection:
        wait_for_the_end_of_others(connection)
        connection.execute("SELECT pg_stat_clear_snapshot()")
        return dict(connection.execute("SELECT relname, seq_scan FROM pg_stat_user_tables").fetchall())


def spent(hf: Holdfast, claims: list[Claim]) -> None:
    for claim in claims:
        reports.spend(internals(hf), claim, 1)
        reports.act(internals(hf), claim, "look")
    internals(hf).store.efforts.begin(acked(claims))


def extended(hf: Holdfast, claims: Any) -> Any:
    hf.extend(claims, 60)
    return claims


# --- both -----------------------------------------------------------------------------------------------------------

FUTURE = 4_000_000_000_000_000
"""Microseconds; far enough ahead for a lease or a history that is not over."""

SQLITE_SERIES = f"(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) SELECT i FROM n)"
POSTGRES_SERIES = f"(SELECT i FROM generate_series(1, {ROWS}) AS i)"

COPIES: dict[str, dict[str, str | None]] = {
    "holdfast_row": {
        "seq": None,
        "id": "{id}",
        "group_id": "1 + i % 3",
        "lane": "4 + i % 12",
        "state": "CASE i % 10 WHEN 0 THEN 'processing' WHEN 1 THEN 'succeeded' ELSE 'pending' END",
        "due_at": "i",
        "order_key": "CASE i % 2 WHEN 0 THEN '' ELSE 'k' || i % 1000 END",
        "token": "CASE i % 10 WHEN 0 THEN -i END",
        "until": "CASE i % 10 WHEN 0 THEN i + {future} END",
        "finished_at": "CASE i % 10 WHEN 1 THEN i + {future} END",
    },
    "holdfast_run": {
        "token": "-i",
        "group_id": "1 + i % 3",
        "lane": "4 + i % 12",
        "until": "i + {future}",
        "finished_at": "CASE WHEN i % 10 <> 0 THEN i + {future} END",
    },
}
"""How the copies of the one row and the one run that the product made differ from them."""


def copies(table: str, columns: list[str], changes: dict[str, str | None], *, id: str, series: str) -> str:
    values = {column: changes.get(column, f"r.{column}") for column in columns}
    chosen = {column: value.format(id=id, future=FUTURE) for column, value in values.items() if value is not None}
    return (
        f"INSERT INTO {table} ({', '.join(chosen)}) SELECT {', '.join(chosen.values())}"
        f" FROM (SELECT * FROM {table} LIMIT 1) AS r, {series} AS n"
    )


def write(hf: Holdfast, sql: str) -> None:
    internals(hf).store.database.write(lambda tx: tx.execute(sql))  # type: ignore[attr-defined]


def ask(hf: Holdfast, sql: str, parameters: Any = ()) -> list[Any]:
    """Through the product's own connection: a second library on the file would break its locks."""
    found: list[Any] = internals(hf).store.database.read(lambda tx: tx._connection.rows(sql, parameters))  # type: ignore[attr-defined]
    return found


def fill(hf: Holdfast) -> None:
    """Three queues and 10^5 messages, one row and one run; the copies of these belong to the same queues."""
    hf.queue("a", lease=60)
    hf.queue("ordered", ordering="per_key")
    hf.queue("lane", history=0)
    for start in range(0, ROWS, 20_000):
        hf.enqueue_many("lane" if start else "a", range(start, start + 20_000))
    hf.enqueue("a", "row", delay=1000)
    hf.ack(hf.claim("a", n=10))


@pytest.mark.parametrize("wanted", [{"key": "ada"}, {"correlation_id": "order-42"}], ids=str)
def test_a_search_costs_the_same_whatever_is_there(empty_url: str, wanted: dict[str, str]) -> None:
    """L16: by key and by correlation id; among the lanes, the rows and the dead."""
    carried = {"key": "ada", "correlation_id": "order-42"}
    with Holdfast(empty_url) as hf:
        for delay in (0, 1000):
            hf.enqueue_many("q", range(3), delay=delay, **carried)
        hf.dead_letter(hf.claim("q"), "boom")
        few = effort(empty_url, hf, partial(hf.messages.search, **wanted))
        for delay in (0, 1000):
            hf.enqueue_many("q", range(5_000), key="bob", correlation_id="order-43", delay=delay)
        assert len(hf.messages.search(**wanted)) == 6  # type: ignore[arg-type]
        many = effort(empty_url, hf, partial(hf.messages.search, **wanted))

    assert many < 2 * few


def test_stats_and_a_sweep_without_work_cost_the_same_whatever_is_there(empty_url: str) -> None:
    """L16: both are asked for all the time."""
    with Holdfast(empty_url) as hf:
        hf.queue("q")
        hf.enqueue_many("q", range(100))
        few = [effort(empty_url, hf, partial(call, "q")) for call in (hf.stats, hf.queues.sweep)]
        for start in range(0, 50_000, 10_000):
            hf.enqueue_many("q", range(start, start + 10_000))
        many = [effort(empty_url, hf, partial(call, "q")) for call in (hf.stats, hf.queues.sweep)]

    assert all(late < 2 * early + 20 for early, late in zip(few, many, strict=True)), (few, many)


@pytest.mark.parametrize("options", [{}, {"delay": 0.001}, {"ttl": 5}], ids=str)
def test_leaving_out_expired_messages_costs_the_same_however_many_live(
    empty_url: str, options: dict[str, float]
) -> None:
    """L16: by an index, or at the front of a lane; also for an arrival that has to count."""
    clock = FakeClock()
    with Holdfast(empty_url, clock=clock) as hf:
        hf.queue("q", max_age=5, max_depth=1_000_000)
        hf.enqueue_many("q", range(200), **options)
        clock.advance(5)

        def look() -> None:
            hf.queue("q", max_age=5, max_depth=1_000_000 + next(limits))  # A new limit makes the next arrival count.
            hf.enqueue("q", "one more")
            internals(hf).store.reads.stats(internals(hf).catalog.channel("q"))
            assert len(hf.queues.peek("q", 5)) == 5

        limits = itertools.count()
        hf.enqueue_many("q", range(2_000))
        few = effort(empty_url, hf, look)
        for start in range(0, 30_000, 10_000):
            hf.enqueue_many("q", range(start, start + 10_000))
        many = effort(empty_url, hf, look)

    assert many < 1.5 * few + 200, (few, many)


def test_an_ack_costs_the_same_with_idempotency_keys(empty_url: str) -> None:
    """It neither looks for the keys of its messages nor writes to them."""
    efforts = []
    with Holdfast(empty_url) as hf:
        hf.queue("q", lease=600)
        for key in (None, None, str):  # The first ack of a client also prepares its statements.
            hf.enqueue_many("q", range(200), idempotency_key=key)
            efforts.append(effort(empty_url, hf, partial(hf.ack, hf.claim("q", n=200))))
    assert efforts[2] <= efforts[1] + 50, efforts


def test_an_ordered_enqueue_costs_the_same_whatever_is_there(empty_url: str) -> None:
    """L16: the unfinished messages of a key are looked up, also by a session that planned it when there were none."""
    with Holdfast(empty_url) as hf:
        hf.queue("q", ordering="per_key")
        first, *_, last = [effort(empty_url, hf, partial(send, hf, f"{turn}-")) for turn in range(20)]

    assert last < 2 * first


def send(hf: Holdfast, prefix: str) -> None:
    hf.enqueue_many("q", range(500), key=lambda body: prefix + str(body))
