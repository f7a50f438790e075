"""From files to what they say: a spec that holds together, and the user's own commands and consumers."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from holdfast.client.client import Holdfast, internals
from holdfast.errors import InvalidInput
from holdfast.spec.files import examine, sound_spec
from holdfast.spec.model import Spec


class Sources(msgspec.Struct, frozen=True):
    """Where everything is read from. `module` is a file or the name of a module; without one there is only the spec."""

    spec: str
    module: str | None = None

    @property
    def files(self) -> list[Path]:
        """What to look at for changes."""
        module = [] if self.module is None or not _is_file(self.module) else [Path(self.module)]
        return [Path(self.spec), *module]


def load(hf: Holdfast, sources: Sources, environ: Mapping[str, str]) -> Spec:
    """Registers the module's commands and consumers with a client, and reads the spec that uses them.

    Whatever does not fit together is refused here: `InvalidSpec` has every problem of the spec.
    """
    if sources.module is not None:
        register(hf, load_module(sources.module))
    known = {"commands": hf.commands.list(), "consumers": internals(hf).consumers.by_name}
    return sound_spec(examine(sources.spec, environ=environ, serving=True, **known))  # type: ignore[arg-type]


def load_module(name: str) -> ModuleType:
    """The user's module: `handlers.py`, or the name of one that can be imported. A file is read anew each time."""
    if not _is_file(name):
        sys.path.insert(0, "")
        try:
            return import_module(name)
        except ModuleNotFoundError as problem:
            if problem.name != name.partition(".")[0]:
                raise
            raise InvalidInput(f"there is no module {name!r}: give a file such as handlers.py, or a name") from None
    path = Path(name).resolve()
    if not path.is_file():
        raise InvalidInput(f"there is no file {name}")
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None, "a .py file can be loaded"
    assert spec.loader is not None, "a .py file can be loaded"
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def register(hf: Holdfast, module: ModuleType) -> None:
    """Lets the module declare its commands and consumers."""
    function = getattr(module, "register", None)
    if not callable(function):
        raise InvalidInput(
            f"{module.__name__} has no function register(hf): put its @hf.command and @hf.consumer functions in there"
        )
    function(hf)


def function_at(address: str) -> Callable[..., Any]:
    """The handler of a consumer, which a spec writes as module:function."""
    module, _, name = address.partition(":")
    try:
        found = getattr(import_module(module), name, None)
    except ModuleNotFoundError as problem:
        if problem.name is None or not f"{module}.".startswith(f"{problem.name}."):
            raise
        raise InvalidInput(f"there is no module {problem.name!r} for the handler {address!r}") from None
    if not callable(found):
        raise InvalidInput(f"there is no function {name!r} in {module} for the handler {address!r}")
    return found  # type: ignore[no-any-return]


def _is_file(name: str) -> bool:
    return name.endswith(".py") or "/" in name
