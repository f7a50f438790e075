"""Verbs of a store, each declared in one line: `pause = writes(acts.pause)`.

A step is a function whose first parameter is a transaction. It does not know where that comes from: a verb runs it in a
transaction of its own, while `conn=` runs the same step in the caller's transaction. A step may run several times, when
the database refuses a transaction that another one got in the way of, or when its answer was lost.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from holdfast.core.message import MessageId
from holdfast.store.ids import new_id

P = ParamSpec("P")
Result = TypeVar("Result")
Step = Callable[Concatenate[Any, P], Result]
Verb = Callable[Concatenate[Any, P], Result]


class Database(Protocol):
    """Runs work in a transaction."""

    def write(self, work: Callable[[Any], Result]) -> Result: ...
    def write_at_length(self, work: Callable[[Any], Result]) -> Result: ...
    def accept(self, work: Callable[[Any], Result]) -> Result: ...
    def read(self, work: Callable[[Any], Result]) -> Result: ...
    def glance(self, work: Callable[[Any], Result]) -> Result: ...
    def close(self) -> None: ...


class Verbs:
    """A group of verbs on one database."""

    def __init__(self, database: Database) -> None:
        self._database = database


def writes(step: Step[P, Result]) -> Verb[P, Result]:
    """Return a method that runs the step in a transaction that may write."""

    @wraps(step)
    def verb(self: Verbs, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        return self._database.write(lambda tx: step(tx, *args, **kwargs))

    return verb


def writes_once(step: Callable[Concatenate[Any, MessageId, P], Result]) -> Verb[P, Result]:
    """The same for a step that would count twice if it ran again after a lost answer. Each call passes it a new id,
    by which it finds out that an earlier try has succeeded."""

    @wraps(step)
    def verb(self: Verbs, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        call = new_id()
        return self._database.write(lambda tx: step(tx, call, *args, **kwargs))

    return verb


def writes_at_length(step: Step[P, Result]) -> Verb[P, Result]:
    """The same for a step that may take longer than the client's patience, which only bounds its waits for locks."""

    @wraps(step)
    def verb(self: Verbs, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        return self._database.write_at_length(lambda tx: step(tx, *args, **kwargs))

    return verb


def accepts(step: Step[P, Result]) -> Verb[P, Result]:
    """The same for a step that stores new messages, which a full disk refuses first."""

    @wraps(step)
    def verb(self: Verbs, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        return self._database.accept(lambda tx: step(tx, *args, **kwargs))

    return verb


def reads(step: Step[P, Result]) -> Verb[P, Result]:
    """Return a method that runs the step on one consistent snapshot of the database."""

    @wraps(step)
    def verb(self: Verbs, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        return self._database.read(lambda tx: step(tx, *args, **kwargs))

    return verb


def glances(step: Step[P, Result]) -> Verb[P, Result]:
    """The same for a step of a single statement, which needs no transaction around it."""

    @wraps(step)
    def verb(self: Verbs, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        return self._database.glance(lambda tx: step(tx, *args, **kwargs))

    return verb
