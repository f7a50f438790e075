"""Where a consumer stands in a program, so that another process of the same program can find it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

from holdfast.client.async_client import AsyncHoldfast, async_internals
from holdfast.client.client import Holdfast, internals
from holdfast.errors import InvalidInput
from holdfast.worker.consumer import Consumer


class ConsumerAddress(NamedTuple):
    """A module, a name at its top level, and the consumer's own name: what stands there is it, or its client."""

    module: str
    place: str
    consumer: str


def address_of(consumer: Consumer) -> ConsumerAddress:
    """Where it stands now."""
    for module in _modules(consumer):
        for place, thing in list(vars(sys.modules[module]).items()):
            if thing is consumer or _client(thing) is consumer.hf:
                return ConsumerAddress(module, place, consumer.name)
    raise InvalidInput(
        f"the consumer {consumer.name!r} cannot be found by the processes of a pool: neither it nor its client stands "
        'at the top level of a module. Put one of them there, or use members="thread"'
    )


def located(address: ConsumerAddress) -> Consumer:
    """The same in this process."""
    module = "__mp_main__" if address.module == "__main__" and "__mp_main__" in sys.modules else address.module
    thing = getattr(import_module(module), address.place, None)
    client = _client(thing)
    found = thing if client is None else internals(client).consumers.by_name.get(address.consumer)
    if isinstance(found, Consumer):
        return found
    raise InvalidInput(
        f"{module}.{address.place} has no consumer {address.consumer!r} here, and members of a pool are processes of "
        "their own that must find it there: declare it whenever the module is imported"
    )


def _modules(consumer: Consumer) -> Iterator[str]:
    """Where it may stand, the likely place first."""
    for name in (getattr(consumer.handler, "__module__", None), "__main__", *list(sys.modules)):
        if name in sys.modules and hasattr(sys.modules[name], "__dict__"):
            yield name


def _client(thing: Any) -> Holdfast | None:
    if isinstance(thing, AsyncHoldfast):
        return async_internals(thing).hf
    return thing if isinstance(thing, Holdfast) else None
