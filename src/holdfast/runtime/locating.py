"""Where a consumer stands in a program, so that another process of the same program can find it."""

from __future__ import annotations

import sys
from importlib import import_module

from holdfast.errors import InvalidInput
from holdfast.runtime.consumer import Consumer


def address_of(consumer: Consumer) -> tuple[str, str]:
    """The module and the consumer's name."""
    module = getattr(consumer.handler, "__module__", None) or type(consumer.handler).__module__
    return module, consumer.name


def located(module: str, name: str) -> Consumer:
    """The consumer of this name among those that the module has declared."""
    if module == "__main__" and "__mp_main__" in sys.modules:
        module = "__mp_main__"
    for thing in vars(import_module(module)).values():
        if isinstance(thing, Consumer) and thing.name == name:
            return thing
    raise InvalidInput(
        f"the module {module!r} has no consumer {name!r} at its top level, "
        "and members of a pool are processes of their own that must find it there"
    )
