"""The parts of a client use each other by public names: what is private to one object is nobody else's business."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import findings, nodes

OWN = ("self", "cls", "super()")

FREE = ("core", "store")
"""Their values are taken apart by functions beside them."""

ALLOWED = {
    ("client.py", "client._parts"),
    ("client.py", "client._assemble"),
    ("aio.py", "client._parts"),
    ("aio.py", "client._adopt"),
    ("aio.py", "other._adopt"),
    ("runtime/pool.py", "other._chosen"),
    ("runtime/pool.py", "before._chosen"),
    ("runtime/loop.py", "LoopHand._work"),
    ("runtime/cell.py", "context._body_type"),
    ("runtime/beginning.py", "sys._current_frames"),
    ("torture/address.py", "parts._replace"),
}
"""By functions beside a class that make it or open it up, by objects of the same class, or of Python itself."""


def reaches(text: str, module: Path) -> Iterator[str]:
    """Where a module uses a private attribute of another object."""
    if module.parts[0] in FREE:
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
    from tests.architecture.source import read

    assert [(module, name) for module, name in sorted(ALLOWED) if name not in read(Path(module))] == []


def test_a_reach_is_caught() -> None:
    assert list(reaches("def f(hf):\n    return hf._parts", Path("http/app.py"))) == ["http/app.py:2: hf._parts"]
    assert list(reaches("self._hf._run(1)", Path("http/app.py"))) == ["http/app.py:1: self._hf._run"]


def test_own_attributes_are_free() -> None:
    assert list(reaches("self._parts = cls._made + super()._more + thing.__class__", Path("client.py"))) == []
