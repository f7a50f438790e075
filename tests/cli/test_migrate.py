"""`holdfast migrate`: done by us, or by hand with the SQL that it prints."""

from pathlib import Path

import apsw
import psycopg
import pytest

from holdfast import Holdfast, StoreError
from tests.cli.commands import holdfast


def kind_of(url: str) -> str:
    return url.partition(":")[0] + ":"


def run_by_hand(url: str, sql: str) -> None:
    """As an operator would, through the engine that the product uses."""
    if url.startswith("sqlite"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(sql)
        connection.execute("COMMIT")
        connection.close()
    else:
        with psycopg.connect(url) as server:
            server.execute(sql.encode())


@pytest.fixture(params=["sqlite", "postgres"])
def empty(request: pytest.FixtureRequest, sqlite_path: Path) -> str:
    """The URL of an empty database."""
    return request.getfixturevalue("empty_postgres_url") if request.param == "postgres" else f"sqlite:///{sqlite_path}"


def test_it_creates_everything_and_says_so(empty: str, tmp_path: Path) -> None:
    answer = holdfast("migrate", "--db", empty, folder=tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith("ran 001_")
    assert "up to date" in answer.stdout
    with Holdfast(empty, migrate=False) as hf:
        hf.enqueue("q", "hello")
        assert [claim.message.body for claim in hf.claim("q")] == ["hello"]


def test_the_second_time_there_is_nothing_to_do(empty: str, tmp_path: Path) -> None:
    first = holdfast("migrate", "--db", empty, folder=tmp_path)
    second = holdfast("migrate", "--db", empty, folder=tmp_path)
    assert second.returncode == 0
    assert second.stdout == first.stdout.splitlines(keepends=True)[-1]


def test_the_url_may_come_from_the_environment(tmp_path: Path) -> None:
    answer = holdfast("migrate", folder=tmp_path, HOLDFAST_DB="sqlite:///work.db")
    assert answer.returncode == 0
    assert (tmp_path / "work.db").exists()


def test_the_printed_sql_makes_a_working_database(empty: str, tmp_path: Path) -> None:
    printed = holdfast("migrate", "--db", kind_of(empty), "--sql", folder=tmp_path)
    assert (printed.returncode, printed.stderr) == (0, "")
    run_by_hand(empty, printed.stdout)
    for migrate in (False, True):
        with Holdfast(empty, migrate=migrate) as hf:
            receipt = hf.enqueue("q", {"by": "hand"})
            [claim] = hf.claim("q")
            claim.ack()
            assert hf.status(receipt.id).state == "succeeded"


def test_after_the_printed_sql_there_is_nothing_left_to_migrate(empty: str, tmp_path: Path) -> None:
    run_by_hand(empty, holdfast("migrate", "--db", kind_of(empty), "--sql", folder=tmp_path).stdout)
    answer = holdfast("migrate", "--db", empty, folder=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "ran" not in answer.stdout.split()


def test_printing_sql_touches_nothing(tmp_path: Path) -> None:
    answer = holdfast("migrate", "--db", "sqlite:///work.db", "--sql", folder=tmp_path)
    assert answer.returncode == 0
    assert "CREATE TABLE holdfast_message" in answer.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["sqlite", "sqlite:", "sqlite:///any.db", "postgresql:", "postgres://", "postgresql"])
def test_only_the_kind_of_url_matters_for_sql(kind: str, tmp_path: Path) -> None:
    answer = holdfast("migrate", "--db", kind, "--sql", folder=tmp_path)
    assert answer.returncode == 0
    assert ("pg_snapshot" in answer.stdout) == kind.startswith("postgres")


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("mysql:", "holdfast: 'mysql:' is not a database URL; write sqlite:///relative.db"),
        ("sqlite:///no/such/folder/a.db", "holdfast: cannot create the database no/such/folder/a.db"),
        ("sqlite:///work.db?engine=turbo", "holdfast: engine must be one of apsw, stdlib, not 'turbo'"),
    ],
)
def test_an_impossible_database_is_refused_in_one_line(url: str, text: str, tmp_path: Path) -> None:
    answer = holdfast("migrate", "--db", url, folder=tmp_path)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.startswith(text)
    assert answer.stderr.count("\n") == 1


def test_sql_for_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    answer = holdfast("migrate", "--db", "mysql://x", "--sql", folder=tmp_path)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.startswith("holdfast: 'mysql://x' is not a database URL; write sqlite:///")


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "work.db").write_text("dear diary, " * 1000)
    answer = holdfast("migrate", "--db", "sqlite:///work.db", folder=tmp_path)
    assert answer.returncode == 1
    assert "not a database" in answer.stderr


def test_without_a_database_the_usage_is_shown(tmp_path: Path) -> None:
    answer = holdfast("migrate", folder=tmp_path)
    assert answer.returncode == 2
    assert "--db" in answer.stderr


def test_a_client_that_may_not_migrate_says_what_to_run(empty: str) -> None:
    with Holdfast(empty, migrate=False) as hf, pytest.raises(StoreError, match="holdfast migrate"):
        hf.enqueue("q", 1)
