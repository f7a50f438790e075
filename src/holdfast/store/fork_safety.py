"""Fork safety: connections, locks and threads may not be shared between a parent and its child."""

from __future__ import annotations

import os
import threading
from weakref import WeakSet


class Guarded:
    """Something that must do something about a fork. What it does not care about, it leaves as it is here."""

    def before_fork(self) -> None:
        """In the parent, before it happens."""

    def after_fork_in_parent(self) -> None:
        """In the parent, afterwards."""

    def after_fork_in_child(self) -> None:
        """In the child, before anything else runs there."""


_guarded: WeakSet[Guarded] = WeakSet()
_forking: list[Guarded] = []

# Held during a fork: forks of several threads come one after the other, and nobody is added in the middle of one.
_turn = threading.Lock()


def guard(guarded: Guarded) -> None:
    """From now on it is told of every fork of this process."""
    with _turn:
        _guarded.add(guarded)


def _before() -> None:
    _turn.acquire()
    _forking[:] = list(_guarded)
    for guarded in _forking:
        guarded.before_fork()


def _after_in_parent() -> None:
    for guarded in reversed(_forking):
        guarded.after_fork_in_parent()
    _forking.clear()
    _turn.release()


def _after_in_child() -> None:
    for guarded in _forking:
        guarded.after_fork_in_child()
    _forking.clear()
    _turn.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
