"""Accepts connections on a socket until it is told to stop, then ends them: by asyncio's own server, without others."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Coroutine
from email.utils import formatdate
from typing import Any, Protocol

log = logging.getLogger("holdfast.server")


class Closable(Protocol):
    """A connection as its listener sees it."""

    def shutdown(self) -> None:
        """Closes the connection after the answer that is under way."""


class ServerState:
    """What the connections of a server share: who there is, what runs, and what every answer says."""

    def __init__(self) -> None:
        self.connections: set[Closable] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.is_over = asyncio.Event()
        """Whether there is neither a connection nor a task, once somebody waits for that."""
        self._second = 0
        self._headers: tuple[tuple[bytes, bytes], ...] = ()

    def leave(self, connection: Closable) -> None:
        """A connection has ended."""
        self.connections.discard(connection)
        self._look()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs this in a task of its own, which ends with the server at the latest."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self._ended)

    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """Headers of every answer: the date."""
        now = int(time.time())
        if now != self._second:
            self._second, self._headers = now, ((b"date", formatdate(now, usegmt=True).encode()),)
        return self._headers

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self._look()

    def _look(self) -> None:
        if not self.connections and not self.tasks:
            self.is_over.set()


class SocketListener:
    """Serves a socket. `stop` and `cut_off` may be called from any thread, at any time, also before it has begun."""

    def __init__(self, connect: Callable[[ServerState], asyncio.Protocol], backlog: int, grace: float) -> None:
        self.state = ServerState()
        self._connect = connect
        self._backlog = backlog
        self._grace = grace
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked = asyncio.Event()
        self._is_asked = False
        self._is_forced = False

    async def serve(self, listening: socket.socket, on_started: Callable[[], None]) -> None:
        """Accepts connections until it is asked to stop; then those that there are may finish within the grace."""
        self._loop = asyncio.get_running_loop()
        accepting = await self._loop.create_server(
            lambda: self._connect(self.state), sock=listening, backlog=self._backlog
        )
        on_started()
        if self._is_asked:
            self._asked.set()
        await self._asked.wait()
        accepting.close()
        listening.close()
        await self._end()

    def stop(self) -> None:
        """Nothing new is accepted, and what is under way may finish."""
        self._is_asked = True
        self._tell(self._asked.set)

    def cut_off(self) -> None:
        """What is under way is ended now."""
        self._is_forced = True
        self.stop()
        self._tell(self._cancel_all)

    async def _end(self) -> None:
        state = self.state
        for connection in list(state.connections):
            connection.shutdown()
        if not state.connections and not state.tasks:
            return
        state.is_over.clear()
        try:
            async with asyncio.timeout(0 if self._is_forced else self._grace):
                await state.is_over.wait()
        except TimeoutError:
            if not self._is_forced:
                log.warning("%d connections were not answered in time, and are cut off", len(state.connections))
            self._cancel_all()

    def _cancel_all(self) -> None:
        self.state.is_over.set()
        for task in list(self.state.tasks):
            task.cancel()

    def _tell(self, what: Callable[[], None]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # The loop has ended by itself.
                self._loop.call_soon_threadsafe(what)
