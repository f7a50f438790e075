"""What is left out of a store is there to be left out: the list does not outlive what it names."""

import ast
from pathlib import Path

import pytest

from tests import poolers
from tests.architecture.source import ROOT
from tests.stores import MATTER_MOST, NOT_THROUGH_SQS, POOLED


@pytest.mark.parametrize("name", sorted({*NOT_THROUGH_SQS, *MATTER_MOST, *POOLED}))
def test_every_named_file_and_test_exists(name: str) -> None:
    path, _, test = name.partition("::")
    tree = ast.parse((ROOT / path).read_text())
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert not test or test in defined


def test_every_exclusion_has_a_reason() -> None:
    assert all(len(reason) > 20 for reason in NOT_THROUGH_SQS.values())


def test_without_a_pooler_its_tests_fail_unless_it_could_not_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poolers, "UNPACKED", tmp_path / "pgbouncer")
    monkeypatch.setattr(poolers, "found", lambda: tmp_path / "pgbouncer/usr/sbin/pgbouncer")
    with pytest.raises(pytest.fail.Exception, match=r"dev\.py test` fetches it"):
        poolers.insist()
    (tmp_path / "pgbouncer").mkdir()
    with pytest.raises(pytest.skip.Exception, match="could not be fetched"):
        poolers.insist()
