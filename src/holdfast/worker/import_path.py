"""Where a function or a class is at home, so that another process can find it there."""

from __future__ import annotations

import importlib
import os
import sys
from functools import reduce
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from typing import Any, get_origin

from holdfast.errors import InvalidInput, shown

SCRIPT = "__mp_main__"
"""What the program that was started is called in other processes: not `__main__`, so that it does not begin again."""


def address(thing: Any, what: str) -> tuple[str, str]:
    """Its module and its name in there; refuses what cannot be found under any."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    owner = getattr(thing, "__self__", None)
    bound = (owner is not None and not isinstance(owner, type(sys) | type)) or get_origin(thing) is not None
    if not isinstance(module, str) or not isinstance(name, str) or "<" in name or bound:
        raise InvalidInput(
            f"{what} {shown(thing)} cannot be found by another process: define it at the top of a module"
        )
    if module not in sys.modules or (_home(module) == SCRIPT and script() is None):
        raise InvalidInput(f"{what} {name!r} is not in a file that another process could import: put it into a module")
    return _home(module), name


def names(kind: type) -> list[str]:
    """A class and those that it is derived from."""
    return [f"{_home(one.__module__)}.{one.__qualname__}" for one in kind.__mro__]


def script() -> str | None:
    """The file of the program that was started; None if it was typed."""
    known = sys.modules.get(SCRIPT, sys.modules["__main__"])  # In a process of a pool it has its other name.
    path = getattr(known, "__file__", None)
    return None if path is None else os.path.abspath(path)


def find(module: str, name: str) -> Any:
    """What is at home there."""
    return reduce(getattr, name.split("."), importlib.import_module(module))


def load_script(path: str) -> None:
    """Makes the program that was started known here under its other name."""
    spec = spec_from_loader(SCRIPT, SourceFileLoader(SCRIPT, path))
    assert spec is not None, "it has a loader"
    assert spec.loader is not None, "it has a loader"
    module = module_from_spec(spec)
    sys.modules[SCRIPT] = sys.modules["__main__"] = module
    spec.loader.exec_module(module)


def _home(module: str) -> str:
    if module != "__main__":
        return module
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return SCRIPT if spec is None or spec.name == "__main__" else str(spec.name)
