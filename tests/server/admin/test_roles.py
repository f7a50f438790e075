"""Every route asks who it is, and the right role for what it does."""

import asyncio
import re
from collections.abc import Iterator
from ipaddress import IPv4Network

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from holdfast import Holdfast
from holdfast.server.app import ROUTERS
from holdfast.server.auth import Require
from holdfast.server.tokens import ROLES, Tokens, new_token
from tests.architecture.source import ROOT
from tests.server.admin.conftest import build

pytestmark = pytest.mark.above_the_stores

OPEN = {"/health", "/ready"}
"""They say that the server runs, and nothing else."""

ADDRESSES = iter(IPv4Network("10.0.0.0/8"))

ENDS_FOR_GOOD = ("purge", "DELETE")


def routes() -> list[tuple[str, str, APIRoute]]:
    return [
        (method, route.path, route)
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in sorted(route.methods)
    ]


def role(route: APIRoute) -> str | None:
    found = [one.call.role for one in route.dependant.dependencies if isinstance(one.call, Require)]
    return found[0] if len(found) == 1 else None


@pytest.mark.parametrize(("method", "path", "route"), routes(), ids=lambda one: one if isinstance(one, str) else "")
def test_every_route_has_the_role_of_what_it_does(method: str, path: str, route: APIRoute) -> None:
    if path in OPEN:
        assert role(route) is None
        return
    ends = method == "DELETE" or path.endswith("/purge")
    assert role(route) == ("read" if method == "GET" else "admin" if ends else "operate")


def test_operations_have_names_of_their_own() -> None:
    names = [route.operation_id for _, _, route in routes()]
    assert None not in names
    assert len(set(names)) == len(names)


def test_the_reference_has_every_route() -> None:
    page = (ROOT / "docs" / "reference" / "admin-api.md").read_text()
    for method, path, route in routes():
        needed = role(route) or "none"
        written = re.sub(r":uuid", "", path)
        line = next((one for one in page.splitlines() if f"`{method} {written}`" in one), "")
        assert f"`{route.operation_id}`" in line, (method, written)
        assert needed in line, (method, written)


@pytest.fixture
def guarded(url: str) -> Iterator[tuple[FastAPI, dict[str, str]]]:
    pairs = {role: new_token(role, role) for role in ROLES}
    pairs["acme"] = new_token("acme", "admin", "acme")
    with Holdfast(url, strict=True) as hf:
        hf.queue("q")
        app = build(hf, Tokens([token for _, token in pairs.values()]))
        yield app, {name: text for name, (text, _) in pairs.items()}


async def status(app: FastAPI, method: str, path: str, token: str | None) -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    filled = path.replace(":uuid", "").replace("{name}", "q")
    for part in ("dead_id", "message_id", "task_id", "notice_id"):
        filled = filled.replace("{" + part + "}", "01890a5d-ac96-774b-bcce-b302099a8057")
    filled = filled.replace("{topic}", "t").replace("{group}", "g")
    # Each from another address: after wrong tokens of one, its next answers are slow.
    transport = httpx.ASGITransport(app, client=(str(next(ADDRESSES)), 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        return (await http.request(method, filled, headers=headers)).status_code


@pytest.mark.parametrize("url", ["sqlite-apsw"], indirect=True)
def test_no_route_answers_to_a_stranger_or_to_too_low_a_role(guarded: tuple[FastAPI, dict[str, str]]) -> None:
    app, tokens = guarded

    async def walk() -> None:
        for method, path, route in routes():
            needed = role(route)
            if needed is None:
                continue
            assert await status(app, method, path, None) == 401, path
            assert await status(app, method, path, "hft_wrong") == 401, path
            for lower in ROLES[: ROLES.index(needed)]:
                assert await status(app, method, path, tokens[lower]) == 403, path
            if path != "/admin/events":  # A stream has no end.
                assert await status(app, method, path, tokens[needed]) not in (401, 403), path
                assert await status(app, method, path + "?tenant_id=other", tokens["acme"]) == 403, path

    asyncio.run(walk())
