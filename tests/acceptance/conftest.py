"""What the acceptance tests share: processes, programs, and a client to look at the store with."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from tests.acceptance.children import Family
from tests.acceptance.programs import Programs


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    """Processes of `tests.acceptance.workers`; none outlives the test."""
    family = Family(tmp_path / "logs")
    yield family
    family.end()


@pytest.fixture
def connect() -> Iterator[Callable[..., Holdfast]]:
    """Clients in this process, closed after the test."""
    with ExitStack() as clients:

        def connect(url: str, **settings: Any) -> Holdfast:
            return clients.enter_context(Holdfast(url, **settings))

        yield connect


@pytest.fixture
def db(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if getattr(request, "param", "sqlite") == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/work.db"


@pytest.fixture
def hf(db: str, connect: Callable[..., Holdfast]) -> Holdfast:
    client = connect(db)
    client.queues.list()
    return client


@pytest.fixture
def programs(tmp_path: Path, db: str) -> Iterator[Programs]:
    found = Programs(tmp_path, db)
    yield found
    found.end()
