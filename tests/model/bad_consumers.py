"""I23 for consumers and pools: what may not be declared. Asks nothing of a database."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from holdfast import Holdfast, InvalidInput
from holdfast.events import MessageFailed
from tests.client_names import method_of
from tests.model.bad_commands import BAD_COMMANDS
from tests.model.bad_topics import BAD_SUBSCRIBERS
from tests.model.mistakes import (
    COUNTS,
    LABELS,
    LENGTHS_OR_NONE,
    NAME_SAYS,
    NAMES_OR_NONE,
    NAN,
    READERS,
    WORDS,
    Argument,
    length,
)


def _nothing(message: Any) -> None:
    """A handler."""


def _of_consumers() -> Iterator[Argument]:
    def declare(name: str, **others: Any) -> Callable[[Holdfast, Any], object]:
        return lambda hf, bad: hf.consumer("plain", **{**others, name: bad})(_nothing)

    yield Argument("consumer(queue)", lambda hf, bad: hf.consumer(bad)(_nothing), READERS, NAME_SAYS)
    yield Argument("consumer()", lambda hf, bad: hf.consumer(*bad)(_nothing), {"no queue": ()}, "needs the name of a")
    yield Argument("consumer(name=)", declare("name"), NAMES_OR_NONE, NAME_SAYS)
    yield Argument(
        "consumer(policy=)", declare("policy"), {**WORDS, "an unknown word": "fair"}, "^policy must be one of"
    )
    weights = {"a stranger": {"q": 1}, "0": {"plain": 0}, "text": {"plain": "3"}, "NaN": {"plain": NAN}}
    yield Argument("consumer(weights=)", declare("weights", policy="weighted"), weights, "^weights ")
    yield Argument("consumer(weights=)", declare("weights"), {"round robin": {"plain": 2}}, "^weights are for")
    yield Argument("consumer(concurrency=)", declare("concurrency"), COUNTS, "^concurrency must be a whole number")
    for name in ("lease", "timeout"):
        yield length("consumer", name, declare(name), {**LENGTHS_OR_NONE, "no time": 0})
    empty = {"an unknown word": "wait", "a stranger": {"q": "poll"}, "a number": {"plain": 7}}
    yield Argument("consumer(empty=)", declare("empty"), empty, "^empty ")
    named = {what: value for what, value in LABELS.items() if isinstance(value, dict)}
    yield Argument("consumer(labels=)", declare("labels"), named, "^labels must ")
    kinds = {"no class": ["ValueError"], "no error": [int], "an exit": [SystemExit]}
    yield Argument("consumer(permanent=)", declare("permanent"), kinds, "^permanent must be exception classes")
    yield Argument("consumer(isolation=)", declare("isolation"), WORDS, "^isolation must be one of")
    yield Argument("consumer(middleware=)", declare("middleware"), {"a number": [7]}, "^middleware must be functions")
    yield Argument("consumer(preflight=)", declare("preflight"), {"text": "x"}, "^preflight must be a function")
    handlers = {"nothing": lambda: None, "three": lambda a, b, c: None, "a number": 7}
    yield Argument("consumer(handler)", lambda hf, bad: hf.consumer("plain")(bad), handlers, "^the handler ")
    for verb in ("run", "running"):
        yield Argument(
            f"{verb}()", lambda hf, bad, verb=verb: method_of(hf, verb)(), {"none": None}, "is no consumer to"
        )
        hand = lambda hf, bad, verb=verb: method_of(_with_consumer(hf), verb)(bad)  # noqa: E731
        yield Argument(f"{verb}(consumer)", hand, {"a stranger": "nobody", "a number": 7}, "there is no consumer")
        grace = lambda hf, bad, verb=verb: method_of(_with_consumer(hf), verb)(grace=bad)  # noqa: E731
        yield length(verb, "grace", grace)
    yield Argument(
        "on(kind)", lambda hf, bad: hf.on(bad, print), {"text": "x", "a class": int}, "^kind must be a class"
    )
    yield from _of_pools()
    nothing = {"a number": 7, "None": None}
    yield Argument("on(callback)", lambda hf, bad: hf.on(MessageFailed, bad), nothing, "^callback must be a function")
    for verb in ("around_execute", "around_enqueue"):
        hand = lambda hf, bad, verb=verb: method_of(hf, verb)(bad)  # noqa: E731
        yield Argument(f"{verb}(middleware)", hand, nothing, "^middleware must")


def _of_pools() -> Iterator[Argument]:
    def pool(name: str) -> Callable[[Holdfast, Any], object]:
        return lambda hf, bad: _with_consumer(hf).pool("listed", **{name: bad})

    strangers = {"a stranger": "nobody", "a number": 7}
    yield Argument("pool(consumer)", lambda hf, bad: _with_consumer(hf).pool(bad), strangers, "there is no consumer")
    yield Argument("pool(name=)", pool("name"), NAMES_OR_NONE, NAME_SAYS)
    yield Argument("pool(owner=)", pool("owner"), NAMES_OR_NONE, "^owner ")
    whole = {"a fraction": 1.5, "text": "5", "True": True, "2**70": 2**70, "-1": -1}
    for name in ("min", "max", "scale_up_depth", "scale_down_depth", "max_crashes"):
        yield Argument(f"pool({name}=)", pool(name), whole, f"^{name} must be a whole number")
    yield Argument("pool(min=)", pool("min"), {"above max": 5}, "^min must not be above max")
    yield Argument(
        "pool(scale_down_depth=)", pool("scale_down_depth"), {"the same": 20}, "^scale_down_depth must be below"
    )
    for name in ("scale_up_age", "cooldown", "crash_window"):
        yield length("pool", name, pool(name))
    yield Argument("pool(members=)", pool("members"), WORDS, "^members must be one of")


def _with_consumer(hf: Any) -> Any:
    with contextlib.suppress(InvalidInput):
        hf.consumer("plain", name="listed")(_nothing)
    return hf


CONSUMERS = [*_of_consumers(), *BAD_SUBSCRIBERS, *BAD_COMMANDS]
"""Declaring is not awaited, and asks nothing of the database."""
