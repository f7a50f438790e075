"""Whether the process lives, and whether it can work: for whoever starts, stops and balances servers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Literal

from fastapi import APIRouter, FastAPI, Request, Response
from pydantic import BaseModel

from holdfast.client.client import Holdfast, internals
from holdfast.errors import HoldfastError, SchemaTooNew

log = logging.getLogger("holdfast.server")

PATIENCE = 2.0
"""Seconds within which the database has to answer."""

router = APIRouter(tags=["health"])

State = Literal["ok", "failing", "silent", "behind", "ahead"]


class HealthView(BaseModel):
    """The process lives."""

    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """Whether it can work, and what keeps it from it. The reasons are in the log."""

    ready: bool
    database: State
    schema_version: State
    maintenance: State


class Probe:
    """Looks at the database on a thread that may hang: one at a time, and nobody waits for it for long."""

    def __init__(self, hf: Holdfast) -> None:
        self._hf = hf
        self._running: asyncio.Future[State] | None = None

    async def look(self) -> tuple[State, State]:
        """The state of the database and of its schema."""
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().run_in_executor(None, self._schema)
        try:
            schema = await asyncio.wait_for(asyncio.shield(self._running), PATIENCE)
        except TimeoutError:
            return "silent", "silent"
        return ("failing" if schema == "failing" else "ok"), schema

    def _schema(self) -> State:
        try:
            version, newest = internals(self._hf).store.schema.verify(), internals(self._hf).store.schema.newest
        except SchemaTooNew:
            return "ahead"
        except HoldfastError as problem:
            log.warning("not ready: %s", problem)
            return "failing"
        return "ok" if version == newest else "behind"


@router.get("/health", operation_id="health")
async def health() -> HealthView:
    """The process lives and answers."""
    return HealthView()


@router.get(
    "/ready",
    operation_id="ready",
    responses={503: {"model": Readiness, "description": "It cannot work now."}},
)
async def ready(request: Request, response: Response) -> Readiness:
    """The database answers in time, its schema is the one that this code knows, maintenance does its work, and the
    server is not about to stop. A server that is running when a newer release migrates the database stays ready, with
    `schema_version` "ahead", so that a load balancer does not lose all old servers at once."""
    app: FastAPI = request.app
    database, schema = await _probe(app).look()
    trouble = _maintenance(app)()
    if trouble is not None:
        log.warning("not ready: maintenance fails: %s", trouble)
    found = Readiness(
        ready=database == "ok" and _fits(app, schema) and trouble is None and not app.state.stopping.is_set(),
        database=database,
        schema_version=schema,
        maintenance="ok" if trouble is None else "failing",
    )
    response.status_code = 200 if found.ready else 503
    return found


def _fits(app: FastAPI, schema: State) -> bool:
    """Whether this server can work with the schema: it can with a newer one that came while it was running."""
    hf: Holdfast = app.state.auth.tenants.hf
    return schema == "ok" or (schema == "ahead" and internals(hf).store.schema.has_matched)


def _probe(app: FastAPI) -> Probe:
    if not hasattr(app.state, "probe"):
        app.state.probe = Probe(app.state.auth.tenants.hf)
    found: Probe = app.state.probe
    return found


def _maintenance(app: FastAPI) -> Callable[[], str | None]:
    """What keeps maintenance from its work, if this process does any: `app.state.maintenance = runner.trouble`."""
    found: Callable[[], str | None] = getattr(app.state, "maintenance", lambda: None)
    return found
