"""Checks before every route: the Host and the Origin of a request, and headers that keep browsers from helping an
attacker.

A page of another site can make its own name lead here (DNS rebinding), but it cannot change the Host that it is called
by: so the server answers to known names only. Browsers also say on whose behalf they send a request (Sec-Fetch-Site,
Origin). Programs send neither, and pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.errors import InvalidInput, shown
from holdfast.server.error_responses import Refusal
from holdfast.server.webhooks.bodies import is_json
from holdfast.server.webhooks.headers import Fields
from holdfast.server.webhooks.hook import HOOK_FOLDER

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
ANY_HOST = "*"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

AUTHORITY = "holdfast.authority"
"""The key of a scope under which stands the host of a request line with an absolute URI."""

POLICY = b"content-security-policy"

SECURITY_HEADERS = (
    (POLICY, b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""On every answer. A page of ours may say more exactly what it loads; whatever an answer says itself stays."""

_NAME = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9])?\.?|\[[0-9a-f:.]+\]|\*")
_HOST = re.compile(rb"(?P<name>[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")
_OUR_PAGES = (b"same-origin", b"none")


class Hosts:
    """An allow-list of host names: as they are, "*.example.com" for all below one, "*" for every one."""

    def __init__(self, names: Iterable[str]) -> None:
        chosen = [bracketed(name) for name in names]
        for name in chosen:
            if not _NAME.fullmatch(name):
                raise InvalidInput(
                    f"{shown(name)} is not a host name; write it without port, such as hooks.example.com"
                )
        self._any = ANY_HOST in chosen
        self._names = frozenset(name.rstrip(".") for name in chosen if not name.startswith("*"))
        self._endings = tuple(name[1:].rstrip(".") for name in chosen if name.startswith("*."))
        self.admit = lru_cache(maxsize=100)(self._admit)

    def _admit(self, host: bytes) -> bool:
        """Whether this is the Host of a request for us. The port is no part of a name."""
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found["name"].decode("ascii").lower().rstrip(".")
        return self._any or name in self._names or name.endswith(self._endings or "/")


class Guard:
    """Around the whole application, so that no route can be forgotten."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = guarded(message.get("headers", ()))
            await send(message)

        fields = Fields(scope["headers"])
        refusal = self.refusal(scope["method"], fields, scope.get(AUTHORITY)) or _unsupported(scope, fields)
        if refusal is None:
            await self.app(scope, receive, send_guarded)
        else:
            await refusal.answer()(scope, receive, send_guarded)

    def refusal(self, method: str, fields: Fields, authority: bytes | None = None) -> Refusal | None:
        """Returns what is wrong with a request, before anybody looks what it wants.

        `authority` is the host of an absolute URI. It counts before the Host header (RFC 9112 3.2.2), and neither of
        them may be a name of another server.
        """
        host = fields.single(b"host")
        if host is None:
            return Refusal(400, "a request has one Host header")
        if not self.hosts.admit(host) or (authority is not None and not self.hosts.admit(authority)):
            return Refusal(421, "this server does not answer to that name")
        if is_foreign(method, fields.get(b"sec-fetch-site"), fields.get(b"origin"), authority or host):
            return Refusal(403, "a page of another site may not do this", code="foreign_origin")
        return None


def bracketed(name: str) -> str:
    """An IPv6 address as it stands in a Host header; other names as they are, in lower case."""
    lowered = name.strip().lower()
    return f"[{lowered}]" if lowered.count(":") > 1 and not lowered.startswith("[") else lowered


def is_foreign(method: str, fetch_site: bytes | None, origin: bytes | None, host: bytes) -> bool:
    """Whether a browser sends an unsafe request on behalf of another site; the origin `null` is nobody's."""
    if method in SAFE_METHODS:
        return False
    if fetch_site is not None and fetch_site.lower() not in _OUR_PAGES:
        return True
    if origin is None:
        return False
    return origin.lower() not in (b"http://" + host.lower(), b"https://" + host.lower())


def _unsupported(scope: Scope, fields: Fields) -> Refusal | None:
    """Pages of any site can post forms and plain text without asking first, so nothing here is done by one.

    Webhooks say themselves what they take.
    """
    if scope["method"] in SAFE_METHODS or scope["path"].startswith(HOOK_FOLDER):
        return None
    kind = fields.get(b"content-type")
    has_body = fields.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in fields
    if kind is None and not has_body:
        return None
    name = (kind or b"").partition(b";")[0].strip().lower().decode("latin-1")
    return None if is_json(name) else Refusal(415, "send JSON, with Content-Type: application/json")


def guarded(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of an answer with ours, and without any that would open it to other sites."""
    kept = [header for header in headers if not header[0].lower().startswith(b"access-control-")]
    present = {name.lower() for name, _ in kept}
    return [*kept, *(header for header in SECURITY_HEADERS if header[0] not in present)]
