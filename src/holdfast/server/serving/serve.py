"""Everything of a served spec together: the server, the consumers' process, the reloading, and one way to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence

import msgspec

from holdfast.client.client import Holdfast
from holdfast.server.app import ROUTERS, create_app
from holdfast.server.guard import LOOPBACK
from holdfast.server.server import Server
from holdfast.server.serving.live import Reloader, ServedSpec
from holdfast.server.serving.loading import Sources
from holdfast.server.serving.workers import WorkerOrders, Workers
from holdfast.server.tokens import Tokens
from holdfast.spec.model import Spec
from holdfast.worker.sd_notify import Notifier
from holdfast.worker.signals import Signals

log = logging.getLogger("holdfast.server.serving")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a spec is served. Durations in seconds."""

    sources: Sources
    url: str
    tenant: str = "default"
    host: str = "127.0.0.1"
    port: int = 8700
    tokens: Tokens | None = None
    hosts: Sequence[str] = ()
    proxies: Sequence[str] = ()
    grace: float = 30.0
    consumers: bool = True
    watch: bool = True
    accept_loss: bool = False


class Started(msgspec.Struct, frozen=True):
    """What runs, for whoever wants to know."""

    spec: Spec
    address: str
    staffed: bool


class Serving:
    """A spec at work. What cannot work is refused before anything listens."""

    def __init__(self, options: Options, notifier: Notifier | None = None) -> None:
        self._options = options
        self._notifier = notifier or Notifier()
        self._address = ""
        self._hf = Holdfast(options.url, tenant=options.tenant, strict=True)
        try:
            self._live = ServedSpec(self._hf, options.sources, os.environ, options.accept_loss)
            self._app = create_app(
                self._hf,
                self._live.hooks,
                tokens=options.tokens,
                routers=ROUTERS,
                hosts=[*LOOPBACK, *options.hosts],
            )
            self._server = Server(
                self._hf,
                self._app,
                host=options.host,
                port=options.port,
                grace=options.grace,
                trusted_proxies=options.proxies,
            )
        except BaseException:
            self._hf.close()
            raise
        orders = WorkerOrders(options.url, options.tenant, options.sources, options.grace)
        self._workers = Workers(orders, lambda pid: log.info("consumers run in process %s", pid))
        self._asked: float | None = None

    def run(self, on_started: Callable[[Started], object] = lambda _: None) -> None:
        """Serves until SIGTERM or Ctrl-C; a second one ends everything at once. SIGHUP reloads."""
        reloader = Reloader(self._options.sources, self._reload, self._options.watch)
        before = signal.signal(signal.SIGHUP, lambda *_: reloader.now())
        try:
            with Signals(self._on_signal):
                if self._options.consumers:
                    self._workers.start(self._live.staffed)
                self._server.run(lambda address: self._tell(on_started, address))
        finally:
            signal.signal(signal.SIGHUP, before)
            reloader.stop()
            self._workers.ask_to_stop()
            self._workers.wait(self._left())
            self._hf.close()

    def _tell(self, on_started: Callable[[Started], object], address: str) -> None:
        on_started(Started(self._live.spec, address, self._live.staffed))
        self._address = address
        self._notifier.ready(self._status())
        if self._notifier.is_watched:
            self._ping(asyncio.get_running_loop())

    def _ping(self, loop: asyncio.AbstractEventLoop) -> None:
        """From the server's event loop, again and again for as long as that turns."""
        self._notifier.ping(
            lambda: self._server.stuck() or (self._workers.stuck() if self._options.consumers else None)
        )
        loop.call_later(self._notifier.pause, self._ping, loop)

    def _status(self) -> str:
        return f"Serving {self._live.spec.app} at {self._address}."

    def _reload(self) -> None:
        self._notifier.reloading(f"Reloading {self._options.sources.spec}.")
        try:
            self._live.reload(self._app.ingress.replace, self._workers if self._options.consumers else None)
        except BaseException:
            self._notifier.ready(f"{self._status()} The last reload was refused: see the log.")
            raise
        self._notifier.ready(self._status())

    def _on_signal(self, count: int) -> None:
        self._notifier.stopping(f"Draining: requests and handlers have {self._options.grace:g} s to finish.")
        if count == 1:
            self._asked = time.monotonic()
            self._workers.ask_to_stop()
            self._server.stop()
        else:
            self._workers.kill()
            self._server.stop_now()

    def _left(self) -> float:
        """What remains of the grace, and a moment to write down how it ended."""
        began = time.monotonic() if self._asked is None else self._asked
        return max(0.0, began + self._options.grace - time.monotonic()) + 5.0
