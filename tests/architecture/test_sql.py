"""SQL lives in .sql files; both databases have the same statements, and both stores the same modules."""

import re
from pathlib import Path

import pytest

from holdfast.store.postgres.statements import QUERIES, TOGETHER
from tests.architecture.source import PACKAGE, findings, literals

STATEMENT = (
    r"SELECT\s|INSERT\s+INTO\s|UPDATE\s+\S+\s+SET\s|DELETE\s+FROM\s|CREATE\s+(UNIQUE\s+)?(TABLE|INDEX|TRIGGER)\s"
)
SHOUTED = re.compile(rf"\b({STATEMENT})")
LEADING = re.compile(rf"\s*(WITH\s.*)?({STATEMENT})", re.IGNORECASE | re.DOTALL)

CONTROL = re.compile(r"\s*(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|PRAGMA|SET|LISTEN|UNLISTEN|NOTIFY)\b")
"""Not statements about data: allowed as literals, but only in the store."""

PARAMETERS = re.compile(rb"%\((\w+)\)b")

ONE_SIDED_FILES: dict[str, str] = {
    "engines.py": "SQLite has two libraries",
    "filesystem.py": "SQLite's file may be in the wrong place",
    "limits.py": "PostgreSQL has functions for it, in 003_claims.sql",
    "ordered_group_feed.py": "…",
    "address.py": "only a server can be behind a pooler",
    "wait.py": "only a server can keep a client waiting for a connection, or for an answer",
    "adapt.py": "psycopg is told of our types, the libraries of SQLite need not be",
    "driver.py": "only psycopg is used past its public interface",
    "inodes.py": "only a file can be deleted under its users",
    "wal.py": "PostgreSQL lengthens its own log ahead",
    "prepared.py": "the libraries of SQLite are short by themselves",
    "arrays.py": "PostgreSQL takes many messages as arrays, SQLite one by one",
}
"""Module that only one store has → why."""

ONE_SIDED_STATEMENTS: dict[tuple[str, str], str] = {
    ("arrivals.sql", "view"): "a statement of PostgreSQL can write to several tables",
    ("arrivals.sql", "trigger"): "…",
    ("arrivals.sql", "trigger_of_one"): "…",
    ("arrivals.sql", "add"): "…",
    ("faults.sql", "end_sessions"): "SQLite has no sessions that could be ended",
    ("wakeup.sql", "notify"): "PostgreSQL rings through the database,",
    ("wakeup.sql", "version"): "SQLite through sockets, or by a note when the commit is someone else's",
    ("wakeup.sql", "note"): "…",
    ("wakeup.sql", "counts"): "…",
    ("schema.sql", "files"): "a SQLite database is told by its file,",
    ("schema.sql", "identity"): "one on PostgreSQL by when it was made",
    ("lanes.sql", "reserve"): "SQLite gives out positions itself",
    ("lanes.sql", "look"): "SQLite claims step by step inside its write lock,",
    ("lanes.sql", "read"): "…",
    ("lanes.sql", "move_cursor"): "…",
    ("runs.sql", "next_token"): "…",
    ("runs.sql", "open"): "…",
    ("rows.sql", "due"): "…",
    ("rows.sql", "due_alone"): "…",
    ("rows.sql", "take"): "…",
    ("limits.sql", "note"): "…",
    ("limits.sql", "first_key"): "…",
    ("limits.sql", "next_key"): "…",
    ("limits.sql", "first_of_key"): "…",
    ("limits.sql", "held_by_key"): "…",
    ("limits.sql", "front_alone"): "…",
    ("limits.sql", "next_turn"): "…",
    ("limits.sql", "row"): "…",
    ("lanes.sql", "append_limited"): "PostgreSQL saves round trips",
    ("lanes.sql", "append_once"): "…",
    ("lanes.sql", "claim"): "PostgreSQL by a function in one round trip",
    ("lanes.sql", "close_and_claim"): "PostgreSQL saves a round trip",
    ("runs.sql", "close_whole"): "PostgreSQL saves round trips",
    ("runs.sql", "split_off"): "…",
    ("schema.sql", "hold"): "SQLite's write lock keeps a second migration out",
    ("rows.sql", "ended_as"): "a commit to a file has happened or has not; no answer gets lost",
    ("schema.sql", "is_ahead"): "only PostgreSQL has transaction numbers that a restore can leave behind",
    ("schema.sql", "stop_everything"): "…",
    ("schema.sql", "end_leases"): "…",
    ("schema.sql", "channels"): "…",
    ("schema.sql", "finished_runs"): "…",
    ("schema.sql", "renumber_messages"): "…",
    ("schema.sql", "forget_cursors"): "…",
    ("schema.sql", "restart_cursors"): "…",
    ("schema.sql", "place_groups"): "…",
    ("health.sql", "server"): "SQLite has no server that could be crowded, far away or held up by others",
    ("health.sql", "clock"): "…",
    ("health.sql", "connections"): "…",
    ("health.sql", "transactions"): "…",
    ("health.sql", "slots"): "…",
}
"""(file, statement) that only one store has, such as `("lanes.sql", "take_snapshot")` → why."""


