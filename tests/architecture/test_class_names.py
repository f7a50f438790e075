"""A class name has one meaning: a reader who finds `Attachments` has found the right one."""

import ast
from collections import defaultdict

from tests.architecture.source import modules, nodes, read


def classes(text: str) -> list[str]:
    """Public names of classes; a private one belongs to its module."""
    return [node.name for node in nodes(text) if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def test_a_class_name_has_one_meaning() -> None:
    places = defaultdict(list)
    for module in modules():
        for name in classes(read(module)):
            places[name].append(module.as_posix())
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_classes_are_found() -> None:
    assert classes("class A:\n    class B: ...\n\ndef f():\n    class _C: ...\n") == ["A", "B"]
