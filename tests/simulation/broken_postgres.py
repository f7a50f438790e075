"""The same for mistakes that only a database with many writers shows: see `broken`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

from holdfast.store.sql import load_migrations, statements
from tests.simulation.postgres_stage import PostgresStage

Break = Callable[[PostgresStage], AbstractContextManager[Any]]

FUNCTIONS = {
    statement.split("(")[0].split()[-1]: statement.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)
    for _, _, text in load_migrations("postgres")
    for statement in statements(text)
    if statement.startswith("CREATE FUNCTION")
}


@contextmanager
def exchanged(stage: PostgresStage, **functions: str) -> Iterator[None]:
    """Functions of the store, otherwise."""
    try:
        for name, text in functions.items():
            assert text != FUNCTIONS[name], f"{name} looks different now"
            stage.run(text)
        yield
    finally:
        for name in functions:
            stage.run(FUNCTIONS[name])


def id_cursor(stage: PostgresStage) -> AbstractContextManager[None]:
    """Reads what has a higher number than the last one it saw. Who took a lower one and commits later is never seen."""
    window, fresh = FUNCTIONS["holdfast_read_window"], FUNCTIONS["holdfast_read_fresh"]
    by_number = """SELECT m.* FROM holdfast_message m
        WHERE m.lane = wanted_lane AND m.seq > after_seq ORDER BY m.seq LIMIT wanted"""
    return exchanged(
        stage,
        holdfast_read_window=f"{window[: window.index('DECLARE')]} BEGIN RETURN QUERY {by_number}; END $$",
        holdfast_read_fresh=f"{fresh[: fresh.index('    SELECT')]} {by_number} $$",
        holdfast_claim_lane=FUNCTIONS["holdfast_claim_lane"].replace("now_at.seq := -1;", ""),
        holdfast_is_pending="""CREATE OR REPLACE FUNCTION
            holdfast_is_pending(cursor holdfast_cursor, message_xid xid8, message_seq bigint)
            RETURNS boolean LANGUAGE sql STABLE AS $$ SELECT message_seq > (cursor).seq $$""",
        holdfast_first_pending="""CREATE OR REPLACE FUNCTION
            holdfast_first_pending(cursor holdfast_cursor, OUT xid xid8, OUT seq bigint)
            RETURNS SETOF record LANGUAGE sql STABLE AS $$
                SELECT m.xid, m.seq FROM holdfast_message m WHERE m.lane = (cursor).lane AND m.seq > (cursor).seq
                ORDER BY m.seq LIMIT 1 $$""",
    )


UNLUCKY = "hashjoin mergejoin material hashagg sort memoize"
"""What the planner must not choose, so that it chooses what it would with other numbers."""


def in_subquery(stage: PostgresStage) -> AbstractContextManager[None]:
    """Takes WHERE id IN (SELECT … LIMIT n FOR UPDATE SKIP LOCKED): with an unlucky plan that is run again for every
    row, and everything is taken."""
    claim = FUNCTIONS["holdfast_claim_rows"]
    text = claim.replace(
        "WITH several AS MATERIALIZED (",
        "WITH taken AS (UPDATE holdfast_row r SET state = 'processing', "
        "attempts = r.attempts + 1, token = new_token, until = new_until, worker = new_worker WHERE r.seq IN (",
    )
    first = text.index("        ), picked AS MATERIALIZED (")
    last = text.index("            RETURNING r.*")
    text = text[:first] + "        )\n" + text[last:]
    text = text.replace("WHERE NOT first_alone AND r.group_id", "WHERE r.group_id").replace("AND NOT r.alone\n", "\n")
    text = text.replace("SELECT r.seq FROM holdfast_row r\n            WHERE", "SELECT s.seq FROM holdfast_row s WHERE")
    text = text.replace("ORDER BY t.due_at, t.seq;", "ORDER BY t.due_at, t.seq LIMIT wanted;")
    unlucky = "".join(f" SET enable_{way} = off" for way in UNLUCKY.split())
    return exchanged(stage, holdfast_claim_rows=text.replace(" VOLATILE AS", f" VOLATILE{unlucky} AS"))


class Broken(NamedTuple):
    """A mistake, the check that has to notice, and where it shows soonest."""

    mistake: Break
    check: str
    queues: tuple[str, ...]
    cast: tuple[str, ...]


POSTGRES = {
    "id cursor": Broken(id_cursor, "durability", ("plain",), ("produce", "produce", "produce", "work", "work")),
    "IN-subquery claim": Broken(in_subquery, "attempts", ("plain",), ("produce", "produce", "produce", "work", "work")),
}
