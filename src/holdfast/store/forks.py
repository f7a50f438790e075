"""Fork safety: connections may not be shared between a parent and its child, so each kind gets a say around a fork."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """Something with connections."""

    def before_fork(self) -> None: ...
    def after_fork_in_parent(self) -> None: ...
    def after_fork_in_child(self) -> None: ...


_guarded: WeakSet[Forkable] = WeakSet()
_forking: list[Forkable] = []


def guard(database: Forkable) -> None:
    """From now on `database` is told of every fork of this process."""
    _guarded.add(database)


def _before() -> None:
    _forking[:] = list(_guarded)
    for database in _forking:
        database.before_fork()


def _after_in_parent() -> None:
    for database in reversed(_forking):
        database.after_fork_in_parent()
    _forking.clear()


def _after_in_child() -> None:
    for database in _forking:
        database.after_fork_in_child()
    _forking.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
