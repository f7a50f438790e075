"""The options of an enqueue are the same wherever one is written, and few of them change the form of a message."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AsyncHoldfast, Holdfast
from holdfast.client.compose import EnqueueOptions
from holdfast.client.middleware import Outgoing, outgoing_of
from holdfast.worker.context import Context
from holdfast.worker.executors.asyncio import AsyncContext

pytestmark = pytest.mark.unit

ENQUEUES = [
    *(Holdfast.enqueue, Holdfast.enqueue_many, AsyncHoldfast.enqueue, AsyncHoldfast.enqueue_many),
    *(Context.enqueue, AsyncContext.enqueue),
]
DEFAULTS = inspect.signature(EnqueueOptions).parameters


@pytest.mark.parametrize("enqueue", ENQUEUES)
def test_every_enqueue_has_these_options(enqueue: Callable[..., Any]) -> None:
    found = inspect.signature(enqueue).parameters
    own = {"self", "queue", "body", "bodies", "conn"}
    assert {name: one.default for name, one in found.items() if name not in own} == {
        name: one.default for name, one in DEFAULTS.items()
    }


def test_functions_around_enqueue_see_every_option() -> None:
    options = EnqueueOptions(priority="high", key="k", delay=1, headers={"a": 1}, ttl=5, budget=2.0, reply_to="r")
    outgoing = outgoing_of("q", [1], options)
    assert {name: getattr(outgoing, name) for name in DEFAULTS} == {name: getattr(options, name) for name in DEFAULTS}
    assert Outgoing.__struct_fields__ == ("queue", "bodies", *EnqueueOptions.__struct_fields__)


@pytest.mark.parametrize("given", [{}, {"key": "k"}, {"idempotency_key": "once"}, {"key": len, "priority": 2}])
def test_keys_make_no_difference_to_the_form(given: dict[str, Any]) -> None:
    assert EnqueueOptions(**given).are_default


@pytest.mark.parametrize(
    "given", [{"priority": 3}, {"priority": 2.0}, {"delay": False}, {"ttl": 1}, {"key": "k", "headers": {}}]
)
def test_everything_else_does(given: dict[str, Any]) -> None:
    """Also what only equals a default: it has to be checked."""
    assert not EnqueueOptions(**given).are_default
