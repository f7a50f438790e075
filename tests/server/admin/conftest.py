"""An app with the admin API over a test's database, asked without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from holdfast import Holdfast
from holdfast.server.app import ROUTERS, create_app
from holdfast.server.tokens import Tokens
from tests.clock import FakeClock

Ask = Callable[..., httpx.Response]


def build(hf: Holdfast, tokens: Tokens | None = None) -> FastAPI:
    """Without the guard, which has tests of its own."""
    return create_app(hf, tokens=tokens, routers=ROUTERS).api


@pytest.fixture(params=["sqlite-apsw", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """Both databases; which library reads SQLite is nothing that HTTP could notice."""
    if request.param == "postgres":
        found: str = request.getfixturevalue("postgres_url")
        return found
    return f"sqlite:///{request.getfixturevalue('sqlite_path')}"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def hf(url: str, clock: FakeClock) -> Iterator[Holdfast]:
    with Holdfast(url, clock=clock, sweep_every=0, strict=True, actor="server") as client:
        yield client


@pytest.fixture
def app(hf: Holdfast) -> FastAPI:
    return build(hf)


@pytest.fixture
def ask(app: FastAPI) -> Ask:
    """`ask("GET", "/admin/queues")`; an expected status other than 200 is the third argument."""
    return asking(app)


def asking(app: FastAPI) -> Ask:

    def ask(method: str, path: str, expected: int = 200, **options: Any) -> Any:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                return await http.request(method, path, **options)

        answer = asyncio.run(send())
        assert answer.status_code == expected, answer.text
        return answer.json()

    return ask
