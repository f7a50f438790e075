"""What is left out of a store is there to be left out: the list does not outlive what it names."""

import ast

import pytest

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
