"""Clients for the conformance suite: the same tests on every store, by a clock that stands still."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from holdfast import Claim, Holdfast
from tests.clock import FakeClock
from tests.steps import OpenClient, row, run_of


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def client(url: str, clock: FakeClock) -> Iterator[OpenClient]:
    """Opens clients of the test's database: `client(tenant="acme")`. Each looks for ended leases before every claim."""
    with ExitStack() as clients:

        def open_client(**settings: Any) -> Holdfast:
            return clients.enter_context(Holdfast(url, **{"clock": clock, "sweep_every": 0, **settings}))

        yield open_client


@pytest.fixture
def hf(client: OpenClient) -> Holdfast:
    return client(worker="anna")


@pytest.fixture
def rival(client: OpenClient) -> Holdfast:
    """A second client of the same database, as another process would be."""
    return client(worker="ben")


@pytest.fixture(params=["lane", "row"])
def claim(hf: Holdfast, request: pytest.FixtureRequest) -> Claim:
    """One claim, from the lane and as a row."""
    return row(hf) if request.param == "row" else run_of(hf, 1)[0]


@pytest.fixture
def owned(hf: Holdfast) -> Holdfast:
    """q is owned by mia, mia by boss, boss by nobody."""
    hf.owner("boss", escalate_after="1h")
    hf.owner("mia", owner="boss", escalate_after="10m")
    hf.queue("q", owner="mia")
    return hf


@pytest.fixture
def two(hf: Holdfast) -> Holdfast:
    """A topic with two groups, both of which want everything."""
    hf.topic("t")
    for group in ("a", "b"):
        hf.subscribe("t", group)
    return hf
