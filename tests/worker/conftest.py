"""Clients for the runtime: real time, on every store; processes, and what they leave behind."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from tests.acceptance.children import Family
from tests.worker.recorded import Recorded


@pytest.fixture
def hf(url: str) -> Iterator[Holdfast]:
    with Holdfast(url) as client:
        yield client


@pytest.fixture
def one(sqlite_path: Path) -> Iterator[Holdfast]:
    """A client of one store, for what has nothing to do with stores."""
    with Holdfast(f"sqlite:///{sqlite_path}") as client:
        yield client


@pytest.fixture
def connect(url: str) -> Iterator[Callable[..., Holdfast]]:
    """More clients of the same store."""
    with ExitStack() as clients:

        def connect(**settings: Any) -> Holdfast:
            return clients.enter_context(Holdfast(url, **settings))

        yield connect


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    """Processes of `tests.acceptance.workers`; none outlives the test."""
    family = Family(tmp_path / "logs")
    yield family
    family.end()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the private folders of programs are made; every test leaves it empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    recorded = Recorded()
    yield recorded
    recorded.tracers.shutdown()
    recorded.meters.shutdown()
