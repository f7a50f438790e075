"""The server: HTTP on one event loop, consumers and maintenance in threads beside it, one way to stop all of them."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import time
from collections.abc import Callable, Sequence

import uvloop

from holdfast.client.client import Holdfast, internals
from holdfast.core.duration import Duration, seconds
from holdfast.errors import InvalidInput
from holdfast.server.app import App
from holdfast.server.guard import bracketed
from holdfast.server.limits import ServerLimits
from holdfast.server.protocol.connection import connections
from holdfast.server.protocol.listener import SocketListener
from holdfast.server.proxies import Proxies
from holdfast.worker.runner import Runner
from holdfast.worker.signals import Signals

log = logging.getLogger("holdfast.server")

BACKLOG = 2_048


def serve(
    hf: Holdfast,
    app: App,
    *,
    host: str = "127.0.0.1",
    port: int = 8484,
    limits: ServerLimits | None = None,
    grace: Duration = 30.0,
    trusted_proxies: Sequence[str] = (),
    on_started: Callable[[str], None] | None = None,
) -> None:
    """Serves until SIGTERM or Ctrl-C: nothing new is accepted, requests finish, then consumers do; twice means now.

    Only a `def` command of a webhook that is running cannot be cut off; the second signal waits for its thread.

    Without tokens it serves this machine only: any other `host` is refused. The address of whoever asks is that of the
    connection, unless that is one of `trusted_proxies`, which are believed about X-Forwarded-For. `on_started` is told
    the URL as soon as it answers.
    """
    server = Server(hf, app, host=host, port=port, limits=limits, grace=grace, trusted_proxies=trusted_proxies)
    with Signals(server.on_signal):
        server.run(on_started)


class Server:
    """The same without signals, for whoever stops it otherwise."""

    def __init__(
        self,
        hf: Holdfast,
        app: App,
        *,
        host: str = "127.0.0.1",
        port: int = 8484,
        limits: ServerLimits | None = None,
        grace: Duration = 30.0,
        trusted_proxies: Sequence[str] = (),
    ) -> None:
        if not app.is_protected and not is_loopback(host):
            raise InvalidInput(
                f"without tokens everybody who reaches {host} could read, replay and delete messages: make a token "
                "with `holdfast token`, and name its file; or serve 127.0.0.1 only"
            )
        self.limits = limits or ServerLimits()
        self._app = app
        self._grace = seconds(grace, "grace")
        self._asked: float | None = None
        self._runner = BackgroundRunner(hf, list(internals(hf).consumers.by_name.values()), self._grace)
        app.api.state.maintenance = self._runner.trouble
        self._socket = _listen(host, port)
        self.address = _url(self._socket, host)
        connect = connections(app, self.limits, Proxies(trusted_proxies))
        self._http = SocketListener(connect, BACKLOG, self._grace)

    def run(self, on_started: Callable[[str], None] | None = None) -> None:
        """Serves until it is stopped."""
        try:
            self._runner.start()
            try:
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
                    loop.run(self._serve(on_started))
            finally:
                self._runner.stop(self._left())
        finally:
            self._socket.close()
            self._app.close()

    def stuck(self) -> str | None:
        """Return which loop beside HTTP has ended or hangs, so that only a restart helps; None if all turn."""
        return self._runner.stuck()

    def stop(self) -> None:
        """Nothing new is accepted, and what is under way may finish."""
        if self._asked is None:
            self._asked = time.monotonic()
        self._app.stopping.set()
        self._http.stop()

    def stop_now(self) -> None:
        """What is under way is cut off."""
        self.stop()
        self._asked = time.monotonic() - self._grace
        self._http.cut_off()
        self._runner.ask_to_stop(0)

    def on_signal(self, count: int) -> None:
        """The first asks, the second insists."""
        if count == 1:
            self.stop()
        else:
            self.stop_now()

    async def _serve(self, on_started: Callable[[str], None] | None) -> None:
        await self._http.serve(self._socket, lambda: on_started(self.address) if on_started is not None else None)

    def _left(self) -> float:
        """What remains of the grace for consumers."""
        return self._grace if self._asked is None else max(0.0, self._asked + self._grace - time.monotonic())


class BackgroundRunner(Runner):
    """Consumers, pools and maintenance of a server. There may be none of the first two; the last is always there."""

    def _is_awake(self) -> bool:
        return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a socket that is bound to this host."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM) if host else []
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(str(entry[4][0])).is_loopback for entry in found)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, _, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind)
    except (OSError, OverflowError) as problem:
        raise InvalidInput(f"cannot serve {host}:{port}: {problem}") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except (OSError, OverflowError) as problem:
        listening.close()
        raise InvalidInput(f"cannot serve {host}:{port}: {getattr(problem, 'strerror', None) or problem}") from None
    return listening


def _url(listening: socket.socket, host: str) -> str:
    return f"http://{bracketed(host)}:{listening.getsockname()[1]}"
