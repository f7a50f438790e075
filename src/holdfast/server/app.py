"""The application: webhooks on a plain route, the admin API beside them, and the guard around both."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from holdfast.client.async_client import AsyncHoldfast, async_internals, asynchronous
from holdfast.client.client import Holdfast
from holdfast.errors import InvalidInput
from holdfast.server import admin, health, metrics
from holdfast.server.auth import Auth, Require
from holdfast.server.error_responses import HANDLERS
from holdfast.server.guard import LOOPBACK, Guard, Hosts
from holdfast.server.metrics import Metrics, TimedApp, measure
from holdfast.server.openapi import serve_openapi
from holdfast.server.tenants import Tenants
from holdfast.server.tokens import Tokens
from holdfast.server.webhooks.fast_path import Answer
from holdfast.server.webhooks.headers import Fields
from holdfast.server.webhooks.hook import HOOK_FOLDER, Hook
from holdfast.server.webhooks.receive import Ingress

ROUTERS: tuple[APIRouter, ...] = (*admin.ROUTERS, health.router, metrics.router)
"""Every route of a server but the webhooks, for `create_app(hf, routers=ROUTERS)`."""

OPEN_PATHS = frozenset({"/health", "/ready"})
"""Routes that need no token: they say that the server runs, and nothing else."""


class App:
    """An ASGI application, with its parts for those who run it."""

    def __init__(self, api: FastAPI, guard: Guard, ingress: Ingress, client: AsyncHoldfast, auth: Auth) -> None:
        self.api = api
        self.ingress = ingress
        self.client = client
        self.auth = auth
        self.stopping: threading.Event = api.state.stopping
        self._guard = guard
        self._measured: Metrics = api.state.metrics

    @property
    def is_protected(self) -> bool:
        """Whether the admin API asks for tokens."""
        return self.auth.tokens is not None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._guard(scope, receive, send)

    def hook_at(self, url: bytes) -> Hook | None:
        """The webhook whose deliveries `take` may take."""
        return self.ingress.fast_path.at(url)

    def take(self, hook: Hook, address: str, fields: Fields, body: bytes, answer: Answer) -> bool:
        """Take a delivery that came in one piece if it only has to be stored; otherwise the application is asked.

        So it is with an answer of None. See `FastPath.take`.
        """
        if self._guard.refusal("POST", fields) is not None:
            return False
        begun = time.perf_counter()

        def note(response: Response | None) -> None:
            if response is not None:
                self._measured.delivery(hook.name, response.status_code, time.perf_counter() - begun)
            answer(response)

        return self.ingress.fast_path.take(hook, address, fields, body, note)

    def body_bytes(self, url: bytes) -> int:
        """How many a request to this address may have because a webhook allows so many."""
        return self.ingress.largest if url.startswith(HOOK_FOLDER.encode()) else 0

    def close(self) -> None:
        """Lets its threads end; the client is its owner's."""
        async_internals(self.client).threads.close()


def create_app(
    hf: Holdfast,
    hooks: Iterable[Hook] = (),
    *,
    tokens: Tokens | None = None,
    routers: Sequence[APIRouter] = (),
    hosts: Iterable[str] = LOOPBACK,
    ingress: Callable[[AsyncHoldfast], Ingress] | None = None,
) -> App:
    """The application of a client: its webhooks, and the admin API of these `routers`.

    Every route of theirs has a `require` of its own; one that has not is refused here and now. `hosts` are the names
    that the server answers to. Without `tokens`, the admin API is open: see `serve`.
    """
    client = asynchronous(hf)
    receiving = ingress(client) if ingress is not None else Ingress(client)
    receiving.replace(hooks)
    api = FastAPI(title="Holdfast", docs_url=None, redoc_url=None, openapi_url=None, exception_handlers=HANDLERS)
    api.router.redirect_slashes = False
    api.state.tenants = Tenants(hf)
    api.state.auth = Auth(api.state.tenants, tokens)
    api.state.ingress = receiving
    api.state.stopping = threading.Event()  # Answers without an end, such as streams of events, look at it.
    api.router.routes.append(receiving.route())
    for router in routers:
        _refuse_open_routes(router.routes)
        api.include_router(router)
    serve_openapi(api)
    timed = TimedApp(Shortcut(api, receiving), measure(api, hf))
    return App(api, Guard(timed, Hosts(hosts)), receiving, client, api.state.auth)


class Shortcut:
    """Deliveries of webhooks do not go through FastAPI, which would take a quarter of their time."""

    def __init__(self, api: FastAPI, ingress: Ingress) -> None:
        self._api = api
        self._ingress = ingress
        self._route = ingress.route()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and (name := _hook_of(scope["path"])):
            scope["route"], scope["path_params"] = self._route, {"name": name}
            await self._ingress(scope, receive, send)
        else:
            await self._api(scope, receive, send)


def _hook_of(path: str) -> str | None:
    name = path.removeprefix(HOOK_FOLDER)
    return name if name and name != path and "/" not in name else None


def _refuse_open_routes(routes: Iterable[BaseRoute]) -> None:
    for route in routes:
        included = getattr(route, "original_router", None)
        if isinstance(included, APIRouter):
            _refuse_open_routes(included.routes)
            continue
        path = getattr(route, "path", "")
        if path not in OPEN_PATHS and not (isinstance(route, APIRoute) and _requires_a_role(route.dependant)):
            raise InvalidInput(f"the route {path} is open to everybody: give it Depends(require(…))")


def _requires_a_role(dependant: Dependant) -> bool:
    return isinstance(dependant.call, Require) or any(map(_requires_a_role, dependant.dependencies))
