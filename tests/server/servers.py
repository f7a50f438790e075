"""Servers for tests: real ones, on a port of their own, in a thread of this process."""

import base64
import hmac
import itertools
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from holdfast import Holdfast
from holdfast.server.app import App, create_app
from holdfast.server.limits import ServerLimits
from holdfast.server.server import Server
from holdfast.server.webhooks.hook import Hook
from holdfast.server.webhooks.receive import Ingress
from holdfast.server.webhooks.signatures import Verifier

SECRET = "s3cret-of-the-hook"
NOW = 1_800_000_000.0

_SPACES = itertools.count()


class Running:
    """A server that answers."""

    def __init__(self, hf: Holdfast, server: Server, ingress: Ingress) -> None:
        self.hf = hf
        self.server = server
        self.ingress = ingress
        self.url = server.address
        self.port = int(server.address.rpartition(":")[2])
        self.http = httpx.Client(base_url=server.address, timeout=60, limits=httpx.Limits(max_keepalive_connections=0))

    def post(self, name: str, content: bytes | str | None = None, **headers: str) -> httpx.Response:
        """A signed delivery; without a content, an object that was not sent before, or {} if it is signed already."""
        if content is None:
            is_signed = any("signature" in name or "hmac" in name for name in headers)
            content = "{}" if is_signed else "{}" + " " * next(_SPACES)
        body = content.encode() if isinstance(content, str) else content
        given = {name.replace("_", "-"): text for name, text in headers.items()}
        sent = {"content-type": "application/json", "x-signature": sign(body), **given}
        return self.http.post(f"/hook/{name}", content=body, headers={k: v for k, v in sent.items() if v != "-"})

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def raw(self, data: bytes) -> bytes:
        """Whatever comes back until the server hangs up."""
        with self.connect() as connection:
            with suppress(BrokenPipeError, ConnectionResetError):  # It may have been answered before it was all sent.
                connection.sendall(data)
            return everything(connection)


def everything(connection: socket.socket) -> bytes:
    found = b""
    try:
        while part := connection.recv(65_536):
            found += part
    except ConnectionResetError:
        pass
    return found


def sign(body: bytes, secret: str = SECRET) -> str:
    return hmac.digest(secret.encode(), body, "sha256").hex()


def sign_base64(body: bytes, secret: str = SECRET) -> str:
    return base64.b64encode(hmac.digest(secret.encode(), body, "sha256")).decode()


def hook(name: str = "orders", **settings: Any) -> Hook:
    """A signed webhook with a queue of the same name."""
    if "command" not in settings:
        settings.setdefault("queue", name)
    settings.setdefault("verifier", Verifier("X-Signature", [SECRET]))
    return Hook(name=name, **settings)


@contextmanager
def running(
    hf: Holdfast,
    *hooks: Hook,
    limits: ServerLimits | None = None,
    patience: float = 10,
    proxies: Sequence[str] = (),
    **app: Any,
) -> Iterator[Running]:
    made = create_app(hf, hooks, ingress=lambda client: Ingress(client, clock=lambda: NOW, patience=patience), **app)
    with serving(hf, made, limits, proxies) as server:
        found = Running(hf, server, made.ingress)
        with found.http:
            yield found


@contextmanager
def serving(
    hf: Holdfast, app: App, limits: ServerLimits | None = None, proxies: Sequence[str] = ()
) -> Iterator[Server]:
    """A server of this application."""
    server = Server(hf, app, port=0, limits=limits, grace=5, trusted_proxies=proxies)
    started = threading.Event()
    thread = threading.Thread(target=server.run, args=[lambda url: started.set()])
    thread.start()
    try:
        assert started.wait(60)
        yield server
    finally:
        server.stop()
        thread.join(60)
        assert not thread.is_alive()
