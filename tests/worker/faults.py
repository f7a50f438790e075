"""Databases in trouble: held by someone else for a while, or out of one client's reach."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import psycopg

from holdfast import Holdfast, Unavailable
from holdfast.client.client import internals

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""
"""A process of its own: the locks of two SQLite libraries in one process do not see each other."""


@contextmanager
def held_up(url: str) -> Iterator[None]:
    """Nobody else can write meanwhile: all calls wait, none of them fails."""
    if url.startswith("sqlite"):
        command = [sys.executable, "-I", "-S", "-c", HOLD, urlsplit(url).path]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            yield
            holder.communicate()
    else:
        with psycopg.connect(url) as session:
            session.execute("LOCK TABLE holdfast_run, holdfast_row IN EXCLUSIVE MODE")
            yield


class Cable:
    """Between one client and its database: while it is cut, what the client asks for fails."""

    def __init__(self, hf: Holdfast, *verbs: str) -> None:
        self.cut = threading.Event()
        self.tries = 0
        self.tried: set[str] = set()
        self.lay(internals(hf).store.messages, *(verbs or ("claim", "settle", "extend")))
        internals(hf).settlements._apply = internals(hf).store.messages.settle

    def lay(self, role: Any, *verbs: str) -> None:
        """These calls go through it too."""
        for verb in verbs:
            setattr(role, verb, self._through(verb, getattr(role, verb)))

    def _through(self, verb: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def carried(*arguments: Any) -> Any:
            if self.cut.is_set():
                self.tries += 1
                self.tried.add(verb)
                raise Unavailable("the cable is cut")
            return call(*arguments)

        return carried
