"""The public methods of the client, by the names that users write: `enqueue`, `queues.pause`."""

import inspect
from collections.abc import Callable
from operator import attrgetter
from typing import Any, get_type_hints

from holdfast import Holdfast


def namespaces() -> dict[str, type]:
    """The classes behind `hf.queues`, `hf.sagas` and so on."""
    return {name: hint for name, hint in get_type_hints(Holdfast).items() if not name.startswith("_")}


def public_methods() -> dict[str, Callable[..., Any]]:
    """Those of the client itself, and those of its namespaces."""
    found = {name: method for name, method in inspect.getmembers(Holdfast, inspect.isfunction) if name[0] != "_"}
    for noun, namespace in namespaces().items():
        methods = inspect.getmembers(namespace, inspect.isfunction)
        found |= {f"{noun}.{name}": method for name, method in methods if name[0] != "_"}
    return found


def method_of(client: Any, name: str) -> Callable[..., Any]:
    """`method_of(hf, "queues.pause")` is `hf.queues.pause`."""
    method: Callable[..., Any] = attrgetter(name)(client)
    return method
