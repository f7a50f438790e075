"""The two SQS of the tests, moto's, which is honest, and our own, which is not; and clients that deliver through it."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from holdfast import Holdfast
from tests.clock import FakeClock
from tests.conftest import url_of
from tests.sqs import emulator
from tests.sqs.fake_sqs import FakeSQS
from tests.steps import OpenClient


@pytest.fixture(params=["sqlite-apsw", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """Both databases; which library reads a SQLite file makes no difference to SQS."""
    return url_of(request, request.param)


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSQS]:
    """One that misbehaves on order; clients of this process and of its children find it."""
    with FakeSQS() as fake:
        for name, value in fake.environment.items():
            monkeypatch.setenv(name, value)
        yield fake


@pytest.fixture
def moto(monkeypatch: pytest.MonkeyPatch) -> str:
    """The endpoint of an honest one."""
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    return emulator.endpoint()


@pytest.fixture
def clock() -> FakeClock:
    """The database's time; SQS has its own (`sqs.advance`)."""
    return FakeClock()


@pytest.fixture
def client(url: str, clock: FakeClock, sqs: FakeSQS) -> Iterator[OpenClient]:
    """Clients of one database whose queues are delivered through the misbehaving SQS."""
    with ExitStack() as clients:

        def open_client(**settings: Any) -> Holdfast:
            usual = {"clock": clock, "sweep_every": 0, "delivery": "sqs", "sqs_create": True}
            return clients.enter_context(Holdfast(url, **{**usual, **settings}))

        yield open_client


@pytest.fixture
def hf(client: OpenClient) -> Holdfast:
    return client(worker="anna")


@pytest.fixture
def rival(client: OpenClient) -> Holdfast:
    return client(worker="ben")
