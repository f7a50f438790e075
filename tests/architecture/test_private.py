"""The parts of a client use each other by public names: what is private to one object is nobody else's business."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import findings, nodes, read
from tests.architecture.test_layers import RULES, STORE, layer_of, parts_of

OWN = ("self", "cls", "super()")

FREE = (RULES, STORE)
"""Layers whose values are taken apart by functions beside them."""

ALLOWED = {
    ("client/client.py", "client._parts"),
    ("client/client.py", "client._assemble"),
    ("client/async_client.py", "client._parts"),
    ("client/async_client.py", "client._adopt"),
    ("client/async_client.py", "other._adopt"),
    ("worker/pools/pool.py", "other._chosen"),
    ("worker/pools/pool.py", "before._chosen"),
    ("worker/executors/asyncio.py", "LoopHand._work"),
    ("worker/executors/process_child.py", "context._body_type"),
    ("worker/handler_begin.py", "sys._current_frames"),
    ("torture/address.py", "parts._replace"),
}
"""By functions beside a class that make it or open it up, by objects of the same class, or of Python itself."""


def reaches(text: str, module: Path) -> Iterator[str]:
    """Where a module uses a private attribute of another object."""
    if layer_of(parts_of(module)) in FREE:
        return
    for node in nodes(text):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            name = ast.unparse(node)
            own = ast.unparse(node.value) in OWN or name == "os._exit"
            if not own and (module.as_posix(), name) not in ALLOWED:
                yield f"{module}:{node.lineno}: {name}"


def test_no_object_reaches_into_another() -> None:
    assert findings(reaches) == []


def test_what_is_allowed_is_still_there() -> None:
    assert [(module, name) for module, name in sorted(ALLOWED) if name not in read(Path(module))] == []


def test_a_reach_is_caught() -> None:
    assert list(reaches("def f(hf):\n    return hf._parts", Path("server/app.py"))) == ["server/app.py:2: hf._parts"]
    assert list(reaches("self._hf._run(1)", Path("server/app.py"))) == ["server/app.py:1: self._hf._run"]


def test_own_attributes_are_free() -> None:
    assert list(reaches("self._parts = cls._made + super()._more + thing.__class__", Path("client.py"))) == []
