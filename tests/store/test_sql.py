"""SQL in named blocks, and both stores' files."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from holdfast.store import sql
from holdfast.store.sql import (
    blocks,
    load_migrations,
    load_queries,
    statements,
    with_clock,
    without_postgres,
)
from tests.architecture.source import modules, read
from tests.architecture.test_layers import STORE, layer_of, parts_of

pytestmark = pytest.mark.unit

DATABASES = ["sqlite", "postgres"]
QUERY = re.compile(r'"([a-z]+\.[a-z_]+)"')
FILES = {
    *(
        "arrivals",
        "attachments",
        "audit",
        "blocked",
        "budget",
        "channels",
        "clock",
        "commands",
        "commitments",
        "consumers",
        "crew",
        "dead",
        "delivery",
        "depth",
        "effort",
        "faults",
        "feeding",
        "health",
        "idempotency",
        "lanes",
        "leaders",
        "liveness",
        "limits",
        "notices",
        "owners",
        "replies",
        "results",
        "retention",
        "rows",
        "runs",
        "sagas",
        "schedules",
        "schema",
        "seats",
        "seeking",
        "tally",
        "topics",
        "wakeup",
    ),
}


def queries_named_in(chosen: Iterable[Path]) -> set[str]:
    """`file.verb` literals in modules."""
    found = {name for module in chosen for name in QUERY.findall(read(module))}
    return {name for name in found if name.split(".")[0] in FILES}


def shared_modules() -> list[Path]:
    """Those that run queries on either database: the engine, and the steps of capabilities."""
    own = [Path("store") / database for database in DATABASES]
    of_stores = [module for module in modules() if layer_of(parts_of(module)) == STORE]
    return [module for module in of_stores if module.parent not in own]


def test_a_block_goes_from_its_name_to_the_next() -> None:
    text = "-- A file.\n\n-- name: find\nSELECT 1\nFROM a;\n\n-- name: remove\nDELETE FROM a\n"
    assert blocks(text) == {"find": "SELECT 1\nFROM a", "remove": "DELETE FROM a"}


def test_comments_are_left_out() -> None:
    text = "-- name: find\n-- Why it is so.\nSELECT 1\n  -- and this\nFROM a\n"
    assert blocks(text) == {"find": "SELECT 1\nFROM a"}


def test_a_file_without_names_has_no_blocks() -> None:
    assert blocks("-- nothing here\nSELECT 1;\n") == {}


def test_a_name_inside_a_line_is_no_name() -> None:
    assert blocks("-- name: a\nSELECT '-- name: b'\n") == {"a": "SELECT '-- name: b'"}


def test_a_statement_ends_at_a_semicolon_at_the_end_of_a_line() -> None:
    text = (
        "CREATE TABLE a (\n    b TEXT DEFAULT ';'\n);\n\nCREATE INDEX c ON a (b);  \nINSERT INTO a VALUES ('x; y');\n"
    )
    assert statements(text) == [
        "CREATE TABLE a (\n    b TEXT DEFAULT ';'\n);",
        "CREATE INDEX c ON a (b);",
        "INSERT INTO a VALUES ('x; y');",
    ]


def test_a_function_is_kept_whole() -> None:
    function = "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$\nBEGIN\n    PERFORM 1;\n    RETURN;\nEND;\n$$;"
    assert statements(f"CREATE TABLE a (b int);\n{function}\nDROP TABLE a;\n") == [
        "CREATE TABLE a (b int);",
        function,
        "DROP TABLE a;",
    ]


def test_a_function_on_one_line_does_not_swallow_what_follows() -> None:
    function = "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT 1; $$;"
    assert statements(f"{function}\nDROP TABLE a;\n") == [function, "DROP TABLE a;"]


def test_comments_are_no_statements() -> None:
    assert statements("-- only prose;\n\n-- and more;\n") == []


def test_sqlite_runs_a_shared_query_without_casts_and_row_locks() -> None:
    text = "SELECT a::text[], '::' FROM t\nWHERE b = :b::uuid AND c < :now::float8\nFOR NO KEY UPDATE OF t SKIP LOCKED"
    assert without_postgres(text) == "SELECT a, '::' FROM t\nWHERE b = :b AND c < :now"
    assert without_postgres("SELECT 1 FROM t FOR UPDATE") == "SELECT 1 FROM t"
    assert without_postgres("(SELECT 1 FROM t\n FOR SHARE\n) AS for_updates") == "(SELECT 1 FROM t\n) AS for_updates"


def test_postgres_asks_its_own_clock() -> None:
    assert (
        with_clock("SELECT :now - a, f(:now::bigint), :nowhere", "SELECT 7")
        == "SELECT (SELECT 7) - a, f(:now::bigint), :nowhere"
    )
    assert "(SELECT holdfast_now(:now::bigint))" in load_queries("postgres")["rows.succeed"]


def test_a_query_stands_in_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, text in {
        "shared": "-- name: a\nSELECT 1;\n",
        "sqlite": "",
        "postgres": "-- name: a\nSELECT 2;\n",
    }.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tally.sql").write_text(text)
    monkeypatch.setattr(sql, "_FOLDER", tmp_path)
    assert load_queries("sqlite") == {"tally.a": "SELECT 1"}
    with pytest.raises(RuntimeError, match=r"postgres are shared, too: tally\.a"):
        load_queries("postgres")


def test_what_both_databases_run_alike_is_shared() -> None:
    own = [sql.read_blocks(one) for one in DATABASES]
    alike = [
        name for name in own[0].keys() & own[1].keys() if without_postgres(own[1][name]).split() == own[0][name].split()
    ]
    assert alike == []


@pytest.mark.parametrize("database", DATABASES)
def test_the_queries_of_a_store_load(database: str) -> None:
    queries = load_queries(database)
    assert {"lanes.find", "rows.lock", "runs.lock", "dead.list", "channels.declare"} <= queries.keys()
    assert all(text and "-- name" not in text for text in queries.values())


@pytest.mark.parametrize("database", DATABASES)
def test_the_migrations_of_a_store_are_numbered_without_holes(database: str) -> None:
    migrations = load_migrations(database)
    assert [number for number, _, _ in migrations] == list(range(1, len(migrations) + 1))
    assert all(name.startswith(f"{number:03}_") for number, name, _ in migrations)
    assert all(statements(text) for _, _, text in migrations)


@pytest.mark.parametrize("database", DATABASES)
def test_every_query_that_the_shared_code_wants_is_there(database: str) -> None:
    wanted = queries_named_in(shared_modules())
    assert len(wanted) > 30
    assert wanted <= load_queries(database).keys()


@pytest.mark.parametrize("database", DATABASES)
def test_no_store_keeps_a_query_that_nobody_runs(database: str) -> None:
    named = queries_named_in([*shared_modules(), *modules("store/sqlite"), *modules("store/postgres")])
    together = {f"{name}_together" for name in named}
    assert load_queries(database).keys() - named - together == set()