def sql_faults(text: str, module: Path) -> list[str]:
    return [f"{module}:{line}: SQL in Python: {literal[:60]!r}" for line, literal in literals(text) if is_sql(literal)]


def is_sql(literal: str) -> bool:
    return bool(SHOUTED.search(literal) or LEADING.match(literal))


def control_faults(text: str, module: Path) -> list[str]:
    found = [(line, literal) for line, literal in literals(text) if CONTROL.match(literal)]
    return [f"{module}:{line}: database control outside the store: {literal[:60]!r}" for line, literal in found]


def statement_names(sql: str) -> set[str]:
    return set(re.findall(r"^--\s*name:\s*(\w+)", sql, re.MULTILINE))


def store_files(store: str) -> set[str]:
    folder = PACKAGE / "store" / store
    return {str(path.relative_to(folder)) for path in folder.rglob("*.py")}


def store_statements(store: str) -> set[tuple[str, str]]:
    folder = PACKAGE / "store" / "sql"
    files = [*folder.glob("shared/*.sql"), *folder.glob(f"{store}/*.sql")]
    return {(path.name, name) for path in files for name in statement_names(path.read_text())}


def test_no_sql_in_python() -> None:
    assert findings(sql_faults) == []


def test_transactions_are_controlled_in_the_store_only() -> None:
    assert findings(control_faults, outside="store") == []


def test_both_stores_have_the_same_files() -> None:
    sqlite, postgres = store_files("sqlite"), store_files("postgres")
    assert sqlite
    assert sqlite ^ postgres == ONE_SIDED_FILES.keys()


def test_both_stores_have_the_same_statements() -> None:
    sqlite, postgres = store_statements("sqlite"), store_statements("postgres")
    assert sqlite
    together = {(file, name) for file, name in postgres if name.endswith("_together")}
    assert {(file, name.removesuffix("_together")) for file, name in together} <= sqlite & postgres
    postgres -= together
    assert sqlite ^ postgres == ONE_SIDED_STATEMENTS.keys()


def test_what_postgresql_does_for_many_together_it_takes_the_same_parameters_for() -> None:
    for name, together in TOGETHER.items():
        assert set(PARAMETERS.findall(QUERIES[name])) - {b"now"} == {one.encode() for one in together.columns}, name
        assert together.keys, name
        assert set(together.keys) <= set(together.columns), name


@pytest.mark.parametrize(
    "line",
    [
        'run("SELECT 1")',
        'run(f"DELETE FROM {table}")',
        'run("select id from holdfast_message")',
        'run("""\n    with due as (select 1)\n    update x set y = 1""")',
        'run("INSERT INTO a VALUES (1)")',
        'run("CREATE TABLE a (b)")',
    ],
)
def test_sql_in_python_is_caught(line: str) -> None:
    assert len(sql_faults(line, Path("a.py"))) == 1


@pytest.mark.parametrize(
    "line",
    ['"""SELECT is explained here."""', 'help = "Please select one queue"', 'name = "update_settings"', "SELECT = 1"],
)
def test_prose_and_names_are_not_sql(line: str) -> None:
    assert sql_faults(line, Path("a.py")) == []


def test_control_outside_the_store_is_caught() -> None:
    assert len(control_faults('run("BEGIN IMMEDIATE")\nrun(f"PRAGMA x = {y}")', Path("client.py"))) == 2
    assert control_faults('print("Settings", "beginning", "NOTIFYING")', Path("client.py")) == []


def test_statement_names_are_read() -> None:
    assert statement_names("-- name: claim\nSELECT 1;\n-- prose\n--name:settle\nSELECT 2;") == {"claim", "settle"}
