"""Clients of a database that a released version has made."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from tests.clock import FakeClock
from tests.upgrades.make import opener
from tests.upgrades.releases import RELEASES, expected, unpack


@pytest.fixture
def url(empty_url: str) -> str:
    return empty_url


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def promised(release: str, url: str, sqlite_path: Path) -> dict[str, Any]:
    """The database of the release is at `url`; what must be observable in it."""
    unpack(release, url, sqlite_path)
    return expected(release, url)


@pytest.fixture
def clock(promised: dict[str, Any]) -> FakeClock:
    """It stands where it stood when the database was made."""
    clock = FakeClock()
    clock.advance((promised["now"] - clock()) / 1_000_000)
    return clock


@pytest.fixture
def client(url: str, clock: FakeClock) -> Iterator[Callable[..., Holdfast]]:
    with ExitStack() as clients:
        yield opener(clients, url, clock)


@pytest.fixture
def hf(client: Callable[..., Holdfast]) -> Holdfast:
    return client(worker="new")
