"""The marks that say on which stores a test runs have their effect, and say why where they exclude one."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import AsyncHoldfast, Holdfast
from tests import poolers
from tests.architecture.source import ROOT, nodes
from tests.long import is_long_run
from tests.stores import THROUGH_SQS, further_stores, repeats_on_postgres, repeats_on_stdlib
from tests.through_sqs import FOR_CHILDREN, SEAM, deliver_through_sqs

MARKS = (
    *("above_the_stores", "behind_pooler", "both_engines", "of_queues"),
    *("on_postgres", "through_sqs", "not_through_sqs"),
)


def marks(name: str) -> Iterator[tuple[Path, ast.AST]]:
    """Every use of `pytest.mark.NAME` in the tests."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in nodes(path.read_text()):
            if isinstance(node, ast.Attribute) and ast.unparse(node) == f"pytest.mark.{name}":
                yield path, node


def without_reason(text: str) -> list[int]:
    """The lines of `not_through_sqs` without a reason: a sentence, or the name of one."""
    exclusions = [node for node in nodes(text) if getattr(node, "attr", "") == "not_through_sqs"]
    given = {
        id(node.func)
        for node in nodes(text)
        if isinstance(node, ast.Call) and len(node.args) == 1 and says_something(node.args[0])
    }
    return [node.lineno for node in exclusions if isinstance(node, ast.Attribute) and id(node) not in given]


def says_something(argument: ast.expr) -> bool:
    return isinstance(argument, ast.Name) or (isinstance(argument, ast.Constant) and len(str(argument.value)) > 20)


@pytest.mark.parametrize("mark", MARKS)
def test_every_mark_is_used(mark: str) -> None:
    assert list(marks(mark)), "a mark that no test has"


def test_every_exclusion_has_a_reason() -> None:
    paths = sorted({path for path, _ in marks("not_through_sqs")})
    assert [f"{path}:{line}" for path in paths for line in without_reason(path.read_text())] == []


def test_an_exclusion_without_a_reason_is_found() -> None:
    assert without_reason("pytestmark = pytest.mark.not_through_sqs") == [1]
    assert without_reason('\n@pytest.mark.not_through_sqs("slow")\ndef test_one(): ...') == [2]
    assert without_reason("pytestmark = pytest.mark.not_through_sqs(TOPICS)") == []


@pytest.mark.of_queues
def test_queues_go_through_sqs_in_long_runs(request: pytest.FixtureRequest) -> None:
    assert further_stores(request.node) == (THROUGH_SQS if is_long_run() else [])


@pytest.mark.behind_pooler
@pytest.mark.through_sqs
def test_marks_add_stores(request: pytest.FixtureRequest) -> None:
    assert further_stores(request.node) == ["postgres-pooled", THROUGH_SQS[0]]


@pytest.mark.behind_pooler(long=True)
def test_some_run_behind_a_pooler_only_in_long_runs(request: pytest.FixtureRequest) -> None:
    assert further_stores(request.node) == (["postgres-pooled"] if is_long_run() else [])


@pytest.mark.parametrize("driver", ["sqlite-stdlib"])
def test_one_driver_of_sqlite_repeats_what_runs_on_the_other(request: pytest.FixtureRequest, driver: str) -> None:
    other = request.node.nodeid.replace(driver, "sqlite-apsw")
    assert repeats_on_stdlib(request.node, {other})
    assert not repeats_on_stdlib(request.node, set()), "nothing else would run it"
    request.applymarker("both_engines")
    assert not repeats_on_stdlib(request.node, {other})


def test_what_is_above_the_stores_runs_on_postgresql_if_marked(request: pytest.FixtureRequest) -> None:
    node = request.node
    names = {node.nodeid.replace("postgres", "sqlite")}
    assert not repeats_on_postgres(node, names), "it says something of the stores"
    request.applymarker("above_the_stores")
    assert repeats_on_postgres(node, names)
    assert not repeats_on_postgres(node, set()), "nothing else would run it"
    request.applymarker("on_postgres")
    assert not repeats_on_postgres(node, names)


@pytest.mark.through_sqs
@pytest.mark.not_through_sqs("shows that an exclusion counts more")
def test_an_exclusion_counts_more_than_the_mark_of_the_module(request: pytest.FixtureRequest) -> None:
    assert further_stores(request.node) == []


def test_every_client_delivers_through_sqs_where_a_test_runs_like_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SEAM, deliver_through_sqs)
    url = f"sqlite:///{tmp_path}/work.db"
    for client in (Holdfast(url), AsyncHoldfast(url)):
        assert (client.settings.delivery, client.settings.sqs_create) == ("sqs", True)


def test_so_do_the_programs_that_it_starts(tmp_path: Path) -> None:
    shown = (
        "import sys; from holdfast import Holdfast; from tests.acceptance import workers;"
        "workers.ROLES['show'] = lambda log, url: print(Holdfast(url).settings.delivery);"
        "workers.main(sys.argv[1:])"
    )
    arguments = ["show", str(tmp_path / "log"), f'{{"url": "sqlite:///{tmp_path}/work.db"}}']
    command = [sys.executable, "-c", shown, *arguments]
    environment = {**os.environ, FOR_CHILDREN: "yes"}
    assert subprocess.check_output(command, cwd=ROOT, env=environment, text=True) == "sqs\n"


def test_a_pooler_is_fetched_when_the_first_test_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "pgbouncer"
    monkeypatch.setattr(poolers, "found", lambda: program)
    monkeypatch.setattr("dev.fetch_pooler", program.touch)
    poolers.insist()
    assert program.exists()


def test_tests_behind_a_pooler_are_skipped_only_if_it_could_not_be_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[bool] = []
    monkeypatch.setattr(poolers, "found", lambda: tmp_path / "pgbouncer")
    monkeypatch.setattr("dev.fetch_pooler", lambda: tried.append(True))
    with pytest.raises(pytest.skip.Exception, match="could not be downloaded"):
        poolers.insist()
    assert tried == [True]
