"""What stands before every route: the Host, the Origin, and headers that keep browsers from helping an attacker."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.http.answers import Refusal
from holdfast.http.bodies import is_json
from holdfast.http.headers import Fields
from holdfast.http.hooks import HOOK_FOLDER
from holdfast.http.hosts import Hosts
from holdfast.http.origin import SAFE_METHODS, is_foreign

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
