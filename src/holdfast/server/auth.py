"""Who asks, and whether they may: `Depends(require("read"))` stands at every route of the admin API.

>>> from typing import Annotated
>>> from fastapi import APIRouter, Depends
>>> router = APIRouter()
>>> @router.get("/admin/queues")
... def queues(access: Annotated[Access, Depends(require("read"))]) -> list[str]:
...     return access.client.queues()
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from fastapi import Query, Security
from fastapi.dependencies.models import Dependant
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import HTTPConnection, Request

from holdfast.client.client import Holdfast
from holdfast.core.queue import NAME_LIMIT, channel_name
from holdfast.errors import InvalidInput, shown
from holdfast.server.error_responses import Refusal
from holdfast.server.tenants import Tenants
from holdfast.server.token_throttle import Guesses, TooManyGuesses
from holdfast.server.tokens import ROLES, Tokens, enough

LOCAL = "local"
"""The name in the audit of whoever asks a server without tokens; such a server listens on this machine only."""

Clock = Callable[[], datetime]

bearer = HTTPBearer(auto_error=False, description="A token as `holdfast token` makes it.")
"""Only tells OpenAPI about the header; it is read by `Auth`, as bytes."""


def utc_now() -> datetime:
    """The time by which tokens end."""
    return datetime.now(UTC)


class Access:
    """An admitted request: `name` for the audit, `role`, the `tenant` that it is about, and a `client` for both."""

    __slots__ = ("_tenants", "name", "role", "tenant")

    def __init__(self, tenants: Tenants, name: str, role: str, tenant: str) -> None:
        self._tenants = tenants
        self.name = name
        self.role = role
        self.tenant = tenant

    @property
    def client(self) -> Holdfast:
        """A client of that tenant, in whose audit this name stands. Blocks while it is opened."""
        return self._tenants.client(self.tenant, self.name)

    def __repr__(self) -> str:
        return f"Access({self.name!r}, {self.role!r}, tenant={self.tenant!r})"


class Identity(msgspec.Struct, frozen=True):
    """Who asks, before it is known about which tenant. `tenant` None: about any."""

    name: str
    role: str
    tenant: str | None


class Auth:
    """Tells who asks by the bearer token. Without `tokens`, everybody is the operator of this machine."""

    def __init__(self, tenants: Tenants, tokens: Tokens | None, clock: Clock = utc_now) -> None:
        self.tenants = tenants
        self.tokens = tokens
        self._clock = clock
        self._guesses = Guesses()

    async def identify(self, request: HTTPConnection) -> Identity:
        """Who asks; 401 for everything that is not exactly one good token in the Authorization header.

        After wrong tokens of the same address it takes longer, or is 429: see `guessing`.
        """
        if self.tokens is None:
            return Identity(LOCAL, "admin", None)
        presented = [value for name, value in request.scope["headers"] if name == b"authorization"]
        if not presented:
            raise _unauthorized()  # That is no guess.
        scheme, _, text = presented[0].partition(b" ") if len(presented) == 1 else (b"", b"", b"")
        address = request.client.host if request.client is not None else ""
        try:
            waited = self._guesses.delay(address, text.strip())
        except TooManyGuesses as problem:
            raise Refusal(
                429,
                "too many wrong tokens came from this address; try again later",
                headers={"Retry-After": str(problem.seconds)},
            ) from None
        if waited:
            await asyncio.sleep(waited)
        token = self.tokens.find(text.strip(), self._clock())
        if token is None or scheme.lower() != b"bearer":
            self._guesses.wrong(address, text.strip(), waited)
            raise _unauthorized()
        self._guesses.right(address, text.strip(), waited)
        return Identity(token.name, token.role, token.tenant)

    async def admit(self, request: HTTPConnection, role: str, tenant: str | None) -> Access:
        """The same for a role and a tenant; 403 if this one may not."""
        who = await self.identify(request)
        if not enough(who.role, role):
            raise Refusal(403, f"this needs the role {role}; the token {who.name!r} has {who.role}")
        chosen = (who.tenant or self.tenants.default) if tenant is None else _tenant(tenant)
        if who.tenant is not None and chosen != who.tenant:
            raise Refusal(403, f"the token {who.name!r} is not for this tenant")
        return Access(self.tenants, who.name, who.role, chosen)


def _unauthorized() -> Refusal:
    return Refusal(
        401,
        "this needs a token: send it as  Authorization: Bearer …",
        headers={"WWW-Authenticate": 'Bearer realm="holdfast"'},
    )


class Require:
    """The dependency that `require` makes."""

    def __init__(self, role: str) -> None:
        self.role = role

    async def __call__(
        self,
        request: Request,
        credentials: Annotated[HTTPAuthorizationCredentials | None, Security(bearer)] = None,
        tenant_id: Annotated[
            str | None,
            Query(
                min_length=1,
                max_length=NAME_LIMIT,
                pattern=r"^[^/\x00-\x1f\x7f]+$",
                description="The tenant; by default the token's own.",
            ),
        ] = None,
    ) -> Access:
        access = await auth_of(request).admit(request, self.role, tenant_id)
        _refuse_unknown_parameters(request)
        return access


_REQUIREMENTS = {role: Require(role) for role in ROLES}


def require(role: str) -> Require:
    """A dependency that admits requests with this role or a higher one, and gives their `Access`."""
    return _REQUIREMENTS[role]


def auth_of(request: HTTPConnection) -> Auth:
    """The server's. `create_app` puts it there; so does whoever mounts single routers: `app.state.auth = Auth(…)`."""
    auth = request.app.state.auth
    assert isinstance(auth, Auth), "app.state.auth is an Auth"
    return auth


def _refuse_unknown_parameters(request: Request) -> None:
    """A filter whose name is misspelt would filter nothing: more would be listed, replayed or purged than was meant."""
    given = set(request.query_params)
    if not given:
        return
    known = _query_names(request.scope["route"].dependant)
    if unknown := sorted(given - known):
        raise Refusal(422, f"there is no parameter {shown(unknown[0])} here; there are {', '.join(sorted(known))}")


def _query_names(dependant: Dependant) -> set[str]:
    names = {field.alias for field in dependant.query_params}
    return names.union(*map(_query_names, dependant.dependencies))


def _tenant(text: str) -> str:
    try:
        return channel_name(text, "tenant_id")
    except InvalidInput:
        raise Refusal(404, f"there is no tenant {shown(text)}") from None
